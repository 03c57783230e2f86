#include "hccl/hub.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "hccl/types.h"
#include "runtime/thread.h"

namespace gradus::hccl {
namespace {

// Strangers are many, slow, or talk nonsense; this bounds what they cost.
constexpr size_t kMostConnections = 2048, kMostStrangers = 64;
constexpr auto kHelloPatience = std::chrono::seconds(5);

struct Value {
    std::string bytes;
    Socket file;  // any descriptor closes like a socket
};

struct Connection {
    Socket socket;
    Clock::time_point since = Clock::now();
    bool known = false, up = false;
    bool leaving = false;  // as soon as all are up
    bool refused = false;  // has been told why, and is read until it goes: a reset would take the words back
    uint32_t rank = 0;
    std::string received;
    Socket file;  // came with what is received
    std::vector<std::string> wanted;
    std::map<std::string, std::vector<uint32_t>> agreeing;  // by number: members that it waits for
};

class Hub {
  public:
    Hub(const MeetingPoint& at, std::chrono::seconds patience)
        : key_(at.key), patience_(patience), opens_again_(at.may_be_late) {}
    std::vector<Socket> listeners;

    void serve() {
        auto lonely_since = Clock::now();
        for (;;) {
            std::vector<pollfd> polled;
            for (const Socket& s : listeners) polled.push_back({s.get(), POLLIN, 0});
            for (const auto& c : connections_) polled.push_back({c->socket.get(), POLLIN, 0});
            poll(polled.data(), polled.size(), 200);
            const size_t listening = listeners.size(), talking = connections_.size();
            for (size_t i = 0; i < listening; ++i)
                if (polled[i].revents != 0) accept_from(listeners[i]);
            for (size_t i = 0; i < talking; ++i)
                if (polled[listening + i].revents != 0) read(*connections_[i]);
            drop_slow_strangers();
            std::erase_if(connections_, [](const auto& c) { return !c->socket.open(); });
            const bool lonely =
                std::none_of(connections_.begin(), connections_.end(), [](auto& c) { return c->known; });
            if (!lonely) {
                lonely_since = Clock::now();
                visited_ = true;
            } else if (complete_ || (visited_ && opens_again_) || Clock::now() - lonely_since > patience_) {
                return;
            } else if (!verdict_) {  // all went before they were complete: they may come again
                begin_again();
            }
        }
    }

  private:
    void begin_again() {
        verdict_.reset();
        values_.clear();
        ranks_ = ups_ = 0;
    }

    void accept_from(const Socket& listener) {
        Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket.open()) return;
        const auto stranger = [](const auto& c) { return !c->known && c->socket.open(); };
        // the oldest of too many goes: a rank, which introduces itself at once, is never that
        if (static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), stranger)) >= kMostStrangers)
            (*std::find_if(connections_.begin(), connections_.end(), stranger))->socket.close();
        if (connections_.size() >= kMostConnections) return;
        connections_.push_back(std::make_unique<Connection>());
        connections_.back()->socket = std::move(socket);
    }

    void drop_slow_strangers() {
        for (const auto& c : connections_)
            if (!c->known && Clock::now() - c->since > kHelloPatience) c->socket.close();
    }

    void read(Connection& c) {
        char room[1 << 16];
        const size_t most = c.known || c.refused ? sizeof room : sizeof(Hello) - c.received.size();
        iovec part{room, most};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
        msghdr message{};
        message.msg_iov = &part, message.msg_iovlen = 1;
        // not the padded size, in which the kernel would put a second file, of which nobody here knew
        message.msg_control = control, message.msg_controllen = CMSG_LEN(sizeof(int));
        const ssize_t n = recvmsg(c.socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) return lose(c, n < 0 ? "its connection broke" : "it ended, or its process was killed");
        if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
            int got = -1;
            std::memcpy(&got, CMSG_DATA(header), sizeof got);
            Socket file(got);
            if (c.known) c.file = std::move(file);
        }
        if (c.refused) return;
        c.received.append(room, static_cast<size_t>(n));
        if (!c.known && !greet(c)) return;
        while (c.socket.open() && take_frame(c)) {
        }
    }

    // False: not yet, or never.
    bool greet(Connection& c) {
        Hello hello;
        if (c.received.size() < sizeof hello) return false;
        std::memcpy(&hello, c.received.data(), sizeof hello);
        c.received.clear();
        if (hello.magic != Hello::kMagic || hello.key != key_ || hello.ranks > kMostRanks || hello.rank >= hello.ranks)
            return c.socket.close(), false;
        c.rank = hello.rank;
        if (verdict_ && !verdict_->heard.insert(c.rank).second) begin_again();
        if (verdict_) return turn_away(c, verdict_->words, verdict_->code);
        if (ranks_ == 0) ranks_ = hello.ranks;
        for (const auto& o : connections_)  // one that has ended may come again before its end was seen
            if (o->known && o->socket.open() && o->rank == c.rank) read(*o);
        Text why;
        if (complete_)
            why = "all ranks have joined already: a root info is for one communicator";
        else if (hello.ranks != ranks_)
            why = concat("rank ", hello.rank, " counts ", hello.ranks, " ranks, others ", ranks_);
        else if (std::any_of(connections_.begin(), connections_.end(),
                             [&](const auto& o) { return o->known && o->socket.open() && o->rank == c.rank; }))
            why = concat("rank ", hello.rank, " has joined already");
        if (why.empty()) return c.known = true;
        const std::string words(why.view());
        // nobody can say whose count is right, so nobody is to wait for more
        if (!complete_ && hello.ranks != ranks_) fail(c, words, HCCL_E_PARA);
        return turn_away(c, words, HCCL_E_PARA);
    }

    static bool turn_away(Connection& c, const std::string& words, uint32_t code) {
        tell(c, FrameType::gone, "", words, -1, code);
        shutdown(c.socket.get(), SHUT_WR);
        c.refused = true;
        return false;
    }

    bool take_frame(Connection& c) {
        FrameHeader header;
        if (c.received.size() < sizeof header) return false;
        std::memcpy(&header, c.received.data(), sizeof header);
        if (header.key_bytes > kMostKey || header.value_bytes > kMostValue) return lose(c, "it sent nonsense"), false;
        const size_t whole = sizeof header + header.key_bytes + header.value_bytes;
        if (c.received.size() < whole) return false;
        const std::string key = c.received.substr(sizeof header, header.key_bytes);
        std::string value = c.received.substr(sizeof header + header.key_bytes, header.value_bytes);
        c.received.erase(0, whole);
        switch (header.type) {
            case FrameType::put:
                return put(c, key, std::move(value)), true;
            case FrameType::get:
                return get(c, key), true;
            case FrameType::agree:
                return agree(c, key, value), true;
            case FrameType::up:
                return up(c), true;
            case FrameType::leave:
                return leave(c), false;
            case FrameType::abort:
                return fail(c, value, header.code), true;
            default:
                return lose(c, "it sent nonsense"), false;
        }
    }

    void put(Connection& c, const std::string& key, std::string value) {
        Value& v = values_[key];
        v.bytes = std::move(value);
        v.file = std::move(c.file);
        for (const auto& other : connections_)
            if (const auto n = std::erase(other->wanted, key); n > 0 && other->socket.open())
                tell(*other, FrameType::value, key, v.bytes, v.file.get(), 0);
    }

    void get(Connection& c, const std::string& key) {
        const auto it = values_.find(key);
        if (it == values_.end())
            c.wanted.push_back(key);
        else
            tell(c, FrameType::value, key, it->second.bytes, it->second.file.get(), 0);
    }

    void agree(Connection& c, const std::string& key, const std::string& value) {
        if (value.empty()) return give_up_agreeing(c, key);
        std::vector<uint32_t> mine(value.size() / sizeof(uint32_t));
        std::memcpy(mine.data(), value.data(), mine.size() * sizeof(uint32_t));
        if (const auto it = refusals_.find(key); it != refusals_.end() && it->second.to_tell.erase(c.rank) > 0) {
            tell(c, FrameType::value, key, it->second.words, -1, 0);
            if (it->second.to_tell.empty()) refusals_.erase(it);
            return;
        }
        c.agreeing[key] = mine;
        std::vector<Connection*> same, other;
        for (const auto& o : connections_) {
            const auto its = o->agreeing.find(key);
            if (its == o->agreeing.end() || !o->socket.open()) continue;
            if (its->second == mine)
                same.push_back(o.get());
            else if (have_common(its->second, mine))
                other.push_back(o.get());
        }
        std::string words;
        if (!other.empty()) {
            words = refuse(c, *other.front(), key);
            same.insert(same.end(), other.begin(), other.end());
            for (const Connection* o : same) refusals_[key].to_tell.erase(o->rank);
            if (refusals_[key].to_tell.empty()) refusals_.erase(key);
        } else if (same.size() < mine.size()) {
            return;
        }
        if (words.empty()) words = kAgreed + std::to_string(agreed_++);
        for (Connection* o : same) {
            o->agreeing.erase(key);
            tell(*o, FrameType::value, key, words, -1, 0);
        }
    }

    // Members of either list that come later are to hear it, too.
    std::string refuse(const Connection& a, const Connection& b, const std::string& key) {
        const Connection &first = a.rank < b.rank ? a : b, &second = a.rank < b.rank ? b : a;
        Refusal& refusal = refusals_[key];
        for (const Connection* c : {&a, &b})
            refusal.to_tell.insert(c->agreeing.at(key).begin(), c->agreeing.at(key).end());
        const Status why = members_differ(std::strtoull(key.c_str(), nullptr, 10), first.rank, first.agreeing.at(key),
                                          second.rank, second.agreeing.at(key));
        return refusal.words = std::string(why.message().view());
    }

    void give_up_agreeing(Connection& c, const std::string& key) {
        const auto place = c.agreeing.extract(key);
        if (place.empty()) return;  // they have agreed meanwhile
        Text list;
        for (const uint32_t id : place.mapped())
            if (id != c.rank && std::none_of(connections_.begin(), connections_.end(),
                                             [&](const auto& o) { return o->rank == id && o->agreeing.contains(key); }))
                append(list, list.empty() ? "" : ", ", id);
        tell(c, FrameType::value, key, kMissing + std::string(list.view()), -1, 0);
    }

    void up(Connection& c) {
        if (!std::exchange(c.up, true)) ++ups_;  // some may have left again
        if (complete_ || ups_ != ranks_) return;
        complete_ = true;
        for (const auto& o : connections_)
            if (o->leaving && o->socket.open()) leave(*o);
    }

    // Its process may end as soon as it sees the connection closed, and the hub with it: the others must know before,
    // and be up.
    void leave(Connection& c) {
        c.leaving = c.up && !complete_ && is_own_process(c.socket);
        if (c.leaving) return;
        if (c.up) {
            left_.resize(ranks_);
            left_[c.rank] = 1;
            put(c, kLeft + std::to_string(c.rank), "");
        }
        const auto here = [&](const auto& o) {
            return o.get() != &c && o->known && o->socket.open() && is_own_process(o->socket);
        };
        if (is_own_process(c.socket) && std::none_of(connections_.begin(), connections_.end(), here))
            for (const auto& o : connections_)
                if (o.get() != &c && o->known && o->socket.open()) tell(*o, FrameType::leave, "", left_, -1, 0);
        c.socket.close();
    }

    void lose(Connection& c, const char* how) {
        c.socket.close();
        const auto other = [&](const auto& o) { return o.get() != &c && o->known && o->socket.open(); };
        if (c.known && std::any_of(connections_.begin(), connections_.end(), other))
            fail(c, std::string(concat("rank ", c.rank, " is gone: ", how).view()), HCCL_E_REMOTE);
    }

    // All hear it; those who are still to come, when they come.
    void fail(const Connection& about, const std::string& why, uint32_t code) {
        if (!complete_ && !verdict_) verdict_.emplace(Verdict{why, code, {}});
        if (verdict_) verdict_->heard.insert(about.rank);
        for (const auto& c : connections_) {
            if (c.get() == &about || !c->known || !c->socket.open()) continue;
            tell(*c, FrameType::gone, "", why, -1, code);
            if (verdict_) verdict_->heard.insert(c->rank);
        }
    }

    static void tell(Connection& c, FrameType type, const std::string& key, const std::string& value, int file,
                     uint32_t code) {
        const FrameHeader header{type, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size()), code};
        std::string frame(sizeof header, '\0');
        std::memcpy(frame.data(), &header, sizeof header);
        frame += key + value;
        const bool by_unix = [&] {
            sockaddr_storage self{};
            socklen_t size = sizeof self;
            return getsockname(c.socket.get(), reinterpret_cast<sockaddr*>(&self), &size) == 0 &&
                   self.ss_family == AF_UNIX;
        }();
        if (!send_all(c.socket, frame.data(), frame.size(), by_unix ? file : -1, Clock::now() + kHelloPatience).ok())
            c.socket.close();
    }

    const Key key_;
    const std::chrono::seconds patience_;
    const bool opens_again_;  // whoever comes again brings a new one
    bool visited_ = false;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::map<std::string, Value> values_;
    struct Refusal {
        std::string words;
        std::set<uint32_t> to_tell;
    };
    std::map<std::string, Refusal> refusals_;  // by number of a sub-communicator
    uint64_t agreed_ = 0;
    uint32_t ranks_ = 0, ups_ = 0;
    struct Verdict {
        std::string words;
        uint32_t code;
        std::set<uint32_t> heard;  // ranks
    };
    std::optional<Verdict> verdict_;  // why they have not all met
    std::string left_;                // by rank
    bool complete_ = false;
};

}  // namespace

Status start_hub(MeetingPoint& at, std::chrono::seconds patience) {
    auto hub = std::make_unique<Hub>(at, patience);
    if (!at.unix_name.empty()) {
        auto listener = listen_at(Address::unix_name(at.unix_name));
        if (!listener.ok()) return listener.status();
        hub->listeners.push_back(std::move(*listener));
    }
    if (!at.ip.empty()) {
        auto address = Address::internet(at.ip, at.port);
        if (!address.ok()) return address.status();
        auto listener = listen_at(*address);
        if (!listener.ok())
            return {listener.status().code(), concat(listener.status().message(), " (", at.ip, ":", at.port, ")")};
        sockaddr_storage self{};
        socklen_t size = sizeof self;
        getsockname(listener->get(), reinterpret_cast<sockaddr*>(&self), &size);
        at.port = ntohs(reinterpret_cast<sockaddr_in&>(self).sin_port);  // at the same place in both families
        hub->listeners.push_back(std::move(*listener));
    }
    const auto body = [](void* argument) {
        const std::unique_ptr<Hub> self(static_cast<Hub*>(argument));
        try {
            self->serve();
        } catch (...) {  // out of memory: the connections close, and all ranks know
        }
    };
    if (!start_thread("gradus-hub", body, hub.get()))
        return {HCCL_E_RUNTIME, "no thread can be had for the meeting point"};
    static_cast<void>(hub.release());
    return {};
}

std::optional<std::string> read_file(const char* path, size_t most) {
    const Socket file(open(path, O_RDONLY | O_CLOEXEC));  // any descriptor closes like a socket
    if (!file.open()) return {};
    std::string text;
    std::array<char, 4096> part;
    for (;;) {
        const ssize_t got = ::read(file.get(), part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return {};
        if (got == 0) return text;
        text.append(part.data(), std::min(static_cast<size_t>(got), most + 1 - text.size()));
        if (text.size() > most) return text;
    }
}

bool is_own_process(const Socket& socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

std::string this_machine() {
    std::string boot = read_file("/proc/sys/kernel/random/boot_id", 4096).value_or("");
    while (!boot.empty() && boot.back() == '\n') boot.pop_back();
    struct stat network {};
    if (stat("/proc/self/ns/net", &network) != 0) return boot;
    return boot + "/" + std::to_string(network.st_ino);
}

Result<Key> random_key() {
    Key key;
    if (getrandom(key.data(), sizeof key, 0) == sizeof key) return key;
    return Status(HCCL_E_SYSCALL, "getrandom gave no random numbers");
}

}  // namespace gradus::hccl
