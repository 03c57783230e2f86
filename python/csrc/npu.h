// The device `npu`: PyTorch's PrivateUse1 over the library's device memory. Everything runs on the calling thread and
// is done when the call returns: an operator of PyTorch is the CPU's own kernel on the same bytes.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <ATen/core/Generator.h>
#include <ATen/core/stack.h>

#include "acl/acl.h"

namespace gradus::npu {

inline constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;

// What the runtime refuses becomes an exception with its own words.
void check(aclError code, const char* call);

// ---- npu_device.cpp: contexts are the runtime's, one for each device, current on each thread that asks for it

c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);
bool device_in_use(c10::DeviceIndex device);
c10::Device resolved(c10::Device device);  // `npu` without a number is the current one

// ---- npu_memory.cpp

c10::Allocator* device_allocator();
c10::Allocator* pinned_allocator();
c10::Allocator* cpu_allocator();  // the process's: hands out device memory to a thread that is inside the device

// While it lives, CPU tensors that this thread allocates lie in the memory of a device.
class Inside {
  public:
    explicit Inside(c10::DeviceIndex device);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    const c10::DeviceIndex before_;
};

// A storage of the CPU becomes one of the device: in place where its memory is the device's, by a copy where it is not.
c10::intrusive_ptr<c10::StorageImpl> adopt(const c10::intrusive_ptr<c10::StorageImpl>& storage, c10::Device device);
// Bytes that are ours get the device's label, others are copied.
c10::DataPtr adopt(c10::DataPtr&& data, size_t bytes, c10::Device device);

// ---- npu_fallback.cpp: any operator, by its kernel for CPUs

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// ---- npu_generator.cpp: the numbers are the CPU's

at::Generator make_generator(c10::Device device);
const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator cpu_generator(const at::Generator& generator);

}  // namespace gradus::npu
