// Groups of calls: what would wait for each other if it were done one after the other is done together.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "hccl/api.h"
#include "runtime/thread.h"

namespace gradus::hccl {
namespace {

struct PendingBatch {
    std::shared_ptr<Communicator> comm;
    aclrtStream stream;
    Batch batch;
};

struct Group {
    int depth = 0;
    GroupKind kind = GroupKind::none;
    std::vector<std::unique_ptr<Init>> inits;
    std::vector<PendingBatch> batches;
};
thread_local std::unique_ptr<Group> open_group;

// A handle that stands for nothing yet.
class Reserved {
  public:
    Reserved() : handle_(Communicators::instance().add(nullptr)) {}
    ~Reserved() {
        if (handle_ != nullptr) Communicators::instance().take(handle_);
    }
    Reserved(Reserved&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Reserved& operator=(Reserved&&) = delete;
    HcclComm fill(std::shared_ptr<Communicator> comm) noexcept {
        Communicators::instance().replace(handle_, std::move(comm));
        return std::exchange(handle_, nullptr);
    }

  private:
    HcclComm handle_;
};

Result<std::shared_ptr<Communicator>> run_caught(const Init& init) noexcept {
    try {
        return init.run();
    } catch (const std::bad_alloc&) {
        return Status(HCCL_E_MEMORY, "out of memory");
    } catch (const std::exception& error) {
        return Status(HCCL_E_INTERNAL, error.what());
    }
}

// Each in a thread of its own, the last in this one; those of one parent in one.
struct Together {
    std::mutex mutex;
    std::condition_variable ended;
    size_t running = 0;
    struct One {
        const Init* init;
        Reserved place;  // once all ranks are there, nothing may fail
        Result<std::shared_ptr<Communicator>> result = Status(HCCL_E_RUNTIME, "no thread can be had");
    };
    struct Line {
        Together* all;
        std::vector<One> ones;
        void run() noexcept {
            for (One& one : ones) one.result = run_caught(*one.init);
        }
    };
    std::vector<Line> lines;

    void add(const Init& init) {
        const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
            return init.parent() != nullptr && line.ones.front().init->parent() == init.parent();
        });
        Line& line = same != lines.end() ? *same : lines.emplace_back(Line{this, {}});
        line.ones.push_back({&init, {}});
    }

    void run() {
        for (Line& line : lines) {
            if (&line == &lines.back()) {
                line.run();
                break;
            }
            {
                const std::lock_guard lock(mutex);
                ++running;
            }
            const auto body = [](void* argument) {
                Line& self = *static_cast<Line*>(argument);
                self.run();
                const std::lock_guard lock(self.all->mutex);
                --self.all->running;
                self.all->ended.notify_all();
            };
            if (start_thread("gradus-init", body, &line)) continue;
            const std::lock_guard lock(mutex);
            --running;
        }
        std::unique_lock lock(mutex);
        ended.wait(lock, [this] { return running == 0; });
    }
};

}  // namespace

bool in_group() noexcept { return open_group != nullptr; }

Status enter_group_as(GroupKind kind) {
    if (!open_group) return {};
    if (open_group->kind != GroupKind::none && open_group->kind != kind)
        return {HCCL_E_PARA, "a group has either inits, or sends and receives, or collectives"};
    open_group->kind = kind;
    return {};
}

Status begin_group() {
    if (!open_group) open_group = std::make_unique<Group>();
    ++open_group->depth;
    return {};
}

Status end_group() {
    if (!open_group) return {HCCL_E_PARA, "no HcclGroupStart came before"};
    if (--open_group->depth > 0) return {};
    const std::unique_ptr<Group> ended = std::move(open_group);
    GRADUS_TRY(make_together(ended->inits));
    Status first;  // that is wrong; whoever waits for one of the others gets it
    for (PendingBatch& pending : ended->batches) {
        Status queued = submit(pending.comm, std::move(pending.batch), pending.stream);
        if (first.ok()) first = std::move(queued);
    }
    return first;
}

Status make_together(const std::vector<std::unique_ptr<Init>>& inits) {
    Together together;
    for (const auto& init : inits) together.add(*init);
    if (together.lines.empty()) return {};
    together.run();
    for (const Together::Line& line : together.lines)
        for (const Together::One& one : line.ones)
            if (!one.result.ok()) return one.result.status();  // those that were made go with the list
    for (Together::Line& line : together.lines)
        for (Together::One& one : line.ones) *one.init->comm = one.place.fill(std::move(*one.result));
    return {};
}

Status make_communicator(std::unique_ptr<Init> init) {
    if (open_group) {
        GRADUS_TRY(enter_group_as(GroupKind::inits));
        open_group->inits.push_back(std::move(init));
        return {};
    }
    Reserved place;  // as above
    auto made = init->run();
    if (!made.ok()) return made.status();
    *init->comm = place.fill(std::move(*made));
    return {};
}

Status add_transfer(const std::shared_ptr<Communicator>& comm, const Transfer& transfer, aclrtStream stream) {
    if (!open_group) return submit(comm, Batch{transfer}, stream);
    GRADUS_TRY(enter_group_as(GroupKind::transfers));
    for (PendingBatch& pending : open_group->batches)
        if (pending.comm == comm && pending.stream == stream) return pending.batch.push_back(transfer), Status();
    open_group->batches.push_back({comm, stream, {transfer}});
    return {};
}

}  // namespace gradus::hccl
