// Over Gloo's connections between all pairs of ranks: a message a rank and round, all under way at once.
#include "hccl/gloo_module.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace gradus::hccl {
namespace {

constexpr size_t kChunk = size_t{4} << 20;
constexpr auto kForEver = std::chrono::hours(24 * 365);

std::chrono::milliseconds until(Clock::time_point deadline) {
    if (deadline == Clock::time_point::max()) return kForEver;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    return std::max(left, std::chrono::milliseconds(1));
}

// While it lives, this thread gets none of these signals. Gloo writes to connections that may be lost, and a program
// that has not thought of SIGPIPE would end of it; and Gloo's own thread has the mask of who makes it.
class WithoutSignals {
  public:
    explicit WithoutSignals(const sigset_t& signals) { pthread_sigmask(SIG_BLOCK, &signals, &before_); }
    ~WithoutSignals() {
        const timespec now{};
        const sigset_t pipe = only_pipe();
        if (sigismember(&before_, SIGPIPE) == 0)
            while (sigtimedwait(&pipe, nullptr, &now) == SIGPIPE) {
            }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    WithoutSignals(const WithoutSignals&) = delete;
    WithoutSignals& operator=(const WithoutSignals&) = delete;

    static sigset_t only_pipe() {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGPIPE);
        return set;
    }
    static sigset_t all() {
        sigset_t set;
        sigfillset(&set);
        return set;
    }

  private:
    sigset_t before_{};
};

class Store final : public gloo::rendezvous::Store {
  public:
    explicit Store(const GlooMeeting& meeting) : meeting_(meeting) {}
    void set(const std::string& key, const std::vector<char>& data) override {
        meeting_.put("gloo/" + key, {data.begin(), data.end()});
    }
    std::vector<char> get(const std::string& key) override {
        const std::string value = meeting_.get("gloo/" + key);
        return {value.begin(), value.end()};
    }
    void wait(const std::vector<std::string>&) override {}  // get() waits

  private:
    const GlooMeeting& meeting_;
};

constexpr uint64_t kTransferTags = uint64_t{1} << 40, kProofTag = kTransferTags - 1, kNeverTag = kTransferTags - 2;

struct Message {
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    uint32_t peer;
    bool receives;
};

// Waits for messages, and ends the wait for one whose connection is lost. Gloo tells of that whatever has not begun,
// but not a message that is half way. So a receive from every rank, of what never comes, is there to be told, and a
// thread looks at it where a wait takes long.
class Lookout {
  public:
    Lookout(gloo::Context& context, uint32_t rank, uint32_t ranks) : untold_(ranks), never_(ranks) {
        for (uint32_t r = 0; r < ranks; ++r) {
            if (r == rank) continue;
            never_[r] = context.createUnboundBuffer(&untold_[r], 1);
            never_[r]->recv(static_cast<int>(r), kNeverTag);
        }
        const WithoutSignals none(WithoutSignals::all());
        thread_ = std::thread([this] { serve(); });
    }
    ~Lookout() {
        {
            const std::lock_guard lock(mutex_);
            stops_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }
    Lookout(const Lookout&) = delete;
    Lookout& operator=(const Lookout&) = delete;

    // Throws where it does not come.
    void wait(const Message& message, std::chrono::milliseconds patience) {
        const Waiting waiting(*this, message);
        const bool came = message.receives ? message.buffer->waitRecv(patience) : message.buffer->waitSend(patience);
        if (!came) throw gloo::IoException("Connection closed half way");
    }

  private:
    static constexpr auto kLong = std::chrono::milliseconds(200);

    struct Waiting {
        Waiting(Lookout& lookout, const Message& message) : at(lookout) {
            const std::lock_guard lock(at.mutex_);
            at.message_ = &message;
            ++at.turn_;
            if (at.sleeps_) at.changed_.notify_one();
        }
        ~Waiting() {
            const std::lock_guard lock(at.mutex_);
            at.message_ = nullptr;
        }
        Waiting(const Waiting&) = delete;
        Waiting& operator=(const Waiting&) = delete;
        Lookout& at;
    };

    void serve() {
        std::unique_lock lock(mutex_);
        while (!stops_) {
            sleeps_ = message_ == nullptr;
            if (sleeps_) {
                changed_.wait(lock, [&] { return stops_ || message_ != nullptr; });
                continue;
            }
            const uint64_t turn = turn_;
            const auto takes_long = [&] {
                changed_.wait_for(lock, kLong, [&] { return stops_; });
                return !stops_ && turn == turn_ && message_ != nullptr;
            };
            // What came with the connection's last bytes has been taken by the second time.
            if (!takes_long() || !is_lost(message_->peer) || !takes_long()) continue;
            message_->receives ? message_->buffer->abortWaitRecv() : message_->buffer->abortWaitSend();
        }
    }
    // A wait that is not to last says at once what it was told.
    bool is_lost(uint32_t peer) {
        never_[peer]->abortWaitRecv();
        try {
            never_[peer]->waitRecv(kLong);
            return false;
        } catch (const gloo::Exception&) {
            return true;
        }
    }

    std::vector<std::byte> untold_;
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> never_;
    std::mutex mutex_;
    std::condition_variable changed_;
    const Message* message_ = nullptr;  // that is waited for
    uint64_t turn_ = 0;                 // waits so far
    bool sleeps_ = false, stops_ = false;
    std::thread thread_;
};

class GlooTransport final : public Transport {
  public:
    explicit GlooTransport(const GlooMeeting& meeting)
        : rank_(meeting.rank), ranks_(meeting.ranks), ask_(meeting.ask), next_(ranks_ * 2), proofs_(ranks_) {
        const WithoutSignals no_pipe(WithoutSignals::only_pipe());
        auto device = device_at(meeting.ip);
        context_ = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank_), static_cast<int>(ranks_));
        context_->setTimeout(until(meeting.deadline));
        Store store(meeting);
        meeting.put(proof_of(rank_), text_of(meeting.proof));
        context_->connectFullMesh(store, device);
        lookout_ = std::make_unique<Lookout>(*context_, rank_, ranks_);
        meet(meeting);
    }

    ~GlooTransport() override {
        const WithoutSignals no_pipe(WithoutSignals::only_pipe());
        lookout_.reset();
        context_.reset();
    }

    size_t chunk() const override { return kChunk; }

    Status exchange(std::span<const Outgoing> out, std::span<Incoming> in, Clock::time_point deadline) override {
        return guarded(deadline, [&]() -> Status {
            size_t aside = 0;
            for (uint32_t r = 0; r < ranks_; ++r)
                if (r != rank_ && in[r].to == nullptr) aside += in[r].bytes;
            if (aside_.size() < aside) aside_.resize(aside);
            const uint64_t tag = round_++;
            std::byte* free = aside_.data();
            for (uint32_t i = 1; i < ranks_; ++i) {
                const uint32_t from = (rank_ + ranks_ - i) % ranks_, to = (rank_ + i) % ranks_;
                if (in[from].bytes > 0) {
                    std::byte* const at = in[from].to != nullptr ? in[from].to : free;
                    if (in[from].to == nullptr) free += in[from].bytes;
                    in[from].at = at;
                    receive(at, in[from].bytes, from, tag);
                }
                if (out[to].bytes > 0) send(out[to].from, out[to].bytes, to, tag);
            }
            return wait(deadline), Status();
        });
    }

    // First both sides tell each other what they have: a rendezvous, and Gloo would drop the connection over lengths
    // that differ.
    Status transfer(std::span<const Transfer> batch, Clock::time_point deadline) override {
        struct Words {
            uint64_t bytes, type;
        };
        // until the connections are closed, should one of them be lost
        std::vector<Words> said(batch.size()), heard(batch.size());
        std::vector<uint64_t> tags(batch.size());
        return guarded(deadline, [&]() -> Status {
            for (size_t i = 0; i < batch.size(); ++i) {
                const Transfer& t = batch[i];
                tags[i] = kTransferTags + 4 * next_[2 * t.peer + (t.sends ? 1 : 0)]++;
                said[i] = {t.bytes, static_cast<uint64_t>(t.type)};
                if (t.peer == rank_) continue;
                receive(reinterpret_cast<std::byte*>(&heard[i]), sizeof(Words), t.peer, tags[i] + (t.sends ? 1 : 0));
                send(reinterpret_cast<std::byte*>(&said[i]), sizeof(Words), t.peer, tags[i] + (t.sends ? 0 : 1));
            }
            wait(deadline);
            for (size_t i = 0; i < batch.size(); ++i) {
                const Transfer& t = batch[i];
                if (t.peer == rank_ || (heard[i].bytes == said[i].bytes && heard[i].type == said[i].type)) continue;
                const Words &sent = t.sends ? said[i] : heard[i], &received = t.sends ? heard[i] : said[i];
                return {HCCL_E_PARA, concat("HcclSend: ranks disagree: rank ", t.sends ? rank_ : t.peer, " sends ",
                                            describe(sent.bytes, static_cast<uint32_t>(sent.type)), " to rank ",
                                            t.sends ? t.peer : rank_, ", which receives ",
                                            describe(received.bytes, static_cast<uint32_t>(received.type)))};
            }
            for (size_t i = 0; i < batch.size(); ++i) {
                const Transfer& t = batch[i];
                if (t.peer == rank_) continue;
                t.sends ? send(t.data, t.bytes, t.peer, tags[i] + 2) : receive(t.data, t.bytes, t.peer, tags[i] + 2);
            }
            copy_own(batch);
            return wait(deadline), Status();
        });
    }

    void give_up() noexcept override {
        const WithoutSignals no_pipe(WithoutSignals::only_pipe());
        try {
            context_->closeConnections();
        } catch (...) {  // they are closed already
        }
    }

  private:
    static std::shared_ptr<gloo::transport::Device> device_at(const std::string& ip) {
        const WithoutSignals none(WithoutSignals::all());  // its thread
        gloo::transport::tcp::attr where;
        where.hostname = ip;
        return gloo::transport::tcp::CreateDevice(where);
    }
    using Proof = std::array<uint64_t, 2>;
    static std::string text_of(const Proof& proof) {
        return {reinterpret_cast<const char*>(proof.data()), sizeof proof};
    }
    static std::string proof_of(uint32_t rank) { return "gloo/proof/" + std::to_string(rank); }

    // Gloo takes whoever connects first for the rank that it waits for. Who has the key has put into the store what it
    // says here.
    void meet(const GlooMeeting& meeting) {
        for (uint32_t r = 0; r < ranks_; ++r) {
            if (r == rank_) continue;
            receive(reinterpret_cast<std::byte*>(&proofs_[r]), sizeof(Proof), r, kProofTag);
            send(reinterpret_cast<const std::byte*>(&meeting.proof), sizeof(Proof), r, kProofTag);
        }
        wait(meeting.deadline);
        for (uint32_t r = 0; r < ranks_; ++r)
            if (r != rank_ && meeting.get(proof_of(r)) != text_of(proofs_[r]))
                throw std::runtime_error("a stranger has come in the place of rank " + std::to_string(r));
    }

    void send(const std::byte* from, size_t bytes, uint32_t to, uint64_t tag) {
        peer_ = to;
        auto* const data = const_cast<std::byte*>(from);  // NOLINT: Gloo reads it
        sends_.push_back({context_->createUnboundBuffer(data, bytes), to, false});
        sends_.back().buffer->send(static_cast<int>(to), tag);
    }
    void receive(std::byte* to, size_t bytes, uint32_t from, uint64_t tag) {
        peer_ = from;
        receives_.push_back({context_->createUnboundBuffer(to, bytes), from, true});
        receives_.back().buffer->recv(static_cast<int>(from), tag);
    }
    void wait(Clock::time_point deadline) {
        for (received_ = 0; received_ < receives_.size(); ++received_) {
            peer_ = receives_[received_].peer;
            lookout_->wait(receives_[received_], until(deadline));
        }
        for (const Message& m : sends_) peer_ = m.peer, lookout_->wait(m, until(deadline));
        receives_.clear(), sends_.clear();
    }
    // After a time-out: all from whom nothing has come.
    Text missing() {
        std::set<uint32_t> ranks = {peer_};
        for (size_t i = received_ + 1; i < receives_.size(); ++i) try {
                receives_[i].buffer->waitRecv(std::chrono::milliseconds(1));
            } catch (const gloo::Exception&) {
                ranks.insert(receives_[i].peer);
            }
        Text list;
        for (const uint32_t r : ranks) append(list, list.empty() ? "" : ", ", r);
        return list;
    }
    template <typename F>
    Status guarded(Clock::time_point deadline, const F& f) {
        const WithoutSignals no_pipe(WithoutSignals::only_pipe());
        try {
            return f();
        } catch (const gloo::Exception& error) {
            const bool late = Clock::now() >= deadline;
            const Text list = late ? missing() : Text();
            give_up();
            receives_.clear(), sends_.clear();
            if (late) return {HCCL_E_TIMEOUT, concat("missing: rank ", list)};
            // it is over for that rank, and why is known elsewhere
            if (Status why = ask_(peer_); !why.ok()) return why;
            return {HCCL_E_REMOTE, concat("the connection to rank ", peer_, " is lost: ", error.what())};
        }
    }
    void copy_own(std::span<const Transfer> batch) const {
        size_t sent = 0;
        for (const Transfer& to : batch) {
            if (to.sends || to.peer != rank_) continue;
            while (sent < batch.size() && !(batch[sent].sends && batch[sent].peer == rank_)) ++sent;
            if (sent == batch.size()) return;
            std::memmove(to.data, batch[sent++].data, to.bytes);
        }
    }

    const uint32_t rank_, ranks_;
    const std::function<Status(uint32_t)> ask_;
    uint32_t peer_ = 0;           // whom the last word with Gloo was about
    std::vector<uint64_t> next_;  // transfers so far, with every rank and in both directions
    std::vector<Proof> proofs_;   // of the others
    std::shared_ptr<gloo::rendezvous::Context> context_;
    std::unique_ptr<Lookout> lookout_;
    std::vector<std::byte> aside_;
    std::vector<Message> sends_, receives_;
    size_t received_ = 0;  // of these, so far
    uint64_t round_ = 0;
};

}  // namespace
}  // namespace gradus::hccl

extern "C" __attribute__((visibility("default"))) std::unique_ptr<gradus::hccl::Transport> gradus_open_gloo(
    const gradus::hccl::GlooMeeting& meeting) {
    return std::make_unique<gradus::hccl::GlooTransport>(meeting);
}
