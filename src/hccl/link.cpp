#include "hccl/link.h"

#include <poll.h>

#include <cstring>
#include <thread>
#include <utility>

namespace gradus::hccl {
namespace {

constexpr auto kSoon = std::chrono::seconds(10);
constexpr auto kMoment = std::chrono::seconds(1);  // what is known about a rank comes at once

Result<Socket> reach(const MeetingPoint& at, bool& by_unix, Clock::time_point deadline) {
    by_unix = !at.unix_name.empty() && at.machine == this_machine();
    if (by_unix) {
        auto socket = connect_to(Address::unix_name(at.unix_name), deadline);
        if (socket.ok() || at.ip.empty()) return socket;
        by_unix = false;
    }
    if (at.ip.empty())
        return Status(HCCL_E_TCP_CONNECT,
                      "the root info is of another machine, and its process listens on that machine alone: "
                      "HCCL_IF_IP or HCCL_SOCKET_IFNAME there chooses an address for others");
    auto address = Address::internet(at.ip, at.port);
    if (!address.ok()) return address.status();
    return connect_to(*address, deadline);
}

}  // namespace

Result<std::unique_ptr<Link>> Link::connect(const MeetingPoint& at, uint32_t rank, uint32_t ranks,
                                            Clock::time_point deadline) {
    auto link = std::make_unique<Link>();
    for (;;) {
        auto socket = reach(at, link->by_unix_, deadline);
        if (socket.ok()) {
            link->socket_ = std::move(*socket);
            break;
        }
        if (Clock::now() >= deadline || socket.status().code() != HCCL_E_TCP_CONNECT || !at.may_be_late) {
            Text where = at.ip.empty() ? concat(at.unix_name) : concat(at.ip, ":", at.port);
            return Status(socket.status().code(),
                          concat("nobody listens where the ranks meet (", where, "): ", socket.status().message()));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    Hello hello;
    hello.key = at.key, hello.rank = rank, hello.ranks = ranks;
    if (Status sent = send_all(link->socket_, &hello, sizeof hello, -1, deadline); !sent.ok()) return sent;
    return link;
}

// Before it was up, a rank may have been turned away: whoever has not the key is dropped without a word.
Status Link::hub_is_gone() const {
    return {HCCL_E_REMOTE, concat("the process that called HcclGetRootInfo is gone",
                                  is_up_ ? "" : ", or this is not the root info that it has made")};
}

// Who the other side of this connection is.
Status Link::in_words(Status status) const {
    if (status.code() != HCCL_E_REMOTE || !status.message().view().starts_with("the other side")) return status;
    return hub_is_gone();
}

void Link::leave() noexcept {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(is_up_, false) || !socket_.open()) return;
    const FrameHeader farewell{FrameType::leave};  // as it is: whoever goes has no memory to ask for
    if (!send_all(socket_, &farewell, sizeof farewell, -1, Clock::now() + kSoon).ok()) return;
    if (!by_unix_ || !is_own_process(socket_)) return;
    // the hub ends with this process: it must have told the others that this was no accident
    char rest[256];
    for (pollfd p{socket_.get(), POLLIN, 0}; poll(&p, 1, 5000) > 0;)
        if (recv(socket_.get(), rest, sizeof rest, 0) <= 0) return;
}

Status Link::send(FrameType type, const std::string& key, const std::string& value, int file, uint32_t code) {
    if (!socket_.open()) return hub_is_gone();
    const FrameHeader header{type, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size()), code};
    std::string frame(sizeof header, '\0');
    std::memcpy(frame.data(), &header, sizeof header);
    frame += key + value;
    Status sent = send_all(socket_, frame.data(), frame.size(), file, Clock::now() + kSoon);
    if (sent.ok() || sent.code() == HCCL_E_TIMEOUT) return sent;
    // the hub has closed it, and may have said why before that
    Status heard;
    while (heard.ok()) heard = receive(Clock::now() + kSoon);
    return in_words(heard);
}

std::string Link::own_ip(const MeetingPoint& at) const {
    sockaddr_storage self{};
    socklen_t size = sizeof self;
    if (!by_unix_ && getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&self), &size) == 0)
        return to_text(reinterpret_cast<const sockaddr*>(&self));
    return at.ip.empty() ? "127.0.0.1" : at.ip;
}

Status Link::put(const std::string& key, const std::string& value, int file) {
    const std::lock_guard lock(mutex_);
    return send(FrameType::put, key, value, file, 0);
}

Status Link::receive(Clock::time_point deadline) {
    FrameHeader header;
    int file = -1;
    if (!socket_.open()) return hub_is_gone();
    if (Status came = receive_all(socket_, &header, sizeof header, &file, deadline); !came.ok()) {
        if (!hub_may_end_ || came.code() == HCCL_E_TIMEOUT) return came;
        socket_.close();
        return {};
    }
    Socket came(file);
    if (header.key_bytes > kMostKey || header.value_bytes > kMostValue)
        return {HCCL_E_TCP_TRANSFER, "the meeting point sent nonsense"};
    std::string key(header.key_bytes, '\0'), value(header.value_bytes, '\0');
    const auto soon = Clock::now() + kSoon;
    GRADUS_TRY(receive_all(socket_, key.data(), key.size(), nullptr, soon));
    GRADUS_TRY(receive_all(socket_, value.data(), value.size(), nullptr, soon));
    if (header.type == FrameType::leave) return hub_may_end_ = true, left_ = std::move(value), Status();
    if (header.type == FrameType::gone) return failed_ = {static_cast<int>(header.code), Text(value)};
    if (came.open()) file_ = std::move(came);
    values_[key] = std::move(value);
    return {};
}

Status Link::get(const std::vector<std::string>& keys, std::vector<std::string>& values, Clock::time_point deadline,
                 const char* missing, Socket* file) {
    const std::lock_guard lock(mutex_);
    for (const std::string& key : keys) GRADUS_TRY(send(FrameType::get, key, "", -1, 0));
    for (const std::string& key : keys)
        while (!values_.contains(key)) {
            const Status received = receive(deadline);
            if (received.ok()) continue;
            if (!failed_.ok()) return failed_;
            if (received.code() != HCCL_E_TIMEOUT) return failed_ = in_words(received);
            Text list;
            for (size_t i = 0; i < keys.size(); ++i)
                if (!values_.contains(keys[i])) append(list, list.empty() ? "" : ", ", static_cast<uint64_t>(i));
            return {HCCL_E_TIMEOUT, concat(missing, list)};
        }
    values.clear();
    for (const std::string& key : keys) values.push_back(std::move(values_.extract(key).mapped()));
    if (file != nullptr) *file = std::move(file_);
    return {};
}

Result<std::string> Link::agree(uint64_t number, std::span<const uint32_t> members, Clock::time_point deadline) {
    const std::lock_guard lock(mutex_);
    const std::string key = std::to_string(number);
    GRADUS_TRY(
        send(FrameType::agree, key, {reinterpret_cast<const char*>(members.data()), members.size_bytes()}, -1, 0));
    for (bool waits = true; !values_.contains(key);) {
        const Status received = receive(deadline);
        if (received.ok()) continue;
        if (!failed_.ok()) return failed_;
        if (!waits || received.code() != HCCL_E_TIMEOUT) return failed_ = in_words(received);
        waits = false;
        GRADUS_TRY(send(FrameType::agree, key, "", -1, 0));
        deadline = Clock::now() + kSoon;  // for the answer
    }
    std::string answer = std::move(values_.extract(key).mapped());
    if (answer.starts_with(kAgreed)) return answer;
    return Status(answer.starts_with(kMissing) ? HCCL_E_TIMEOUT : HCCL_E_PARA, Text(answer));
}

Status Link::up() {
    const std::lock_guard lock(mutex_);
    is_up_ = true;
    const Status sent = send(FrameType::up, "", "", -1, 0);
    return hub_may_end_ ? Status() : sent;  // its ranks may have come, and gone again by now
}

void Link::abort(const Status& why) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        static_cast<void>(
            send(FrameType::abort, "", std::string(why.message().view()), -1, static_cast<uint32_t>(why.code())));
    } catch (...) {  // no memory to say it: the end of the connection will
    }
}

Status Link::give_up(const Status& why, uint32_t rank) noexcept {
    const Status told = news();
    const bool for_all = why.code() == HCCL_E_TIMEOUT || why.code() == HCCL_E_PARA;  // it names the ranks
    if (told.ok() && for_all) abort(why);
    if (told.ok() && !for_all) abort({HCCL_E_REMOTE, concat("rank ", rank, " could not join: ", why.message())});
    {
        const std::lock_guard lock(mutex_);
        is_up_ = true;  // to leave with a word
    }
    leave();
    return told.ok() ? why : told;
}

bool Link::has_left(uint32_t rank) {
    {
        const std::lock_guard lock(mutex_);
        if (rank < left_.size() && left_[rank] != 0) return true;
    }
    std::vector<std::string> values;
    return get({kLeft + std::to_string(rank)}, values, Clock::now() + kMoment, "").ok();
}

Status Link::why_lost(uint32_t rank) noexcept {
    try {
        if (Status told = news(); !told.ok()) return told;
        if (has_left(rank)) return {HCCL_E_REMOTE, concat("rank ", rank, " has destroyed its communicator")};
        if (Status told = news(kMoment); !told.ok()) return told;
        const std::lock_guard lock(mutex_);  // whoever it is was not alone in needing one that has left
        if (const size_t left = left_.find('\1'); left != std::string::npos)
            return {HCCL_E_REMOTE, concat("rank ", uint64_t{left}, " has destroyed its communicator, and rank ", rank,
                                          " has given up")};
        return {};
    } catch (...) {
        return {HCCL_E_MEMORY, "out of memory"};
    }
}

Status Link::news(std::chrono::milliseconds patience) noexcept {
    try {
        const std::unique_lock lock(mutex_, std::try_to_lock);  // whoever has it reads the news as well
        if (!lock.owns_lock()) return {};
        for (int wait = static_cast<int>(patience.count()); failed_.ok() && socket_.open(); wait = 0) {
            pollfd p{socket_.get(), POLLIN, 0};
            if (poll(&p, 1, wait) <= 0) break;
            failed_ = in_words(receive(Clock::now() + kSoon));
        }
        return failed_;
    } catch (...) {
        return {HCCL_E_MEMORY, "out of memory"};
    }
}

}  // namespace gradus::hccl
