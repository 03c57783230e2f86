#include "cli/limit/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace gradus::bench {
namespace {

constexpr int kLeastRounds = 5;
constexpr double kLeastSample = 200e-6;  // below this a sample is several runs

class Workspace {
  public:
    explicit Workspace(uint64_t size) {
        if (size > 0) check(aclrtMalloc(&data_, size, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc of the workspace");
        if (size > 0) check(aclrtMemset(data_, size, 1, size), "aclrtMemset of the workspace");
    }
    ~Workspace() {
        if (data_ != nullptr) aclrtFree(data_);
    }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    void* data() const { return data_; }

  private:
    void* data_ = nullptr;
};

// Phase one once, phase two as often as wanted.
class Repeated {
  public:
    Repeated(const Trial& trial, aclrtStream stream) : launch_(trial.launch), stream_(stream) {
        check(trial.prepare(&size_, &executor_), "phase one");
        check(aclSetAclOpExecutorRepeatable(executor_), "aclSetAclOpExecutorRepeatable");
        workspace_ = std::make_unique<Workspace>(size_);
    }
    ~Repeated() { aclDestroyAclOpExecutor(executor_); }
    Repeated(const Repeated&) = delete;
    Repeated& operator=(const Repeated&) = delete;

    double seconds() const {
        const double start = now();
        check(launch_(workspace_->data(), size_, executor_, stream_), "phase two");
        check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream");
        return now() - start;
    }

  private:
    decltype(Trial::launch) launch_;
    aclrtStream stream_;
    uint64_t size_ = 0;
    aclOpExecutor* executor_ = nullptr;
    std::unique_ptr<Workspace> workspace_;
};

template <typename F>
double mean(int runs, const F& seconds) {
    double sum = 0;
    for (int i = 0; i < runs; ++i) sum += seconds();
    return sum / runs;
}

}  // namespace

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Spread spread(std::vector<double> samples) {
    std::ranges::sort(samples);
    const auto at = [&samples](double part) {
        const double place = part * static_cast<double>(samples.size() - 1);
        const auto below = static_cast<size_t>(place), above = std::min(below + 1, samples.size() - 1);
        return samples[below] + (place - std::floor(place)) * (samples[above] - samples[below]);
    };
    return {at(0.25), at(0.5), at(0.75)};
}

Measured measure(const Trial& trial, const Effort& effort, aclrtStream stream) {
    const Repeated op(trial, stream);
    op.seconds();  // wakes the library's threads
    const auto runs_of = [](double seconds) { return std::max(1, static_cast<int>(kLeastSample / seconds)); };
    const int limit_runs = runs_of(trial.limit.seconds()), op_runs = runs_of(op.seconds());

    std::vector<double> limits, ops, fractions;
    const double end = now() + effort.seconds;
    for (int round = 0; round < effort.rounds && (round < kLeastRounds || now() < end); ++round) {
        limits.push_back(mean(limit_runs, trial.limit.seconds));
        ops.push_back(mean(op_runs, [&op] { return op.seconds(); }));
        fractions.push_back(limits.back() / ops.back());
    }
    return {static_cast<int>(ops.size()), spread(limits), spread(ops), spread(fractions)};
}

Spread measure_whole(const Trial& trial, int calls, aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    check(trial.prepare(&size, &executor), "phase one");
    const Workspace workspace(size);
    check(trial.launch(workspace.data(), size, executor, stream), "phase two");
    check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");

    std::vector<double> seconds;
    for (int i = 0; i < calls; ++i) {
        const double start = now();
        check(trial.prepare(&size, &executor), "phase one");
        check(trial.launch(workspace.data(), size, executor, stream), "phase two");
        check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
        seconds.push_back(now() - start);
    }
    return spread(std::move(seconds));
}

}  // namespace gradus::bench
