// The operators as torch.ops.gradus.*, on PyTorch's stable ABI alone, so that one binary serves every PyTorch
// from 2.10 on and every Python. Kernels of CPU tensors; fakes, gradients and autocast are in gradus/torch/_ops.py.
#ifndef TORCH_TARGET_VERSION
#define TORCH_TARGET_VERSION 0x020a000000000000
#endif

#include <sys/mman.h>

#include <acl/acl.h>
#include <gradus/gradus.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Sizes = std::vector<int64_t>;
using Lengths = std::optional<torch::headeronly::HeaderOnlyArrayRef<int64_t>>;

// What is not here is refused by the operator, with the argument's name.
aclDataType acl_type(ScalarType type) {
    using S = ScalarType;
    using Pair = std::pair<ScalarType, aclDataType>;
    constexpr Pair kTypes[] = {{S::Float, ACL_FLOAT},
                               {S::BFloat16, ACL_BF16},
                               {S::Half, ACL_FLOAT16},
                               {S::Bool, ACL_BOOL},
                               {S::Byte, ACL_UINT8},
                               {S::Int, ACL_INT32},
                               {S::Long, ACL_INT64},
                               {S::Double, ACL_DOUBLE},
                               {S::Char, ACL_INT8},
                               {S::Short, ACL_INT16},
                               {S::UInt16, ACL_UINT16},
                               {S::UInt32, ACL_UINT32},
                               {S::UInt64, ACL_UINT64},
                               {S::ComplexHalf, ACL_COMPLEX32},
                               {S::ComplexFloat, ACL_COMPLEX64},
                               {S::ComplexDouble, ACL_COMPLEX128},
                               {S::Float8_e5m2, ACL_FLOAT8_E5M2},
                               {S::Float8_e4m3fn, ACL_FLOAT8_E4M3FN}};
    for (const auto& [torch, acl] : kTypes)
        if (torch == type) return acl;
    return ACL_DT_UNDEFINED;
}

[[noreturn]] void fail(int code) {
    const char* const message = aclGetRecentErrMsg();
    throw std::runtime_error("gradus (" + std::to_string(code) + "): " + (message != nullptr ? message : "no message"));
}

// One call of an operator: the arguments by C's names, then run(). Owns the handles; tensors stay where they are.
class Call {
  public:
    explicit Call(const char* op) : op_(op) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
        for (size_t i = 0; i < count_; ++i) {
            if (args_[i].kind == GRADUS_TENSOR) aclDestroyTensor(args_[i].value.tensor);
            if (args_[i].kind == GRADUS_INT_ARRAY) aclDestroyIntArray(args_[i].value.array);
        }
    }

    // const: a copy-on-write tensor is not copied for being read
    Call& input(const char* name, const Tensor& t) { return tensor(name, t, const_cast<void*>(t.const_data_ptr())); }
    Call& input(const char* name, const std::optional<Tensor>& t) { return t ? input(name, *t) : *this; }
    Call& output(const char* name, const Tensor& t) { return tensor(name, t, t.mutable_data_ptr()); }
    Call& lengths(const char* name, const Lengths& values) {
        if (!values) return *this;
        const aclIntArray* const array = aclCreateIntArray(values->data(), values->size());
        if (array == nullptr) fail(ACLNN_ERR_INNER);
        add(name, GRADUS_INT_ARRAY).array = array;
        return *this;
    }
    Call& integer(const char* name, int64_t value) { return add(name, GRADUS_INT).i = value, *this; }
    Call& real(const char* name, double value) { return add(name, GRADUS_DOUBLE).d = value, *this; }
    Call& flag(const char* name, bool value) { return add(name, GRADUS_BOOL).b = value, *this; }
    Call& text(const char* name, const char* value) { return add(name, GRADUS_STRING).s = value, *this; }

    // A mask of NsaSelectedAttention: only its presence counts.
    Call& mask(const char* name) {
        static uint8_t masked = 1;
        constexpr int64_t kOne[] = {1, 1};
        return handle(name, aclCreateTensor(kOne, 2, ACL_BOOL, nullptr, 0, ACL_FORMAT_ND, kOne, 2, &masked));
    }

    void run() {
        if (const aclnnStatus status = gradusRun(op_, args_.data(), count_); status != 0) fail(status);
    }

  private:
    decltype(gradusArg::value)& add(const char* name, gradusKind kind) {
        gradusArg& arg = args_.at(count_++);
        arg.name = name;
        arg.kind = kind;
        return arg.value;
    }

    Call& handle(const char* name, const aclTensor* made) {
        if (made == nullptr) fail(ACLNN_ERR_INNER);
        add(name, GRADUS_TENSOR).tensor = made;
        return *this;
    }

    // data is the first element: PyTorch has added the offset already, so the storage is what the view spans.
    Call& tensor(const char* name, const Tensor& t, void* data) {
        const auto sizes = t.sizes(), strides = t.strides();
        int64_t span = 1;
        for (size_t d = 0; d < sizes.size(); ++d) span += (sizes[d] - 1) * strides[d];
        if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) span = 0;
        return handle(name, aclCreateTensor(sizes.data(), sizes.size(), acl_type(t.scalar_type()), strides.data(), 0,
                                            ACL_FORMAT_ND, &span, 1, data));
    }

    const char* op_;
    std::array<gradusArg, 24> args_;
    size_t count_ = 0;
};

// 0 where there is no such dim: the operator will refuse the rank, in its own words.
int64_t size(const Tensor& t, int64_t d) {
    const int64_t rank = t.dim();
    if (d < 0) d += rank;
    return d < 0 || d >= rank ? 0 : t.size(d);
}

Sizes sizes_of(const Tensor& t) {
    const auto sizes = t.sizes();
    return {sizes.begin(), sizes.end()};
}

// Large results are new memory at every call, and small pages take longer to get than the results to write: SwiGLU
// [4096, 22016] f32 forward and backward 235 ms, with large pages 130.
void prefer_large_pages(const Tensor& t) {
    constexpr uintptr_t kLarge = 2 << 20;
    const auto begin = reinterpret_cast<uintptr_t>(t.mutable_data_ptr());
    const uintptr_t end = begin + static_cast<uintptr_t>(t.numel()) * t.element_size();
    const uintptr_t first = (begin + kLarge - 1) & -kLarge, last = end & -kLarge;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // a wish: may fail
}

// A new contiguous tensor. Not torch::stable::empty, which looks its operator up by name at every call.
Tensor empty(const Sizes& sizes, ScalarType type) {
    Sizes strides(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
    AtenTensorHandle made = nullptr;
    const auto code = torch::stable::detail::to<int32_t>(torch::stable::detail::from(type));
    if (aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), code,
                                 aoti_torch_device_type_cpu(), 0, &made) != TORCH_SUCCESS)
        throw std::runtime_error("gradus: PyTorch has no memory for a result");
    Tensor result(made);
    prefer_large_pages(result);
    return result;
}

// Row statistics are f32; f64 where the data is (precision=golden).
ScalarType statistics_type(const Tensor& data) {
    return data.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
}

Tensor swi_glu(Tensor x, int64_t dim) {
    Sizes sizes = sizes_of(x);
    const int64_t rank = x.dim(), d = dim < 0 ? dim + rank : dim;
    if (d >= 0 && d < rank) sizes[static_cast<size_t>(d)] /= 2;
    Tensor out = empty(sizes, x.scalar_type());
    Call("SwiGlu").input("x", x).integer("dim", dim).output("out", out).run();
    return out;
}

Tensor swi_glu_grad(Tensor y_grad, Tensor x, int64_t dim) {
    Tensor out = empty(sizes_of(x), x.scalar_type());
    Call("SwiGluGrad").input("yGrad", y_grad).input("x", x).integer("dim", dim).output("out", out).run();
    return out;
}

Tensor exp_segsum(Tensor x) {
    Sizes sizes = sizes_of(x);
    sizes.push_back(size(x, -1));
    Tensor out = empty(sizes, x.scalar_type());
    Call("ExpSegsum").input("self", x).output("out", out).run();
    return out;
}

Tensor exp_segsum_backward(Tensor grad_output, Tensor y) {
    Sizes sizes = sizes_of(grad_output);
    if (!sizes.empty()) sizes.pop_back();
    Tensor out = empty(sizes, grad_output.scalar_type());
    Call("ExpSegsumBackward").input("gradOutput", grad_output).input("gradSelf", y).output("gradInput", out).run();
    return out;
}

Tensor scaled_masked_softmax(Tensor x, Tensor mask, double scale) {
    Tensor y = empty(sizes_of(x), x.scalar_type());
    Call call("ScaledMaskedSoftmax");
    call.input("x", x).input("mask", mask).real("scale", scale).flag("fixTriuMask", false).output("y", y).run();
    return y;
}

Tensor scaled_masked_softmax_backward(Tensor grad_output, Tensor y, Tensor mask, double scale) {
    Tensor out = empty(sizes_of(y), y.scalar_type());
    Call call("ScaledMaskedSoftmaxBackward");
    call.input("gradOutput", grad_output).input("y", y).input("mask", mask);
    call.real("scale", scale).flag("fixTriuMask", false).output("out", out).run();
    return out;
}

// What both operators of nsa_selected_attention take. causal decides the mask and sparseMode at once, so that forward
// and gradient cannot disagree.
void nsa_attributes(Call& call, const Tensor& query, double scale, int64_t block_size, int64_t block_count, bool causal,
                    const Lengths& seq_q, const Lengths& seq_kv) {
    call.lengths("actualSeqQLenOptional", seq_q).lengths("actualSeqKvLenOptional", seq_kv);
    call.real("scaleValue", scale).integer("headNum", size(query, 1)).text("inputLayout", "TND");
    call.integer("sparseMode", causal ? 2 : 0);
    call.integer("selectedBlockSize", block_size).integer("selectedBlockCount", block_count);
    if (causal) call.mask("attenMaskOptional");
}

std::tuple<Tensor, Tensor, Tensor> nsa_selected_attention(Tensor query, Tensor key, Tensor value, Tensor topk_indices,
                                                          double scale, int64_t block_size, int64_t block_count,
                                                          bool causal, Lengths seq_q, Lengths seq_kv) {
    const int64_t rows = size(query, 0), heads = size(query, 1);
    Tensor out = empty({rows, heads, size(value, 2)}, query.scalar_type());
    Tensor max = empty({rows, heads, 8}, statistics_type(query)), sum = empty({rows, heads, 8}, statistics_type(query));
    Call call("NsaSelectedAttention");
    call.input("query", query).input("key", key).input("value", value).input("topkIndices", topk_indices);
    nsa_attributes(call, query, scale, block_size, block_count, causal, seq_q, seq_kv);
    call.output("attentionOut", out).output("softmaxMaxOut", max).output("softmaxSumOut", sum).run();
    return {out, max, sum};
}

std::tuple<Tensor, Tensor, Tensor> nsa_selected_attention_grad(Tensor grad, Tensor query, Tensor key, Tensor value,
                                                               std::optional<Tensor> out, Tensor max, Tensor sum,
                                                               Tensor topk_indices, double scale, int64_t block_size,
                                                               int64_t block_count, bool causal, Lengths seq_q,
                                                               Lengths seq_kv) {
    Tensor dq = empty(sizes_of(query), query.scalar_type()), dk = empty(sizes_of(key), key.scalar_type());
    Tensor dv = empty(sizes_of(value), value.scalar_type());
    Call call("NsaSelectedAttentionGrad");
    call.input("query", query).input("key", key).input("value", value).input("topkIndices", topk_indices);
    call.input("attentionOut", out).input("attentionOutGrad", grad).input("softmaxMax", max).input("softmaxSum", sum);
    nsa_attributes(call, query, scale, block_size, block_count, causal, seq_q, seq_kv);
    call.output("dqOut", dq).output("dkOut", dk).output("dvOut", dv).run();
    return {dq, dk, dv};
}

// logits has no elements unless asked for: nothing of size tokens x vocabulary exists then.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> fused_linear_online_max_sum(Tensor x, Tensor weight,
                                                                                       Tensor target, int64_t start,
                                                                                       int64_t end,
                                                                                       bool return_logits) {
    const int64_t rows = size(x, 0);
    const ScalarType f = statistics_type(x);
    Tensor max = empty({rows}, f), sum = empty({rows}, f), predicted = empty({rows}, f);
    Tensor mask = empty({(rows + 7) / 8}, ScalarType::Byte), masked_target = empty({rows}, target.scalar_type());
    Tensor logits = empty(return_logits ? Sizes{rows, size(weight, 0)} : Sizes{0}, x.scalar_type());
    Call call("FusedLinearOnlineMaxSum");
    call.input("input", x).input("weight", weight).input("target", target);
    call.integer("vocabStartIndex", start).integer("vocabEndIndex", end);
    call.output("logitsMaxLocalOut", max).output("sumExpLogitsLocalOut", sum);
    call.output("predictedLogitsLocalOut", predicted);
    call.output("targetMaskOut", mask).output("maskedTargetOut", masked_target);
    if (return_logits) call.output("vocabParallelLogitsOutOptional", logits);
    call.run();
    return {max, sum, predicted, mask, masked_target, logits};
}

std::tuple<Tensor, Tensor> fused_cross_entropy_loss_with_max_sum(Tensor max, Tensor sum, Tensor predicted,
                                                                 std::optional<Tensor> logits) {
    Tensor loss = empty(sizes_of(max), max.scalar_type());
    Tensor softmax = empty(logits ? sizes_of(*logits) : Sizes{0}, max.scalar_type());
    Call call("FusedCrossEntropyLossWithMaxSum");
    call.input("logitsMax", max).input("sumExpLogits", sum).input("predictedLogits", predicted);
    call.input("vocabParallelLogitsOptional", logits).output("lossOut", loss);
    if (logits) call.output("softMaxOutOptional", softmax);
    call.run();
    return {loss, softmax};
}

std::tuple<Tensor, Tensor> fused_linear_cross_entropy_loss_grad(Tensor grad, Tensor x, Tensor weight,
                                                                Tensor target_mask, Tensor masked_target,
                                                                std::optional<Tensor> max, std::optional<Tensor> sum,
                                                                std::optional<Tensor> softmax) {
    Tensor dx = empty(sizes_of(x), x.scalar_type()), dweight = empty(sizes_of(weight), weight.scalar_type());
    Call call("FusedLinearCrossEntropyLossGrad");
    call.input("grad", grad).input("input", x).input("weight", weight);
    call.input("targetMask", target_mask).input("maskedTarget", masked_target);
    call.input("logitsMaxOptional", max).input("sumExpLogitsOptional", sum).input("softmaxOptional", softmax);
    call.output("inputGradOut", dx).output("weightGradOut", dweight).run();
    return {dx, dweight};
}

// Statistics and gradients of a whole vocabulary at once: three products instead of the four of the two above.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> linear_cross_entropy_with_grad(Tensor grad, Tensor x, Tensor weight,
                                                                                  Tensor target) {
    const int64_t rows = size(x, 0);
    const ScalarType f = statistics_type(x);
    Tensor max = empty({rows}, f), sum = empty({rows}, f), predicted = empty({rows}, f);
    Tensor dx = empty(sizes_of(x), x.scalar_type()), dweight = empty(sizes_of(weight), weight.scalar_type());
    Call call("LinearCrossEntropyWithGrad");
    call.input("grad", grad).input("input", x).input("weight", weight).input("target", target);
    call.output("logitsMaxOut", max).output("sumExpLogitsOut", sum).output("predictedLogitsOut", predicted);
    call.output("inputGradOut", dx).output("weightGradOut", dweight).run();
    return {max, sum, predicted, dx, dweight};
}

// PyTorch's threads, lent to the library: as many as torch.set_num_threads allows take one index after the other.
struct Share {
    void (*body)(void* data, int64_t i);
    void* data;
    int64_t count;
    std::atomic<int64_t> next{0};

    void work() {
        for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(data, i);
    }
};

void torch_loop(void*, int64_t count, void (*body)(void* data, int64_t i), void* data) {
    Share share{body, data, count};
    uint32_t threads = 1;
    if (torch_get_num_threads(&threads) == TORCH_SUCCESS && threads > 1)
        torch_parallel_for(
            0, std::min<int64_t>(count, threads), 1,
            [](int64_t, int64_t, void* context) { static_cast<Share*>(context)->work(); }, &share);
    share.work();  // all of it where there was no other thread; otherwise nothing is left
}

}  // namespace

// Whether the library's loops run on PyTorch's threads (1) or on its own (0); for gradus.torch.use_torch_threads.
extern "C" __attribute__((visibility("default"))) int gradus_use_torch_threads(int on) {
    return gradusSetLoop(on != 0 ? torch_loop : nullptr, nullptr);
}

STABLE_TORCH_LIBRARY(gradus, m) {
    m.def("swi_glu(Tensor x, int dim) -> Tensor");
    m.def("swi_glu_grad(Tensor y_grad, Tensor x, int dim) -> Tensor");
    m.def("exp_segsum(Tensor x) -> Tensor");
    m.def("exp_segsum_backward(Tensor grad_output, Tensor y) -> Tensor");
    m.def("scaled_masked_softmax(Tensor x, Tensor mask, float scale) -> Tensor");
    m.def("scaled_masked_softmax_backward(Tensor grad_output, Tensor y, Tensor mask, float scale) -> Tensor");
    m.def(
        "nsa_selected_attention(Tensor query, Tensor key, Tensor value, Tensor topk_indices, float scale, "
        "int block_size, int block_count, bool causal, int[]? seq_q, int[]? seq_kv) "
        "-> (Tensor out, Tensor max, Tensor sum)");
    m.def(
        "nsa_selected_attention_grad(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? out, Tensor max, "
        "Tensor sum, Tensor topk_indices, float scale, int block_size, int block_count, bool causal, int[]? seq_q, "
        "int[]? seq_kv) -> (Tensor dq, Tensor dk, Tensor dv)");
    m.def(
        "fused_linear_online_max_sum(Tensor x, Tensor weight, Tensor target, int start, int end, bool return_logits) "
        "-> (Tensor max, Tensor sum, Tensor predicted, Tensor target_mask, Tensor masked_target, Tensor logits)");
    m.def(
        "fused_cross_entropy_loss_with_max_sum(Tensor max, Tensor sum, Tensor predicted, Tensor? logits) "
        "-> (Tensor loss, Tensor softmax)");
    m.def(
        "fused_linear_cross_entropy_loss_grad(Tensor grad, Tensor x, Tensor weight, Tensor target_mask, "
        "Tensor masked_target, Tensor? max, Tensor? sum, Tensor? softmax) -> (Tensor dx, Tensor dweight)");
    m.def(
        "linear_cross_entropy_with_grad(Tensor grad, Tensor x, Tensor weight, Tensor target) "
        "-> (Tensor max, Tensor sum, Tensor predicted, Tensor dx, Tensor dweight)");
}

STABLE_TORCH_LIBRARY_IMPL(gradus, CPU, m) {
    m.impl("swi_glu", TORCH_BOX(&swi_glu));
    m.impl("swi_glu_grad", TORCH_BOX(&swi_glu_grad));
    m.impl("exp_segsum", TORCH_BOX(&exp_segsum));
    m.impl("exp_segsum_backward", TORCH_BOX(&exp_segsum_backward));
    m.impl("scaled_masked_softmax", TORCH_BOX(&scaled_masked_softmax));
    m.impl("scaled_masked_softmax_backward", TORCH_BOX(&scaled_masked_softmax_backward));
    m.impl("nsa_selected_attention", TORCH_BOX(&nsa_selected_attention));
    m.impl("nsa_selected_attention_grad", TORCH_BOX(&nsa_selected_attention_grad));
    m.impl("fused_linear_online_max_sum", TORCH_BOX(&fused_linear_online_max_sum));
    m.impl("fused_cross_entropy_loss_with_max_sum", TORCH_BOX(&fused_cross_entropy_loss_with_max_sum));
    m.impl("fused_linear_cross_entropy_loss_grad", TORCH_BOX(&fused_linear_cross_entropy_loss_grad));
    m.impl("linear_cross_entropy_with_grad", TORCH_BOX(&linear_cross_entropy_with_grad));
}
