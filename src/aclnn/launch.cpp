// Phase two: what only the final addresses can tell, then the stream takes over, or this thread runs it.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "aclnn/api.h"
#include "aclnn/executor.h"
#include "aclnn/phases.h"
#include "base/check.h"
#include "runtime/context.h"
#include "runtime/kept_memory.h"
#include "runtime/parallel.h"

namespace gradus {
namespace {

constexpr int64_t kSmallBytes = 128 << 10;  // below this, waking a thread costs more than the work

// Only what the program got from us, unless option `memory` says that any will do.
Status check_known(const Executor& executor, const char* name, const std::shared_ptr<const Allocation>& allocation) {
    if (allocation || executor.memory == Memory::any) return {};
    return invalid(name, "an address outside every device allocation (GRADUS_MEMORY=any allows other memory)");
}

Status check_workspace(const Executor& executor, void* workspace, uint64_t size, LaunchTask& task) {
    const auto needed = static_cast<uint64_t>(executor.planned->scratch.bytes());
    if (size > 0 && workspace == nullptr)
        return {ACLNN_ERR_PARAM_NULLPTR, concat("workspace: NULL with workspaceSize ", size)};
    if (size < needed) return invalid("workspaceSize", size, ", expected at least ", needed);
    if (needed == 0) return {};
    auto allocation = find_allocation(workspace);
    GRADUS_TRY(check_known(executor, "workspace", allocation));
    if (allocation && !allocation->contains(workspace, needed))
        return invalid("workspace", needed, " bytes leave its device allocation of ", allocation->footprint(),
                       " bytes");
    task.workspace = Scratch::align(static_cast<std::byte*>(workspace));
    if (memory_policy().poison)
        task.poison = static_cast<size_t>(static_cast<std::byte*>(workspace) + needed - task.workspace);
    if (allocation) task.workspace += allocation->shift();
    if (allocation) task.owned.push_back(std::move(allocation));
    return {};
}

Status check_address(const Executor& executor, size_t i, LaunchTask& task) {
    const char* name = executor.op->arguments[i].name;
    const TensorView& view = executor.slots[i].view();
    if (view.empty()) return {};
    std::byte* const address = task.address[i];
    if (address == nullptr) return {ACLNN_ERR_PARAM_NULLPTR, concat(name, ": address NULL of a tensor with elements")};
    const TensorView::Extent extent = executor.slots[i].extent;
    auto allocation = find_allocation(address + extent.begin);
    GRADUS_TRY(check_known(executor, name, allocation));
    if (!allocation) return {};
    if (!allocation->contains(address + extent.begin, static_cast<size_t>(extent.end - extent.begin)))
        return invalid(name, "elements up to byte ", extent.end, " leave their device allocation of ",
                       allocation->footprint(), " bytes");
    if (allocation->shift() != 0) {
        task.shift.resize(task.address.size());
        task.shift[i] = allocation->shift();
    }
    task.owned.push_back(std::move(allocation));
    return {};
}

bool may_be(const Argument& output, const Argument& input) {
    return std::any_of(output.in_place.begin(), output.in_place.end(),
                       [&](const char* name) { return name != nullptr && std::strcmp(name, input.name) == 0; });
}

// An output may share bytes with no other tensor, except that it may be exactly an input its argument names.
Status check_overlap(const Executor& executor, size_t out, const LaunchTask& task) {
    const Argument& argument = executor.op->arguments[out];
    for (size_t i = 0; i < executor.slots.size(); ++i) {
        const Argument& other = executor.op->arguments[i];
        const Executor::Slot &a = executor.slots[out], &b = executor.slots[i];
        const int64_t distance = task.address[i] - task.address[out];
        if (i == out || !b.tensor || !meet(a.extent, b.extent, distance)) continue;
        if (distance == 0 && a.view() == b.view() && may_be(argument, other)) continue;
        if (overlaps(a.view(), b.view(), distance))
            return invalid(argument.name, "overlaps ", other.name, " in memory");
    }
    return {};
}

// No tensor, read or written, may share bytes with the workspace.
Status check_apart_from_workspace(const Executor& executor, size_t i, const LaunchTask& task, const void* workspace) {
    const int64_t bytes = executor.planned->scratch.bytes();
    if (bytes == 0) return {};
    const int64_t distance = static_cast<const std::byte*>(workspace) - task.address[i];
    if (!meet(executor.slots[i].extent, {0, bytes}, distance)) return {};
    const TensorView scratch{.rank = 1, .size = {bytes}, .stride = {1}, .dtype = DType::u8};
    if (!overlaps(executor.slots[i].view(), scratch, distance)) return {};
    return invalid(executor.op->arguments[i].name, "overlaps the workspace");
}

// What it will do, for those who observe (there must be some): told before anything is checked.
std::unique_ptr<TaskInfo> describe_launch(const Executor& executor, const LaunchTask& task, const void* workspace) {
    auto info = describe(TaskKind::launch);
    const Planned& planned = *executor.planned;
    info->accesses.reserve(executor.slots.size() + 1);
    for (size_t i = 0; i < executor.slots.size(); ++i) {
        if (!executor.slots[i].tensor || executor.slots[i].view().empty()) continue;
        const Argument& argument = executor.op->arguments[i];
        if (argument.reads == Reads::nothing) continue;
        const bool writes = argument.direction == Direction::output;
        info->accesses.push_back(
            {argument.name, task.address[i], executor.slots[i].view(), !writes, writes, i, argument.reads});
    }
    info->workspace = planned.scratch.bytes();
    if (info->workspace > 0 && workspace != nullptr) {
        const TensorView bytes{.rank = 1, .size = {info->workspace}, .stride = {1}, .dtype = DType::u8};
        info->accesses.push_back({"workspace", static_cast<const std::byte*>(workspace), bytes, false, true});
    }
    info->op = executor.op->function;
    info->executor = executor.handle;
    info->path = planned.path;
    info->why = planned.why;
    info->bytes = planned.bytes;
    tell(info.get(), &Observer::on_attempt);
    return info;
}

// At the addresses of now.
std::unique_ptr<LaunchTask> task_of(Executor& executor) {
    const Lock lock = hold();  // the address setters may be at work on another thread
    std::unique_ptr<LaunchTask> task = std::move(executor.task);
    if (!task) {
        const MayBlock again;  // a repeatable executor's second run: the first one's task may still be queued
        task = std::make_unique<LaunchTask>(executor.slots.size());
    }
    for (size_t i = 0; i < executor.slots.size(); ++i) {
        const Executor::Slot& slot = executor.slots[i];
        if (slot.tensor)
            task->address[i] = static_cast<std::byte*>(slot.address ? *slot.address : slot.tensor->address.load());
    }
    task->planned = executor.planned;
    task->summary = executor.summary;
    task->small = executor.planned->bytes <= kSmallBytes;
    return task;
}

Status check_tensors(const Executor& executor, LaunchTask& task, const void* workspace) {
    for (size_t i = 0; i < executor.slots.size(); ++i) {
        if (!executor.slots[i].tensor) continue;
        GRADUS_TRY(check_address(executor, i, task));
        GRADUS_TRY(check_apart_from_workspace(executor, i, task, workspace));
    }
    for (size_t i = 0; i < executor.slots.size(); ++i)
        if (executor.slots[i].tensor && executor.op->arguments[i].direction == Direction::output)
            GRADUS_TRY(check_overlap(executor, i, task));
    for (size_t i = 0; i < task.shift.size(); ++i) task.address[i] += task.shift[i];
    return {};
}

Status launch_on(Executor& executor, const Operator* op, void* workspace, uint64_t size, aclrtStream handle) {
    if (op != nullptr && op != executor.op)
        return invalid("executor", "prepared by aclnn", executor.op->name, "GetWorkspaceSize");
    std::unique_ptr<LaunchTask> task = task_of(executor);
    if (observed()) task->info = describe_launch(executor, *task, workspace);
    GRADUS_TRY(check_workspace(executor, workspace, size, *task));
    const Result<std::shared_ptr<Stream>> stream = executor.limits ? find_stream_here(handle) : find_stream(handle);
    if (!stream.ok()) return {ACLNN_ERR_RUNTIME_ERROR, stream.status().message()};
    GRADUS_TRY(check_tensors(executor, *task, workspace));
    if (!executor.planned->work) return {};  // an empty result
    const Status queued = (*stream)->submit(std::move(task));
    return queued.ok() ? queued : Status(ACLNN_ERR_RUNTIME_ERROR, queued.message());
}

}  // namespace

Status run_here(Executor& executor) {
    const std::unique_ptr<LaunchTask> task = task_of(executor);
    const std::unique_ptr<TaskInfo> info = observed() ? describe_launch(executor, *task, nullptr) : nullptr;
    const auto bytes = static_cast<size_t>(executor.planned->scratch.bytes());
    const KeptMemory scratch(bytes);
    GRADUS_TRY(check_tensors(executor, *task, scratch.data()));
    if (!executor.planned->work) return {};
    task->workspace = Scratch::align(scratch.data());
    const BorrowedLoop borrowed;
    tell(info.get(), &Observer::on_host_access);
    task->run();
    tell(info.get(), &Observer::on_host_access_end);
    return {};
}

int LaunchTask::run() noexcept {
    const Alone alone(small);
    if (!summary) {
        planned->work->run(address.data(), workspace);
        if (poison > 0) std::memset(workspace, 0xFF, poison);
        return 0;
    }
    const auto start = std::chrono::steady_clock::now();
    planned->work->run(address.data(), workspace);
    if (poison > 0) std::memset(workspace, 0xFF, poison);
    const auto took = std::chrono::steady_clock::now() - start;
    log_line(concat(*summary, " ", std::chrono::duration_cast<std::chrono::microseconds>(took).count(), " µs"));
    return 0;
}

aclnnStatus launch(const Operator* op, void* workspace, uint64_t workspace_size, aclOpExecutor* handle,
                   aclrtStream stream, const void* site) noexcept {
    const auto phase_two = [&]() GRADUS_NONBLOCKING -> Status {
        auto executor = Executors::instance().find(handle);
        if (executor && !executor->repeatable) executor = Executors::instance().take(handle);  // spent, whatever comes
        if (!executor)
            return {ACLNN_ERR_PARAM_NULLPTR,
                    handle == nullptr ? "executor: NULL" : "executor: not alive (spent, destroyed or foreign)"};
        return launch_on(*executor, op, workspace, workspace_size, stream);
    };
    return guarded(op != nullptr ? op->function : "gradusLaunch", kAclnn, phase_two, site);
}

}  // namespace gradus
