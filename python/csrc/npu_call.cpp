// How a call lends and takes: npu_call.h.
#include "npu_call.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>

namespace gradus::npu {
namespace {

using c10::DispatchKeySet, c10::StorageImpl, c10::TensorImpl;

constexpr auto kCpuBit = c10::BackendComponent::CPUBit, kNpuBit = c10::BackendComponent::PrivateUse1Bit;

StoragePtr owned(const c10::Storage& storage) { return StoragePtr::reclaim_copy(storage.unsafeGetStorageImpl()); }

// A tensor that looks like another, over another storage of another device.
at::Tensor tensor_over(const at::Tensor& like, StoragePtr storage, c10::BackendComponent from,
                       c10::BackendComponent to) {
    const DispatchKeySet keys = like.key_set().remove_backend(from) | DispatchKeySet(to);
    at::Tensor tensor = at::detail::make_tensor<TensorImpl>(c10::Storage(std::move(storage)), keys, like.dtype());
    TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    return tensor;
}

// A lent storage keeps the one it stands for alive, and is known by this deleter.
void let_go(void* owner) { StoragePtr::reclaim(static_cast<StorageImpl*>(owner)); }

c10::DataPtr bytes_of(const StoragePtr& storage, c10::Device label) {
    void* const data = storage->_mutable_data_ptr_no_checks().get();
    return {data, StoragePtr(storage).release(), &let_go, label};
}

StoragePtr lent_storage(const StoragePtr& storage, c10::Device label, c10::Allocator* allocator) {
    return c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), storage->nbytes(), bytes_of(storage, label),
                                            allocator, storage->resizable());
}

StoragePtr owner_of(const StorageImpl& lent) {
    const c10::DataPtr& data = lent.data_ptr();
    if (data.get_deleter() != &let_go) return {};
    return StoragePtr::reclaim_copy(static_cast<StorageImpl*>(data.get_context()));
}

// Operators that take tensors of any device; and those whose lists, of indices, may be the CPU's.
bool is_mixing(std::string_view name) {
    return name == "aten::copy_" || name == "aten::_copy_from" || name == "aten::_foreach_copy_" ||
           name == "aten::lstm" || name == "aten::gru" || name == "aten::rnn_tanh" || name == "aten::rnn_relu";
}
bool takes_indices(std::string_view name) {
    return name.starts_with("aten::index") || name.starts_with("aten::_index_put") ||
           name.starts_with("aten::_unsafe_index");
}

void check_dense(const at::Tensor& tensor, const c10::OperatorHandle& op, const char* verb) {
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided && tensor.has_storage() && !tensor.is_quantized(),
                                op.operator_name(), verb, tensor.layout(),
                                " tensor: the npu device has dense tensors only");
}

void carry_over_storage(const Lent<StoragePtr>& pair) {
    StorageImpl &npu = *pair.npu, &cpu = *pair.cpu;
    const bool replaced = cpu.data_ptr().get_deleter() != &let_go;
    if (!replaced && cpu.nbytes() == npu.nbytes()) return;
    const size_t bytes = cpu.nbytes();
    if (replaced) npu.set_data_ptr_noswap(adopt(std::move(cpu._mutable_data_ptr_no_checks()), bytes, npu.device()));
    npu.set_nbytes(bytes);
    cpu.set_data_ptr_noswap(bytes_of(pair.npu, c10::kCPU));
}

void carry_over_tensor(const Lent<at::Tensor>& pair) {
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

}  // namespace

Call::Call(const c10::OperatorHandle& op) : op_(op), mixes_devices_(is_mixing(op.operator_name().name)) {}

void Call::lend(c10::IValue& value, size_t argument) {
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

c10::Device Call::target() const {
    if (target_) return target_->type() == kNpu ? resolved(*target_) : *target_;
    return device_ ? *device_ : c10::Device(kNpu, current_device());
}

void Call::carry_over() {
    for (const Lent<StoragePtr>& pair : storages_) carry_over_storage(pair);
    for (const Lent<at::Tensor>& pair : tensors_) carry_over_tensor(pair);
}

void Call::take(c10::IValue& value, c10::Device target) const {
    if (value.isTensor()) {
        value = take(value.toTensor(), target);
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> taken;
        for (const at::Tensor& tensor : value.toTensorVector()) taken.push_back(take(tensor, target));
        value = std::move(taken);
    }
}

void Call::see(c10::Device device, size_t argument) {
    if (!device_) device_ = device;
    if (mixes_devices_) return;
    if (stranger_ || *device_ != device) refuse(*device_ != device ? device : *stranger_, argument);
}

void Call::refuse(c10::Device other, size_t argument) const {
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", *device_,
                " and ", other, "! (when checking argument ", op_.schema().arguments()[argument].name(), " in method ",
                op_.operator_name(), ")");
}

at::Tensor Call::lend(const at::Tensor& tensor, size_t argument, bool may_be_elsewhere) {
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
    check_dense(tensor, op_, " is given a ");
    at::Tensor lent = tensor_over(tensor, lend(owned(tensor.storage())), kNpuBit, kCpuBit);
    tensors_.push_back({tensor, lent});
    return lent;
}

StoragePtr Call::lend(const StoragePtr& storage) {
    const auto [it, is_new] = places_.emplace(storage.get(), storages_.size());
    if (is_new) storages_.push_back({storage, lent_storage(storage, c10::kCPU, cpu_allocator())});
    return storages_[it->second].cpu;
}

c10::IValue Call::lend_list(const c10::IValue& value, size_t argument) {
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

at::Tensor Call::take(const at::Tensor& result, c10::Device target) const {
    if (!result.defined() || result.device().type() != c10::kCPU) return result;
    TensorImpl* const impl = result.unsafeGetTensorImpl();
    for (const Lent<at::Tensor>& pair : tensors_)
        if (pair.cpu.unsafeGetTensorImpl() == impl) return pair.npu;
    if (std::find(strangers_.begin(), strangers_.end(), impl) != strangers_.end()) return result;
    check_dense(result, op_, " gives a ");
    const StoragePtr storage = owned(result.storage());
    StoragePtr npu = owner_of(*storage);
    if (!npu) npu = adopt(storage, target);
    return tensor_over(result, std::move(npu), kCpuBit, kNpuBit);
}

at::Tensor device_tensor_over(const at::Tensor& cpu, c10::Device device) {
    return tensor_over(cpu, lent_storage(owned(cpu.storage()), device, device_allocator()), kCpuBit, kNpuBit);
}

at::Tensor cpu_tensor_over(const at::Tensor& npu) {
    return tensor_over(npu, lent_storage(owned(npu.storage()), c10::kCPU, cpu_allocator()), kNpuBit, kCpuBit);
}

}  // namespace gradus::npu
