// Sends and receives between ranks of one process. The nth send from a to b is met by the nth receive of b from a; a
// batch runs when all its partners have come to it too, and whoever runs first copies.
#include <algorithm>
#include <cstring>

#include "hccl/local_task.h"
#include "hccl/types.h"

namespace gradus::hccl {

LocalBatch::LocalBatch(std::shared_ptr<Communicator> comm, std::shared_ptr<LocalGroup> group, Work work)
    : CommTask(std::move(comm), std::move(work)), group_(std::move(group)) {
    for (const Transfer& transfer : std::get<Batch>(work_)) letters_.push_back({.transfer = transfer, .task = this});
}

Mailbox& LocalBatch::mailbox_of(const Letter& letter) const noexcept {
    const uint32_t self = comm_->is.rank, peer = letter.transfer.peer;
    return group_
        ->mail[letter.transfer.sends ? size_t{self} * group_->ranks + peer : size_t{peer} * group_->ranks + self];
}

void LocalBatch::issue(const Stream& stream) noexcept {
    stream_ = &stream;
    for (size_t i = 0; i < letters_.size(); ++i) {
        Letter& letter = letters_[i];
        post(letter);
        if (!info) continue;
        if (letter.subject == 0) letter.subject = fresh_subject();
        (letter.transfer.sends ? info->gives : info->takes)[i] = letter.subject;
    }
}

void LocalBatch::post(Letter& letter) noexcept {
    Mailbox& box = mailbox_of(letter);
    if (box.first == nullptr || box.first->transfer.sends == letter.transfer.sends) {  // nobody waits for it
        (box.first != nullptr ? box.last->next : box.first) = &letter;
        box.last = &letter;
        return;
    }
    Letter& other = *box.first;
    box.first = std::exchange(other.next, nullptr);
    letter.partner = &other, other.partner = &letter;
    letter.subject = other.subject;
    const Letter &sent = letter.transfer.sends ? letter : other, &received = letter.transfer.sends ? other : letter;
    if (sent.transfer.bytes != received.transfer.bytes || sent.transfer.type != received.transfer.type)
        group_->fail({HCCL_E_PARA, concat("HcclSend: ranks disagree: rank ", received.transfer.peer, " sends ",
                                          describe(sent.transfer), " to rank ", sent.transfer.peer, ", which receives ",
                                          describe(received.transfer))});
}

void LocalBatch::arrive() noexcept {
    has_arrived_ = true;
    if (group_->fate.failed) return;
    for (const Letter& letter : letters_)
        if (letter.partner == nullptr && group_->gone[letter.transfer.peer])
            return group_->fail(destroyed(letter.transfer.peer));
    if (all_there()) return announce();  // the partners may be ready, too
    for (const Letter& letter : letters_)
        if (letter.partner != nullptr && letter.partner->task->all_there()) announce();
    deadline = comm_->deadline();
    watch(*this);
}

bool LocalBatch::all_there() const noexcept {
    return std::all_of(letters_.begin(), letters_.end(), [](const Letter& l) {
        return l.done || (l.partner != nullptr && l.partner->task->has_arrived_);
    });
}

bool LocalBatch::ready() const noexcept { return group_->fate.failed || all_there(); }

const Stream* LocalBatch::waits_for() const noexcept {
    for (const Letter& letter : letters_) {
        if (letter.done) continue;
        if (letter.partner == nullptr) return nullptr;
        if (!letter.partner->task->has_arrived_) return letter.partner->task->stream_;
    }
    return nullptr;
}

int LocalBatch::run() noexcept {
    Lock lock = hold();
    unwatch(*this);
    Status status;
    for (Letter& letter : letters_) {
        if (group_->fate.failed || letter.taken) continue;
        letter.taken = letter.partner->taken = true;
        const Transfer &from = (letter.transfer.sends ? letter : *letter.partner).transfer,
                       &to = (letter.transfer.sends ? *letter.partner : letter).transfer;
        lock.unlock();
        std::memmove(to.data, from.data, to.bytes);
        lock.lock();
        letter.done = letter.partner->done = true;
        letter.partner->partner = nullptr;  // its task may end now
        letter.partner = nullptr;
        announce();
    }
    withdraw(lock);
    if (!std::all_of(letters_.begin(), letters_.end(), [](const Letter& l) { return l.done; }))
        status = group_->fate.why;
    lock.unlock();
    return end(status);
}

void LocalBatch::abandon() noexcept {
    Lock lock = hold();
    unwatch(*this);
    group_->fail({HCCL_E_REMOTE, concat("rank ", comm_->is.rank,
                                        " dropped its work: its stream was destroyed or stopped by a failure")});
    if (!comm_->lost_in_fork()) withdraw(lock);
    lock.unlock();
    end({});
}

// Nobody may find its letters any more, nor be inside their memory.
void LocalBatch::withdraw(Lock& lock) noexcept {
    announced().wait(lock, [this] {
        return std::none_of(letters_.begin(), letters_.end(), [](const Letter& l) { return l.taken && !l.done; });
    });
    for (Letter& letter : letters_) {
        if (letter.partner != nullptr) letter.partner->partner = nullptr;
        Mailbox& box = mailbox_of(letter);
        Letter* before = nullptr;
        for (Letter* at = box.first; at != nullptr; before = at, at = at->next) {
            if (at != &letter) continue;
            (before != nullptr ? before->next : box.first) = at->next;
            if (box.last == at) box.last = before;
            break;
        }
    }
}

void LocalBatch::expire() noexcept {
    if (group_->fate.failed) return;  // and others of it may be gone
    const Text list = ranks_that(group_->ranks, [this](uint32_t r) {
        return std::any_of(letters_.begin(), letters_.end(), [r](const Letter& l) {
            return l.transfer.peer == r && !l.done && (l.partner == nullptr || !l.partner->task->has_arrived_);
        });
    });
    group_->fail({HCCL_E_TIMEOUT, concat("HcclSend/HcclRecv: rank ", comm_->is.rank, " of ", comm_->is.name, " waited ",
                                         comm_->is.exec_timeout_s, " s (HCCL_EXEC_TIMEOUT); missing: rank ", list)});
}

}  // namespace gradus::hccl
