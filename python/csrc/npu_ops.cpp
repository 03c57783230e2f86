// The few operators that ask which device they are on, and what autocast does for the device.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>
#include <torch/version.h>

#include "npu.h"

// Looked for by gradus.torch_npu in the file, before it is loaded: a library for another PyTorch must not be.
extern "C" __attribute__((visibility("default"), used)) const char gradus_npu_built_for[] =
    "gradus.torch_npu built for torch " TORCH_VERSION ";";

namespace gradus::npu {
namespace {

// Tensors of CPU and device share a kind, so that module.npu() moves parameters in place, and tied ones stay tied.
bool may_share_data(const at::Tensor& self, const at::Tensor& from) {
    const auto is_dense = [](const at::Tensor& tensor) {
        return tensor.layout() == c10::kStrided && (tensor.is_cpu() || tensor.device().type() == kNpu);
    };
    return self.key_set() == from.key_set() || (is_dense(self) && is_dense(from));
}

void record_stream(at::Tensor&, c10::Stream) {}  // no work outlives its call

// On other devices PyTorch takes a fused operator, whose scale rounds another way: this is what it does on CPUs.
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
    TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
    if (p == 0 || !train || input.sym_numel() == 0) return input;
    if (p == 1) return input.mul(at::zeros({}, input.options()));
    at::Tensor noise = at::empty_like(input).bernoulli_(1 - p);
    noise.div_(1 - p);
    return input * noise;
}

// Which attention: the CPU's answer. Called by name, so that the tensors are lent as to any operator.
int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout_p, bool causal,
                         std::optional<double> scale, bool grouped) {
    return at::_fused_sdp_choice(query, key, value, mask, dropout_p, causal, scale, grouped);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_has_compatible_shallow_copy_type", &may_share_data);
    library.impl("record_stream", &record_stream);
    library.impl("dropout", &dropout);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) { library.impl("dropout", &dropout); }

// As on every device: a sigmoid that was rounded to 16 bits leaves no gradient near 0 and 1.
at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                       int64_t) {
    TORCH_CHECK(false,
                "binary_cross_entropy is unsafe under autocast: use binary_cross_entropy_with_logits on what "
                "went into the sigmoid, or leave autocast for it");
}

// PyTorch's own lists for devices.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
    using namespace at::autocast;
    using at::Scalar, at::ScalarType, at::IntArrayRef, at::Tensor;
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FULL_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
    AT_FORALL_LOWER_PRECISION_FP(LOWER)
    AT_FORALL_FP32(FULL)
    AT_FORALL_FP32_SET_OPT_DTYPE(FULL_DTYPE)
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
    AT_FORALL_PROMOTE(WIDEST)
    m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}

}  // namespace
}  // namespace gradus::npu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &gradus::npu::choose_attention)
}
