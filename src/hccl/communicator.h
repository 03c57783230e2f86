// A rank's membership in a group of ranks, and the tasks by which it takes part in calls.
#pragma once

#include <unistd.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/config.h"
#include "base/registry.h"
#include "hccl/collective.h"
#include "hccl/transport.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace gradus::hccl {

using Work = std::variant<Collective, Batch>;

// What a call reads and writes on its stream. A collective also orders the streams of its ranks: what follows it on any
// of them comes after what was before it on all.
struct Footprint {
    const std::byte* begin;
    uint64_t bytes;
    bool written;
    const char* argument;
};
// Of blocks with gaps between them: the range from the first to the last, which one allocation must hold, or what is
// really read and written.
enum class Gaps { joined, apart };
std::vector<Footprint> footprints_of(const Work& work, Gaps gaps);

// How a communicator has ended; shared by ranks of one process. Behind the process lock.
struct Fate {
    bool failed = false;
    Status why;  // an HcclResult
};

struct Membership {
    uint32_t rank = 0, ranks = 0;
    std::string name;
    std::string group;  // the name of all its ranks where none is given
    int device = 0;
    int exec_timeout_s = 0;  // 0: never
    bool is_sub = false;
};

class CommTask;

class Communicator : public std::enable_shared_from_this<Communicator> {
  public:
    explicit Communicator(Membership membership) : is(std::move(membership)), process_(getpid()) {}
    virtual ~Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    const Membership is;

    // Without the lock.
    virtual std::unique_ptr<CommTask> make_task(Work work) = 0;
    virtual void leave() noexcept = 0;  // for good: whoever needs this rank from now on fails
    virtual Status failure() = 0;       // why it is dead; looks for news
    // A communicator of some of its ranks: what they make of the same ids and the same number is one, for each of them
    // once. HCCL_E_PARA where those who are to meet have other ids.
    virtual Result<std::shared_ptr<Communicator>> split(std::span<const uint32_t> ids, uint64_t number,
                                                        Membership membership) = 0;

    Status check_alive();  // failure(), for who wants to use it

    Clock::time_point deadline() const;

    // Behind the process lock.
    uint64_t calls = 0;    // collectives that were issued: the sequence number of the next
    uint64_t pending = 0;  // tasks that have not ended
    bool ended = false;    // destroyed by the program; tasks may own it a little longer
    std::map<std::pair<uint64_t, std::vector<uint32_t>>, std::weak_ptr<Communicator>>
        splits;  // by number and ids: the last

    // In the child of a fork: its ranks are the parent's.
    bool lost_in_fork() const noexcept { return getpid() != process_; }

  private:
    const pid_t process_;
};

// HCCL_E_PARA: on its device, another group's communicator has its name.
Status check_name(const Membership& membership);

using Communicators = Registry<Communicator, HandleKind::communicator>;

// Queues the call: the one place where work of a communicator begins. Checks the memory that it names, and keeps it.
Status submit(const std::shared_ptr<Communicator>& comm, Work work, aclrtStream stream);

// One rank's part of one call.
class CommTask : public Task {
  public:
    CommTask(std::shared_ptr<Communicator> comm, Work work);
    ~CommTask() override;
    // With the lock, in the order of the calls: the call gets its place among those of the communicator.
    virtual void issue(const Stream& stream) noexcept = 0;
    Text failure() const noexcept override;

    const Work& work() const { return work_; }
    // From the program's addresses to those that the library works at (runtime/memory.h): once, before issue().
    void to_library(const std::vector<Footprint>& footprints);
    std::vector<std::shared_ptr<const Allocation>> owned;

  protected:
    // The end of run() or abandon(): the communicator may be destroyed. Answers the stream's error; the text is kept.
    int end(const Status& status) noexcept;

    const std::shared_ptr<Communicator> comm_;
    Work work_;
    Status status_;
    bool ended_ = false;
};

}  // namespace gradus::hccl
