// An executor: phase one's decision, and where its tensors are.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "aclnn/operator.h"
#include "base/registry.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace gradus {

// One run. It owns the plan and the memory, so tensors, executor and buffers may go while it waits in the queue.
class LaunchTask final : public Task {
  public:
    explicit LaunchTask(size_t arguments) : address(arguments) { owned.reserve(arguments + 1); }
    int run() noexcept override;

    std::shared_ptr<const Planned> planned;
    std::vector<std::byte*> address;
    std::byte* workspace = nullptr;
    size_t poison = 0;                  // bytes of it that are made unreadable after the run, where memory.h says so
    std::vector<std::ptrdiff_t> shift;  // of each address, where memory is mapped twice
    std::vector<std::shared_ptr<const Allocation>> owned;
    std::shared_ptr<const Text> summary;  // for the log, where it is on
};

struct Executor {
    struct Slot {
        std::shared_ptr<const Tensor> tensor;  // null: not a tensor, or an optional that was left out
        TensorView::Extent extent;             // of its view
        std::optional<void*> address;          // set through the executor; otherwise the tensor's own, read at launch
        const TensorView& view() const { return tensor->view; }  // as planned: a tensor's view never changes
    };

    const Operator* op = nullptr;
    std::shared_ptr<const Planned> planned;
    std::vector<Slot> slots;  // indexed like the arguments
    bool limits = true;
    Memory memory = Memory::device;
    std::atomic<bool> repeatable = false;
    std::shared_ptr<const Text> summary;
    const void* handle = nullptr;      // where somebody observes
    std::unique_ptr<LaunchTask> task;  // made in phase one, so that phase two allocates nothing
};

// Runs it on this thread, in scratch of our own.
Status run_here(Executor& executor);

using Executors = Registry<Executor, HandleKind::executor>;

}  // namespace gradus
