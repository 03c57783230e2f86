#include "runtime/copy.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/config.h"
#include "runtime/context.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "runtime/stream.h"

namespace gradus {
namespace {

// Waking a thread costs about as much as moving 256 KiB; one core does not fill the memory bus above 1 MiB.
constexpr size_t kSmall = size_t{256} << 10, kBlock = size_t{1} << 20;

using Owner = std::shared_ptr<const Allocation>;  // nullptr: pageable host memory

bool on_device(const Owner& owner) { return owner && owner->kind() == MemoryKind::device; }

bool disjoint(const std::byte* a, const std::byte* b, size_t bytes) { return a + bytes <= b || b + bytes <= a; }

template <typename F>
void in_blocks(size_t bytes, int threads, const F& f) noexcept {
    if (bytes <= kBlock) return f(size_t{0}, bytes);
    const auto blocks = static_cast<int64_t>((bytes + kBlock - 1) / kBlock);
    parallel_for(blocks, threads, [&](int64_t block, int) {
        const size_t begin = static_cast<size_t>(block) * kBlock;
        f(begin, std::min(kBlock, bytes - begin));
    });
}

struct Copy {
    std::byte* to;
    const std::byte* from;
    CopyShape shape;
    int threads;
    Owner to_owner, from_owner;

    size_t bytes() const { return shape.width * shape.height; }
    bool pageable() const { return !to_owner || !from_owner; }
    void run() const noexcept {
        for (size_t row = 0; row < shape.height; ++row)
            run_row(to + row * shape.to_pitch, from + row * shape.from_pitch);
    }

  private:
    void run_row(std::byte* to_row, const std::byte* from_row) const noexcept {
        if (!disjoint(to_row, from_row, shape.width))
            std::memmove(to_row, from_row, shape.width);  // in one piece, or blocks overtake each other
        else
            in_blocks(shape.width, threads, [=](size_t at, size_t n) { std::memcpy(to_row + at, from_row + at, n); });
    }
};

struct Fill {
    std::byte* to;
    int value;
    size_t count;
    int threads;
    Owner to_owner, from_owner = nullptr;

    size_t bytes() const { return count; }
    bool pageable() const { return !to_owner; }
    void run() const noexcept {
        in_blocks(count, threads, [this](size_t at, size_t n) { std::memset(to + at, value, n); });
    }
};

template <typename Work>
class WorkTask final : public Task {
  public:
    explicit WorkTask(Work work) : work_(std::move(work)) { small = work_.bytes() <= kSmall; }
    int run() noexcept override { return work_.run(), 0; }

  private:
    Work work_;
};

// Freed memory is not live, also while the sanitizer keeps its address.
bool is_host_memory(const void* begin, size_t bytes) {
    if (!is_mapped(begin, bytes)) return false;
    const Lock lock = hold();
    return !is_quarantined(begin);
}

// Finds who owns the range and checks that it stays inside. An address that should be the device's but is not ours may
// be the program's host memory, which is fine, or memory freed before, which would be a fault.
Status check_range(const char* name, const void* begin, size_t bytes, bool device_expected, Owner& owner) {
    owner = find_allocation(begin);
    if (!owner) {
        if (!device_expected || is_host_memory(begin, bytes)) return {};
        return {ACL_ERROR_RT_PARAM_INVALID, concat(name, ": not the address of live memory")};
    }
    if (owner->contains(begin, bytes)) return {};
    const auto offset = static_cast<size_t>(static_cast<const std::byte*>(begin) - owner->address());
    return {ACL_ERROR_RT_PARAM_INVALID,
            concat(name, ": ", bytes, " bytes at offset ", offset, " leave its allocation, expected at most ",
                   owner->footprint() - offset)};
}

Status check_copy(const void* to, const void* from, aclrtMemcpyKind kind) {
    if (to == nullptr || from == nullptr) return {ACL_ERROR_INVALID_PARAM, to == nullptr ? "dst: NULL" : "src: NULL"};
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return {ACL_ERROR_INVALID_PARAM, concat("kind: ", static_cast<int>(kind), ", expected 0 to 5")};
    return {};
}

Status check_most(const char* name, size_t most, size_t count) {
    if (count <= most) return {};
    return {ACL_ERROR_RT_PARAM_INVALID, concat("count: ", count, ", expected at most ", name, " = ", most)};
}

Access access_to(const char* argument, const void* address, const CopyShape& shape, size_t pitch, bool writes) {
    const TensorView rows{.rank = 2,
                          .size = {static_cast<int64_t>(shape.height), static_cast<int64_t>(shape.width)},
                          .stride = {static_cast<int64_t>(pitch), 1},
                          .dtype = DType::u8};
    return {argument, static_cast<const std::byte*>(address), rows, !writes, writes};
}

const char* direction(const Copy& copy) {
    if (on_device(copy.from_owner)) return on_device(copy.to_owner) ? "device to device" : "device to host";
    return on_device(copy.to_owner) ? "host to device" : "host to host";
}

template <typename Work>
Status run_here(const Work& work, const TaskInfo* info) {
    work.run();
    tell(info, &Observer::on_host_access_end);
    return {};
}

template <typename Work>
Status run_on_stream(Work work, std::unique_ptr<TaskInfo> info, aclrtStream handle) {
    auto stream = find_stream_here(handle);
    if (!stream.ok()) return stream.status();
    const bool pageable = work.pageable();
    if (pageable && (*stream)->running_here()) {  // all before this callback is done
        tell(info.get(), &Observer::on_host_access);
        return run_here(work, info.get());
    }
    auto task = std::make_unique<WorkTask<Work>>(std::move(work));
    task->info = std::move(info);
    GRADUS_TRY((*stream)->submit(std::move(task)));
    if (pageable) (*stream)->wait();  // the memory may be gone when the call has returned
    return {};
}

template <typename Work>
Status run_now(const Work& work, const TaskInfo* info, int device) {
    tell(info, &Observer::on_host_access);
    if (config_sync_copies() && !held_back()) {
        wait_for_device(device);
        for (const Owner& owner : {work.to_owner, work.from_owner})
            if (on_device(owner) && owner->device() != device) wait_for_device(owner->device());
    }
    return run_here(work, info);
}

template <typename Work>
Status run(Work work, std::unique_ptr<TaskInfo> info, Where where, int device) {
    if (info && !where.on_stream && config_sync_copies()) info->device = device;
    return where.on_stream ? run_on_stream(std::move(work), std::move(info), where.stream)
                           : run_now(work, info.get(), device);
}

// The current device, which copies without a stream need.
Result<int> device_of(const Where& where) {
    if (where.on_stream) return -1;  // the stream tells
    auto context = current_context();
    if (!context.ok()) return context.status();
    return context->context->device();
}

Status copy_rows(void* to, const void* from, const CopyShape& shape, aclrtMemcpyKind kind, Where where) {
    const bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
                           kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    const bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const Result<int> device = device_of(where);
    if (!device.ok()) return device.status();
    const Config config = config_or_default();
    Copy work{
        static_cast<std::byte*>(to), static_cast<const std::byte*>(from), shape, config.num_threads, nullptr, nullptr};
    auto info = describe(TaskKind::copy);
    if (info) {
        info->accesses = {access_to("src", from, shape, shape.from_pitch, false),
                          access_to("dst", to, shape, shape.to_pitch, true)};
        info->bytes = static_cast<int64_t>(2 * work.bytes());
    }
    tell(info.get(), &Observer::on_attempt);
    GRADUS_TRY(check_range("dst", to, shape.to_extent(), to_device, work.to_owner));
    GRADUS_TRY(check_range("src", from, shape.from_extent(), from_device, work.from_owner));
    if (where.on_stream && config.limits && !on_device(work.to_owner) && !on_device(work.from_owner))
        return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "dst and src: both host memory, which the device does not copy on a stream (a limit of the device: "
                "GRADUS_LIMITS=off lifts it)"};
    if (info) info->path = direction(work);
    if (work.to_owner) work.to += work.to_owner->shift();
    if (work.from_owner) work.from += work.from_owner->shift();
    return run(std::move(work), std::move(info), where, *device);
}

}  // namespace

Status copy(void* to, size_t to_most, const void* from, size_t count, aclrtMemcpyKind kind, Where where) {
    if (count == 0) return {};
    GRADUS_TRY(check_copy(to, from, kind));
    GRADUS_TRY(check_most("destMax", to_most, count));
    return copy_rows(to, from, {count, 1, count, count}, kind, where);
}

Status copy_2d(void* to, const void* from, const CopyShape& shape, aclrtMemcpyKind kind, Where where) {
    if (shape.width == 0 || shape.height == 0) return {};
    GRADUS_TRY(check_copy(to, from, kind));
    if (shape.width > shape.to_pitch || shape.width > shape.from_pitch)
        return {ACL_ERROR_RT_PARAM_INVALID, concat("width: ", shape.width, ", expected at most dpitch = ",
                                                   shape.to_pitch, " and spitch = ", shape.from_pitch)};
    size_t bytes;
    if (__builtin_mul_overflow(std::max(shape.to_pitch, shape.from_pitch), shape.height, &bytes))
        return {ACL_ERROR_RT_PARAM_INVALID, concat("height: ", shape.height, ", pitch times height overflows")};
    return copy_rows(to, from, shape, kind, where);
}

Status fill(void* to, size_t to_most, int32_t value, size_t count, Where where) {
    if (to == nullptr) return {ACL_ERROR_INVALID_PARAM, "devPtr: NULL"};
    GRADUS_TRY(check_most("maxCount", to_most, count));
    if (count == 0) return {};
    const Result<int> device = device_of(where);
    if (!device.ok()) return device.status();
    Fill work{static_cast<std::byte*>(to), value, count, config_or_default().num_threads, nullptr};
    auto info = describe(TaskKind::fill);
    if (info) {
        info->accesses = {access_to("devPtr", to, {count, 1, count, count}, count, true)};
        info->bytes = static_cast<int64_t>(count);
    }
    tell(info.get(), &Observer::on_attempt);
    GRADUS_TRY(check_range("devPtr", to, count, true, work.to_owner));
    if (work.to_owner) work.to += work.to_owner->shift();
    return run(std::move(work), std::move(info), where, *device);
}

}  // namespace gradus
