// One call of an operator on the CPU's kernel: the arguments are lent as CPU tensors over the same bytes, and what
// comes back is a tensor of the device again. Nothing is copied.
//
//   npu tensor ── npu storage ─┐                      kernel's result ── storage made inside: relabelled, ours
//                              ├─ the same bytes                      ├─ a lent storage:     a view, its npu storage
//   lent tensor ─ lent storage ┘                                      └─ a lent tensor:      the npu tensor itself
//
// A kernel may also change what it was lent (out=, resize_, set_, t_): sizes, strides and storages are carried over.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/flat_hash_map.h>

#include <optional>
#include <vector>

#include "npu.h"

namespace gradus::npu {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

template <class T>
struct Lent {
    T npu, cpu;
};

class Call {
  public:
    explicit Call(const c10::OperatorHandle& op);

    void lend(c10::IValue& value, size_t argument);
    // Where results go: to the device that was asked for, or that the arguments are on.
    c10::Device target() const;
    // Storages that the kernel made larger, tensors that it turned round.
    void carry_over();
    void take(c10::IValue& value, c10::Device target) const;
    const std::vector<Lent<at::Tensor>>& tensors() const { return tensors_; }

  private:
    void see(c10::Device device, size_t argument);
    void refuse(c10::Device other, size_t argument) const;
    at::Tensor lend(const at::Tensor& tensor, size_t argument, bool may_be_elsewhere);
    StoragePtr lend(const StoragePtr& storage);
    c10::IValue lend_list(const c10::IValue& value, size_t argument);
    at::Tensor take(const at::Tensor& result, c10::Device target) const;

    const c10::OperatorHandle& op_;
    const bool mixes_devices_;
    std::optional<c10::Device> target_, device_, stranger_;
    ska::flat_hash_map<const c10::StorageImpl*, size_t> places_;
    std::vector<Lent<StoragePtr>> storages_;
    std::vector<Lent<at::Tensor>> tensors_;
    std::vector<const c10::TensorImpl*> strangers_;  // tensors of other devices among the arguments
};

// The other way round: a tensor of the device over the bytes of a CPU tensor that stays one, whose storage it keeps.
at::Tensor device_tensor_over(const at::Tensor& cpu, c10::Device device);
// And a CPU tensor over the bytes of the device's.
at::Tensor cpu_tensor_over(const at::Tensor& npu);

}  // namespace gradus::npu
