#include "cli/bench/team.h"

#include <cstdlib>

#include "gradus/gradus.h"

namespace gradus::bench {

Team::Team(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(0); });
}

Team::~Team() {
    stop_ = true;
    ++jobs_;
    jobs_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void Team::run(int64_t blocks, const std::function<uint64_t(int64_t)>& f) {
    job_ = &f;
    blocks_ = blocks;
    next_ = 0;
    busy_ = static_cast<int>(workers_.size());
    ++jobs_;
    jobs_.notify_all();
    work();
    for (int busy; (busy = busy_) != 0;) busy_.wait(busy);
}

void Team::work() {
    uint64_t sum = 0;
    for (int64_t block; (block = next_.fetch_add(1, std::memory_order_relaxed)) < blocks_;) sum ^= (*job_)(block);
    sink_ ^= sum;
}

void Team::serve(uint32_t seen) {
    for (;;) {
        jobs_.wait(seen);
        seen = jobs_;
        if (stop_) return;
        work();
        if (--busy_ == 0) busy_.notify_one();
    }
}

Team& team() {
    static Team the(std::atoi(gradusGetOption("num_threads")));
    return the;
}

}  // namespace gradus::bench
