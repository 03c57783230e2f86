// Any operator by its kernel for CPUs: the arguments are lent as CPU tensors over the same bytes, the kernel runs, and what
// comes back is a tensor of the device again. Nothing is copied.
//
//   npu tensor ── npu storage ─┐                      kernel's result ── storage made inside: relabelled, ours
//                              ├─ the same bytes                      ├─ a lent storage:     a view, its npu storage
//   lent tensor ─ lent storage ┘                                      └─ a lent tensor:      the npu tensor itself
//
// A kernel may also change what it was lent (out=, resize_, set_, t_): sizes, strides and storages are carried over.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <string_view>
#include <vector>

#include "npu.h"

namespace gradus::npu {
namespace {

using c10::DispatchKey, c10::DispatchKeySet, c10::StorageImpl, c10::TensorImpl;
using StoragePtr = c10::intrusive_ptr<StorageImpl>;

StoragePtr owned(const c10::Storage& storage) { return StoragePtr::reclaim_copy(storage.unsafeGetStorageImpl()); }

DispatchKeySet with_backend(DispatchKeySet keys, c10::BackendComponent from, c10::BackendComponent to) {
    return keys.remove_backend(from) | DispatchKeySet(to);
}

at::Tensor tensor_over(const at::Tensor& like, StoragePtr storage, DispatchKeySet keys) {
    at::Tensor tensor = at::detail::make_tensor<TensorImpl>(c10::Storage(std::move(storage)), keys, like.dtype());
    TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    if (like.dim() != 1 || like.size(0) != 0 || like.storage_offset() != 0)  // a new tensor is [0]
        impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    return tensor;
}

// A lent storage keeps the one it stands for alive, and is known by this deleter.
void let_go(void* owner) { StoragePtr::reclaim(static_cast<StorageImpl*>(owner)); }

c10::DataPtr bytes_of(const StoragePtr& storage) {
    void* const data = storage->_mutable_data_ptr_no_checks().get();
    return {data, StoragePtr(storage).release(), &let_go, c10::kCPU};
}

StoragePtr owner_of(const StorageImpl& lent) {
    const c10::DataPtr& data = lent.data_ptr();
    if (data.get_deleter() != &let_go) return {};
    return StoragePtr::reclaim_copy(static_cast<StorageImpl*>(data.get_context()));
}

// Operators that take tensors of any device; and those whose lists, of indices, may be the CPU's.
bool is_mixing(std::string_view name) {
    return name == "aten::copy_" || name == "aten::_copy_from" || name == "aten::_foreach_copy_" ||
           name == "aten::_pack_padded_sequence" || name == "aten::_pad_packed_sequence";
}
bool takes_indices(std::string_view name) {
    return name.starts_with("aten::index") || name.starts_with("aten::_index_put") ||
           name.starts_with("aten::_unsafe_index");
}

// One call: who stands for whom.
class Call {
  public:
    explicit Call(const c10::OperatorHandle& op)
        : op_(op), mixes_devices_(is_mixing(op.operator_name().name)) {}

    void lend(c10::IValue& value, size_t argument) {
        if (value.isTensor()) {
            value = lend(value.toTensor(), argument, mixes_devices_);
        } else if (value.isTensorList() || value.isOptionalTensorList()) {
            value = lend_list(value, argument);
        } else if (value.isDevice()) {
            target_ = value.toDevice();
            if (target_->type() == kNpu) value = c10::Device(c10::kCPU);
        } else if (value.isGenerator()) {
            value = cpu_generator(value.toGenerator());
        } else if (value.isStorage() && value.toStorage().device_type() == kNpu) {
            see(value.toStorage().device(), argument);
            value = c10::Storage(lend(owned(value.toStorage())));
        }
    }

    // Where results go: to the device that was asked for, or that the arguments are on.
    c10::Device target() {
        if (target_ && target_->type() != kNpu) return *target_;
        if (target_) return resolved(*target_);
        return device_ ? *device_ : c10::Device(kNpu, current_device());
    }

    // Storages that the kernel made larger, tensors that it turned round.
    void carry_over() {
        for (Lent<StoragePtr>& pair : storages_) carry_over(*pair.npu, *pair.cpu, pair.npu);
        for (const Lent<at::Tensor>& pair : tensors_) carry_over(pair);
    }

    void take(c10::IValue& value, c10::Device target) {
        if (value.isTensor()) {
            value = take(value.toTensor(), target);
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> taken;
            for (const at::Tensor& tensor : value.toTensorVector()) taken.push_back(take(tensor, target));
            value = std::move(taken);
        }
    }

  private:
    template <class T>
    struct Lent {
        T npu, cpu;
    };

    void see(c10::Device device, size_t argument) {
        if (!device_) device_ = device;
        if (mixes_devices_) return;
        if (stranger_ || *device_ != device) refuse(*device_ != device ? device : *stranger_, argument);
    }

    void refuse(c10::Device other, size_t argument) const {
        TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", *device_,
                    " and ", other, "! (when checking argument ", op_.schema().arguments()[argument].name(),
                    " in method ", op_.operator_name(), ")");
    }

    at::Tensor lend(const at::Tensor& tensor, size_t argument, bool may_be_elsewhere) {
        if (!tensor.defined()) return tensor;
        if (tensor.device().type() != kNpu) {
            if (tensor.dim() > 0 && !may_be_elsewhere) {  // a number may come from anywhere
                if (device_) refuse(tensor.device(), argument);
                stranger_ = tensor.device();
            }
            strangers_.push_back(tensor.unsafeGetTensorImpl());
            return tensor;
        }
        see(tensor.device(), argument);
        TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided && tensor.has_storage() && !tensor.is_quantized(),
                                    op_.operator_name(), ": the npu device has dense tensors only");
        const DispatchKeySet keys = with_backend(tensor.key_set(), c10::BackendComponent::PrivateUse1Bit,
                                                 c10::BackendComponent::CPUBit);
        at::Tensor lent = tensor_over(tensor, lend(owned(tensor.storage())), keys);
        tensors_.push_back({tensor, lent});
        return lent;
    }

    StoragePtr lend(const StoragePtr& storage) {
        const auto [it, is_new] = places_.emplace(storage.get(), storages_.size());
        if (is_new)
            storages_.push_back({storage, c10::make_intrusive<StorageImpl>(
                                              StorageImpl::use_byte_size_t(), storage->nbytes(), bytes_of(storage),
                                              cpu_allocator(), storage->resizable())});
        return storages_[it->second].cpu;
    }

    c10::IValue lend_list(const c10::IValue& value, size_t argument) {
        const bool any = mixes_devices_ || takes_indices(op_.operator_name().name);
        if (value.isTensorList()) {
            c10::List<at::Tensor> lent;
            for (const at::Tensor& tensor : value.toTensorVector()) lent.push_back(lend(tensor, argument, any));
            return lent;
        }
        c10::List<std::optional<at::Tensor>> lent;
        for (const auto& tensor : value.toOptionalTensorVector())
            lent.push_back(tensor ? std::optional(lend(*tensor, argument, any)) : std::nullopt);
        return lent;
    }

    static void carry_over(StorageImpl& npu, StorageImpl& cpu, const StoragePtr& owner) {
        if (cpu.data_ptr().get_deleter() == &let_go && cpu.nbytes() == npu.nbytes()) return;
        const size_t bytes = cpu.nbytes();
        if (cpu.data_ptr().get_deleter() != &let_go)
            npu.set_data_ptr_noswap(adopt(std::move(cpu._mutable_data_ptr_no_checks()), bytes, npu.device()));
        npu.set_nbytes(bytes);
        cpu.set_data_ptr_noswap(bytes_of(owner));
    }

    void carry_over(const Lent<at::Tensor>& pair) {
        TensorImpl* const npu = pair.npu.unsafeGetTensorImpl();
        const StoragePtr storage = owned(pair.cpu.storage());
        StoragePtr owner = owner_of(*storage);
        if (!owner) owner = adopt(storage, pair.npu.device());  // set_ to a storage that is new
        if (owner.get() != npu->unsafe_storage().unsafeGetStorageImpl())
            npu->set_storage_keep_dtype(c10::Storage(std::move(owner)));
        if (npu->sizes() != pair.cpu.sizes() || npu->strides() != pair.cpu.strides() ||
            npu->storage_offset() != pair.cpu.storage_offset())
            npu->set_sizes_and_strides(pair.cpu.sizes(), pair.cpu.strides(), pair.cpu.storage_offset());
    }

    at::Tensor take(const at::Tensor& result, c10::Device target) {
        if (!result.defined() || result.device().type() != c10::kCPU) return result;
        TensorImpl* const impl = result.unsafeGetTensorImpl();
        for (const Lent<at::Tensor>& pair : tensors_)
            if (pair.cpu.unsafeGetTensorImpl() == impl) return pair.npu;
        if (std::find(strangers_.begin(), strangers_.end(), impl) != strangers_.end()) return result;
        TORCH_CHECK_NOT_IMPLEMENTED(result.layout() == c10::kStrided && result.has_storage() && !result.is_quantized(),
                                    op_.operator_name(), " gives a ", result.layout(),
                                    " tensor: the npu device has dense tensors only");
        const StoragePtr storage = owned(result.storage());
        StoragePtr npu = owner_of(*storage);
        if (!npu) npu = adopt(storage, target);
        return tensor_over(result, std::move(npu),
                           with_backend(result.key_set(), c10::BackendComponent::CPUBit,
                                        c10::BackendComponent::PrivateUse1Bit));
    }

    const c10::OperatorHandle& op_;
    const bool mixes_devices_;
    std::optional<c10::Device> target_, device_, stranger_;
    ska::flat_hash_map<const StorageImpl*, size_t> places_;
    std::vector<Lent<StoragePtr>> storages_;
    std::vector<Lent<at::Tensor>> tensors_;
    std::vector<const TensorImpl*> strangers_;  // tensors of other devices among the arguments
};

}  // namespace

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

// Operators that PyTorch composes of others would be taken apart before they came to the fallback, and not always as on the
// CPU: they are lent as a whole too.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        if (!name.name.starts_with("aten::")) continue;
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
