#include "hccl/remote.h"

#include "hccl/rendezvous.h"

namespace gradus::hccl {
namespace {

class RemoteCommunicator final : public Communicator {
  public:
    RemoteCommunicator(std::unique_ptr<Link> link, std::unique_ptr<Transport> transport, Membership membership)
        : Communicator(std::move(membership)), link_(std::move(link)), transport_(std::move(transport)) {}
    ~RemoteCommunicator() override {
        if (!lost_in_fork()) return;
        static_cast<void>(transport_.release());  // its memory and its threads are the parent's
        static_cast<void>(link_.release());
    }

    std::unique_ptr<CommTask> make_task(Work work) override;
    // Now, and not with the last owner: the process may end before that is gone.
    void leave() noexcept override {
        if (lost_in_fork()) return;
        transport_->leave();
        link_->leave();
    }

    Status failure() override {
        if (lost_in_fork()) return {HCCL_E_UNAVAIL, "comm: made before a fork, and the parent's"};
        {
            const Lock lock = hold();
            if (fate_.failed) return fate_.why;
        }
        Status news = link_->news();
        if (!news.ok()) fail(news);
        return news;
    }

    Result<std::shared_ptr<Communicator>> split(std::span<const uint32_t> ids, uint64_t number,
                                                Membership membership) override {
        return split_remote(*link_, ids, number, std::move(membership));
    }

    void fail(const Status& why) noexcept {
        const Lock lock = hold();
        if (!fate_.failed) fate_ = {true, why};
        announce();
    }

  private:
    friend class RemoteTask;
    std::unique_ptr<Link> link_;  // outlives the transport, which asks it for news
    std::unique_ptr<Transport> transport_;
    Fate fate_;  // behind the process lock, like the two below
    uint64_t issued_ = 0;
    uint64_t turn_ = 0;  // the call that is next: one after another, whatever their streams
};

class RemoteTask final : public CommTask {
  public:
    RemoteTask(std::shared_ptr<RemoteCommunicator> comm, Work work)
        : CommTask(comm, std::move(work)), remote_(std::move(comm)), isa_(config_or_default().max_isa) {
        may_wait = true;
    }

    void issue(const Stream&) noexcept override {
        ticket_ = remote_->issued_++;
        if (auto* c = std::get_if<Collective>(&work_)) c->terms.sequence = comm_->calls++;
    }
    bool ready() const noexcept override { return remote_->fate_.failed || remote_->turn_ == ticket_; }

    int run() noexcept override {
        Status status = already_failed();
        if (status.ok()) {
            status = call();
            if (!status.ok()) status = explain(status);
        }
        const int code = end(status);
        const Lock lock = hold();
        ++remote_->turn_;
        announce();
        return code;
    }

    void abandon() noexcept override {
        if (!comm_->lost_in_fork()) {
            const Status why(
                HCCL_E_REMOTE,
                concat("rank ", comm_->is.rank, " dropped its work: its stream was destroyed or stopped by a failure"));
            remote_->fail(why);
            remote_->link_->abort(why);
            remote_->transport_->give_up();
        }
        end({});
    }

  private:
    Status already_failed() {
        const Lock lock = hold();
        return remote_->fate_.failed ? remote_->fate_.why : Status();
    }

    Status call() noexcept {
        const Membership& is = comm_->is;
        const auto deadline = comm_->deadline();
        try {
            if (auto* c = std::get_if<Collective>(&work_))
                return run_collective(*remote_->transport_, is.rank, is.ranks, *c, isa_, deadline);
            return remote_->transport_->transfer(std::get<Batch>(work_), deadline);
        } catch (const std::exception& error) {
            return {HCCL_E_MEMORY, error.what()};
        }
    }

    // The sentence of this rank, or the hub's where that has told; then all others hear it.
    Status explain(const Status& status) noexcept {
        const auto* const c = std::get_if<Collective>(&work_);
        const char* const function = c != nullptr ? function_of(c->terms.kind) : "HcclSend/HcclRecv";
        Status why = status;
        const bool lost = status.code() == HCCL_E_REMOTE, late = status.code() == HCCL_E_TIMEOUT;
        // another may have failed first, and this be what follows
        const Status news = lost || late ? remote_->link_->news(std::chrono::seconds(lost ? 1 : 0)) : Status();
        const Status& first = news.ok() ? status : news;
        if (late && news.ok()) {
            why = {HCCL_E_TIMEOUT, concat(function, ": rank ", comm_->is.rank, " of ", comm_->is.name, " waited ",
                                          comm_->is.exec_timeout_s, " s (HCCL_EXEC_TIMEOUT); ", status.message())};
        } else if (lost || late) {
            const bool named = first.message().view().starts_with(function);
            why = {first.code(), named ? first.message() : concat(function, ": ", first.message())};
        }
        remote_->fail(why);
        remote_->link_->abort(why);
        remote_->transport_->give_up();
        return why;
    }

    const std::shared_ptr<RemoteCommunicator> remote_;
    const Isa isa_;
    uint64_t ticket_ = 0;
};

std::unique_ptr<CommTask> RemoteCommunicator::make_task(Work work) {
    return std::make_unique<RemoteTask>(std::static_pointer_cast<RemoteCommunicator>(shared_from_this()),
                                        std::move(work));
}

}  // namespace

std::shared_ptr<Communicator> make_remote(std::unique_ptr<Link> link, std::unique_ptr<Transport> transport,
                                          Membership membership) {
    return std::make_shared<RemoteCommunicator>(std::move(link), std::move(transport), std::move(membership));
}

}  // namespace gradus::hccl
