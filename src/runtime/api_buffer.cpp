// acl: a buffer and its size, as one object.
#include "base/registry.h"
#include "runtime/api.h"

using namespace gradus;

namespace {

// Behind the process lock.
struct DataBuffer {
    void* data;
    size_t size;
};
using DataBuffers = Registry<DataBuffer, HandleKind::data_buffer>;

Result<std::shared_ptr<DataBuffer>> find(const aclDataBuffer* handle) {
    auto buffer = DataBuffers::instance().find(handle);
    if (!buffer) return Status(ACL_ERROR_INVALID_PARAM, "dataBuffer: not a live aclDataBuffer");
    return buffer;
}

}  // namespace

extern "C" {

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
    return guarded_value<aclDataBuffer*>(__func__, kAcl, nullptr, [&]() -> Result<aclDataBuffer*> {
        return static_cast<aclDataBuffer*>(
            DataBuffers::instance().add(std::make_shared<DataBuffer>(DataBuffer{data, size})));
    });
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
    return guarded(__func__, kAcl, [&]() -> Status {
        if (DataBuffers::instance().take(dataBuffer)) return {};
        return find(dataBuffer).status();
    });
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
    return guarded(__func__, kAcl, [&]() -> Status {
        auto buffer = find(dataBuffer);
        if (!buffer.ok()) return buffer.status();
        const Lock lock = hold();
        **buffer = {data, size};
        return {};
    });
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
    return guarded_value<void*>(__func__, kAcl, nullptr, [&]() -> Result<void*> {
        auto buffer = find(dataBuffer);
        if (!buffer.ok()) return buffer.status();
        const Lock lock = hold();
        return (*buffer)->data;
    });
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
    return guarded_value<size_t>(__func__, kAcl, 0, [&]() -> Result<size_t> {
        auto buffer = find(dataBuffer);
        if (!buffer.ok()) return buffer.status();
        const Lock lock = hold();
        return (*buffer)->size;
    });
}

}  // extern "C"
