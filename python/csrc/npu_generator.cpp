// Random numbers: a generator of the device is one of the CPU under another name, so that the same seed gives the same
// numbers here and there; the default ones of all devices are the CPU's default.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include "npu.h"

namespace gradus::npu {
namespace {

class NpuGenerator final : public c10::GeneratorImpl {
  public:
    NpuGenerator(c10::Device device, at::Generator cpu)
        : c10::GeneratorImpl(device, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), cpu_(std::move(cpu)) {}

    void set_current_seed(uint64_t seed) override { cpu_.set_current_seed(seed); }
    void set_offset(uint64_t offset) override { cpu_.set_offset(offset); }
    uint64_t get_offset() const override { return cpu_.get_offset(); }
    uint64_t current_seed() const override { return cpu_.current_seed(); }
    uint64_t seed() override { return cpu_.seed(); }
    void set_state(const c10::TensorImpl& state) override { cpu_.unsafeGetGeneratorImpl()->set_state(state); }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        return cpu_.unsafeGetGeneratorImpl()->get_state();
    }
    const at::Generator& cpu() const { return cpu_; }

  private:
    NpuGenerator* clone_impl() const override { return new NpuGenerator(device(), cpu_.clone()); }

    at::Generator cpu_;
};

}  // namespace

at::Generator make_generator(c10::Device device) {
    return at::make_generator<NpuGenerator>(resolved(device), at::detail::createCPUGenerator());
}

const at::Generator& default_generator(c10::DeviceIndex device) {
    static const auto& all = *[] {
        auto* generators = new std::vector<at::Generator>;
        for (c10::DeviceIndex i = 0; i < device_count(); ++i)
            generators->push_back(
                at::make_generator<NpuGenerator>(c10::Device(kNpu, i), at::detail::getDefaultCPUGenerator()));
        return generators;
    }();
    return all.at(static_cast<size_t>(resolved({kNpu, device}).index()));
}

at::Generator cpu_generator(const at::Generator& generator) {
    if (generator.device().type() != kNpu) return generator;
    return static_cast<const NpuGenerator*>(generator.unsafeGetGeneratorImpl())->cpu();
}

}  // namespace gradus::npu
