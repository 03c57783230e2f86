// The tasks of ranks of one process.
#pragma once

#include "hccl/local.h"

namespace gradus::hccl {

class LocalTask final : public CommTask, public Watched {
  public:
    LocalTask(std::shared_ptr<Communicator> comm, std::shared_ptr<LocalGroup> group, Work work);

    void issue(const Stream& stream) noexcept override;
    void arrive() noexcept override;
    bool ready() const noexcept override;
    const Stream* waits_for() const noexcept override;
    int run() noexcept override;
    void abandon() noexcept override;
    void expire() noexcept override;

  private:
    Collective& collective() { return *std::get_if<Collective>(&work_); }
    bool complete() const { return meeting_->arrived == group_->ranks; }
    void tell_partners() noexcept;
    Text missing() const noexcept;
    Status work_for_all() noexcept;
    void conclude(const Status& status) noexcept;
    void move() noexcept;
    void reduce(uint32_t owner) noexcept;

    const std::shared_ptr<LocalGroup> group_;
    std::shared_ptr<Meeting> meeting_;
    std::vector<std::byte> words_;      // the agreement's
    std::vector<std::byte> all_words_;  // room for those of all
    const Stream* stream_ = nullptr;
    const int threads_;
    const Isa isa_;
    bool has_arrived_ = false;
};

// One send or receive, from its issue until both sides have it.
struct Letter {
    const Transfer& transfer;  // of the task's work, whose addresses are settled after it is made
    LocalBatch* task = nullptr;
    Letter* partner = nullptr;
    Letter* next = nullptr;  // in the mailbox, while it has no partner
    bool taken = false, done = false;
    uint64_t subject = 0;  // where somebody observes: the same on both sides
};

class LocalBatch final : public CommTask, public Watched {
  public:
    LocalBatch(std::shared_ptr<Communicator> comm, std::shared_ptr<LocalGroup> group, Work work);

    void issue(const Stream& stream) noexcept override;
    void arrive() noexcept override;
    bool ready() const noexcept override;
    const Stream* waits_for() const noexcept override;
    int run() noexcept override;
    void abandon() noexcept override;
    void expire() noexcept override;

  private:
    void post(Letter& letter) noexcept;
    Mailbox& mailbox_of(const Letter& letter) const noexcept;
    bool all_there() const noexcept;
    void withdraw(Lock& lock) noexcept;

    const std::shared_ptr<LocalGroup> group_;
    std::vector<Letter> letters_;
    const Stream* stream_ = nullptr;
    bool has_arrived_ = false;
};

}  // namespace gradus::hccl
