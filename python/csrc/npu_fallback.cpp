// Any operator by its kernel for CPUs.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "npu_call.h"

namespace gradus::npu {

using c10::DispatchKey, c10::DispatchKeySet;

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    Call call(op);
    const size_t arguments = op.schema().arguments().size(), first = stack->size() - arguments;
    for (size_t i = 0; i < arguments; ++i) call.lend((*stack)[first + i], i);
    const c10::Device target = call.target();
    {
        // what the kernel calls is the CPU's business: no gradients, no autocast of the CPU
        const at::AutoDispatchBelowADInplaceOrView below;
        const c10::impl::ExcludeDispatchKeyGuard no_autocast(DispatchKeySet(DispatchKey::AutocastCPU));
        const Inside inside(target.type() == kNpu ? target.index() : c10::DeviceIndex{-1});
        op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
    }
    call.carry_over();
    if (target.type() != kNpu) return;
    const size_t results = op.schema().returns().size();
    for (size_t i = stack->size() - results; i < stack->size(); ++i) call.take((*stack)[i], target);
}

namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

// Operators that PyTorch composes of others would be taken apart before they came to the fallback, and not always as
// on the CPU: they are lent as a whole too.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        // its second result stays on the CPU, whatever the device: it is composed as on every other
        if (!name.name.starts_with("aten::") || name.name == "aten::_pack_padded_sequence") continue;
        const auto op = dispatcher.findOp(name);
        if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) continue;
        const auto has = [&](DispatchKey key) { return op->hasKernelForDispatchKey(key); };
        if (!has(DispatchKey::CPU) && !has(DispatchKey::CompositeExplicitAutograd) &&
            !has(DispatchKey::CompositeExplicitAutogradNonFunctional))
            continue;
        const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
        library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
    }
}

}  // namespace
}  // namespace gradus::npu
