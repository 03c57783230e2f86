// Threads of the limits: as many as the library works with, asleep while it does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace gradus::bench {

class Team {
  public:
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }
    // Calls f for every block in 0..blocks, whoever is free takes the next; returns when all are done. The results are
    // kept where the compiler cannot do without them.
    void run(int64_t blocks, const std::function<uint64_t(int64_t block)>& f);

  private:
    void work();
    void serve(uint32_t seen);

    std::vector<std::thread> workers_;
    const std::function<uint64_t(int64_t)>* job_ = nullptr;
    int64_t blocks_ = 0;
    std::atomic<int64_t> next_ = 0;
    std::atomic<uint64_t> sink_ = 0;
    std::atomic<uint32_t> jobs_ = 0;  // counts up: a new job
    std::atomic<int> busy_ = 0;
    std::atomic<bool> stop_ = false;
};

// The team of the process, of the size of the option num_threads at the first call.
Team& team();

}  // namespace gradus::bench
