// Copies and fills of device and host memory, with and without a stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_rt.h"
#include "base/status.h"

namespace gradus {

// `height` rows of `width` bytes; one row is a plain copy.
struct CopyShape {
    size_t width, height, to_pitch, from_pitch;
    size_t to_extent() const { return (height - 1) * to_pitch + width; }
    size_t from_extent() const { return (height - 1) * from_pitch + width; }
};

// Where it happens: at once, after the device's queued work, or in the order of a stream.
struct Where {
    bool on_stream = false;
    aclrtStream stream = nullptr;
};

Status copy(void* to, size_t to_most, const void* from, size_t count, aclrtMemcpyKind kind, Where where);
Status copy_2d(void* to, const void* from, const CopyShape& shape, aclrtMemcpyKind kind, Where where);
Status fill(void* to, size_t to_most, int32_t value, size_t count, Where where);

}  // namespace gradus
