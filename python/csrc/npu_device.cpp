// Devices, streams and events as PyTorch asks for them, on the runtime's own.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "npu.h"

namespace gradus::npu {
namespace {

using c10::Device, c10::DeviceIndex, c10::Stream;

constexpr size_t kMostDevices = 128;
constexpr size_t kStreams = 32;  // of a device; asked for more, they come round again

struct DeviceState {
    std::once_flag begun;
    std::atomic<aclrtContext> context = nullptr;
    std::array<std::atomic<aclrtStream>, kStreams> streams = {};
    std::atomic<size_t> next_stream = 0;
};
std::array<DeviceState, kMostDevices>& devices = *new std::array<DeviceState, kMostDevices>;

thread_local DeviceIndex current = -1;
thread_local std::array<c10::StreamId, kMostDevices> current_stream = {};

DeviceIndex valid(DeviceIndex device) {
    TORCH_CHECK(device >= 0 && device < device_count(), "npu:", static_cast<int>(device),
                ": no such device, there are ", static_cast<int>(device_count()));
    return device;
}

DeviceState& state_of(DeviceIndex device) { return devices[static_cast<size_t>(valid(device))]; }

// The device's one context; a thread that has none yet is given it by aclrtSetCurrentContext.
aclrtContext context_of(DeviceIndex device) {
    DeviceState& state = state_of(device);
    std::call_once(state.begun, [&] {
        aclrtContext before = nullptr, context = nullptr;
        const bool had_one = aclrtGetCurrentContext(&before) == ACL_SUCCESS;
        if (!had_one) aclGetRecentErrMsg();  // no error of anybody's
        check(aclrtSetDevice(device), "aclrtSetDevice");
        check(aclrtGetCurrentContext(&context), "aclrtGetCurrentContext");
        state.context = context;
        if (had_one) aclrtSetCurrentContext(before);
    });
    return state.context;
}

// Runs `action` with the device's context current: streams and events are of a context.
template <class Action>
auto on_device(DeviceIndex device, Action action) {
    const DeviceIndex before = current_device();
    if (before == device) return action();
    struct Back {
        DeviceIndex device;
        ~Back() { set_current_device(device); }
    } back{before};
    set_current_device(device);
    return action();
}

aclrtStream handle_of(const Stream& stream) { return reinterpret_cast<aclrtStream>(stream.id()); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kNpu; }
    Device exchangeDevice(Device device) const override {
        const Device before = getDevice();
        if (device.index() != before.index()) setDevice(device);
        return before;
    }
    Device getDevice() const override { return {kNpu, current_device()}; }
    void setDevice(Device device) const override { set_current_device(resolved(device).index()); }
    void uncheckedSetDevice(Device device) const noexcept override {
        if (device.index() >= 0 && device.index() < device_count()) set_current_device(device.index());
    }
    DeviceIndex deviceCount() const noexcept override { return device_count(); }
    c10::DeviceCapability getDeviceCapability(Device) const override { return {}; }

    Stream getStream(Device device) const override {
        device = resolved(device);
        return Stream(Stream::UNSAFE, device, current_stream[static_cast<size_t>(device.index())]);
    }
    Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, resolved(device)); }
    Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
    Stream getNewStream(Device device, int) const override {
        device = resolved(device);
        DeviceState& state = state_of(device.index());
        auto& place = state.streams[state.next_stream++ % kStreams];
        aclrtStream stream = place;
        if (stream == nullptr) {
            on_device(device.index(), [&] { check(aclrtCreateStream(&stream), "aclrtCreateStream"); });
            aclrtStream nobody = nullptr;  // two threads may have made one: the first stays
            if (!place.compare_exchange_strong(nobody, stream)) {
                on_device(device.index(), [&] { aclrtDestroyStream(stream); });
                stream = nobody;
            }
        }
        return Stream(Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(stream));
    }
    Stream exchangeStream(Stream stream) const override {
        const Stream before = getStream(stream.device());
        current_stream[static_cast<size_t>(stream.device_index())] = stream.id();
        return before;
    }
    void* getStreamNativeHandle(const Stream stream) const override { return handle_of(stream); }
    bool queryStream(const Stream& stream) const override {
        return on_device(stream.device_index(), [&] {
            aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
            check(aclrtStreamQuery(handle_of(stream), &status), "aclrtStreamQuery");
            return status == ACL_STREAM_STATUS_COMPLETE;
        });
    }
    void synchronizeStream(const Stream& stream) const override {
        on_device(stream.device_index(),
                  [&] { check(aclrtSynchronizeStream(handle_of(stream)), "aclrtSynchronizeStream"); });
    }
    void synchronizeDevice(const DeviceIndex device) const override {
        on_device(resolved({kNpu, device}).index(), [] { check(aclrtSynchronizeDevice(), "aclrtSynchronizeDevice"); });
    }

    void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag) const override {
        on_device(stream.device_index(), [&] {
            if (*event == nullptr) check(aclrtCreateEventExWithFlag(event, ACL_EVENT_TIME_LINE), "aclrtCreateEvent");
            check(aclrtRecordEvent(*event, handle_of(stream)), "aclrtRecordEvent");
        });
    }
    void block(void* event, const Stream& stream) const override {
        if (event == nullptr) return;
        on_device(stream.device_index(),
                  [&] { check(aclrtStreamWaitEvent(handle_of(stream), event), "aclrtStreamWaitEvent"); });
    }
    bool queryEvent(void* event) const override {
        if (event == nullptr) return true;
        aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
        check(aclrtQueryEventStatus(event, &status), "aclrtQueryEventStatus");
        return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    }
    void synchronizeEvent(void* event) const override {
        if (event != nullptr) check(aclrtSynchronizeEvent(event), "aclrtSynchronizeEvent");
    }
    void destroyEvent(void* event, const DeviceIndex) const noexcept override {
        if (event != nullptr) aclrtDestroyEvent(event);
    }
    double elapsedTime(void* began, void* ended, const DeviceIndex) const override {
        TORCH_CHECK(began != nullptr && ended != nullptr, "elapsed_time: both events must have been recorded");
        synchronizeEvent(began);
        synchronizeEvent(ended);
        float milliseconds = 0;
        check(aclrtEventElapsedTime(&milliseconds, began, ended), "aclrtEventElapsedTime");
        return milliseconds;
    }
};

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return device_count() > 0; }
    bool hasPrimaryContext(DeviceIndex device) const override { return device_in_use(device); }
    DeviceIndex deviceCount() const override { return device_count(); }
    DeviceIndex getCurrentDevice() const override { return current_device(); }
    void setCurrentDevice(DeviceIndex device) const override { set_current_device(device); }
    DeviceIndex exchangeDevice(DeviceIndex device) const override {
        const DeviceIndex before = current_device();
        if (device >= 0) set_current_device(device);
        return before;
    }
    DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
    const at::Generator& getDefaultGenerator(DeviceIndex device) const override { return default_generator(device); }
    at::Generator getNewGenerator(DeviceIndex device) const override { return make_generator({kNpu, device}); }
    Device getDeviceFromPtr(void* data) const override {
        aclrtPtrAttributes attributes;
        check(aclrtPointerGetAttributes(data, &attributes), "aclrtPointerGetAttributes");
        TORCH_CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE, "the address is of no npu device");
        return {kNpu, static_cast<DeviceIndex>(attributes.location.id)};
    }
    bool isPinnedPtr(const void* data) const override {
        aclrtPtrAttributes attributes;
        return data != nullptr && aclrtPointerGetAttributes(data, &attributes) == ACL_SUCCESS &&
               attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST;
    }
    c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
        TORCH_CHECK(storage.resizable(), "trying to resize a storage that is not resizable");
        on_device(storage.device().index(), [&] {
            c10::DataPtr data = device_allocator()->allocate(bytes);
            if (const size_t common = std::min(bytes, storage.nbytes()); common > 0)
                std::memcpy(data.get(), storage.data(), common);
            storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
            storage.unsafeGetStorageImpl()->set_nbytes(bytes);
        });
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

const bool hooked = [] {
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
}();

}  // namespace

void check(aclError code, const char* call) {
    if (code == ACL_SUCCESS) return;
    const char* words = aclGetRecentErrMsg();
    TORCH_CHECK(false, call, ": error ", code, words == nullptr ? "" : ": ", words == nullptr ? "" : words);
}

DeviceIndex device_count() noexcept {
    static const DeviceIndex count = [] {
        uint32_t found = 0;
        if (aclrtGetDeviceCount(&found) != ACL_SUCCESS) return DeviceIndex{0};
        return static_cast<DeviceIndex>(std::min<size_t>(found, kMostDevices - 1));
    }();
    return count;
}

DeviceIndex current_device() {
    if (current < 0) set_current_device(0);
    return current;
}

void set_current_device(DeviceIndex device) {
    if (current == device) return;
    check(aclrtSetCurrentContext(context_of(device)), "aclrtSetCurrentContext");
    // As with CPU tensors, backward runs on the thread that calls it: with its number of threads, and at once.
    if (current < 0) c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    current = device;
}

bool device_in_use(DeviceIndex device) { return state_of(device).context.load() != nullptr; }

Device resolved(Device device) { return {kNpu, device.has_index() ? valid(device.index()) : current_device()}; }

}  // namespace gradus::npu
