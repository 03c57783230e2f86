// A call as the C interface takes it: phase one and two, once or as often as wanted.
#pragma once

#include "cli/call/call.h"

namespace gradus::cli {

class Launch {
  public:
    // What the C interface is given, and what it points to.
    struct Arguments {
        explicit Arguments(const Call& call);
        std::string op;
        std::vector<Tensor> tensors;     // kept alive
        std::vector<std::string> texts;  // what gradusArg points to
        std::vector<std::shared_ptr<aclIntArray>> arrays;
        std::vector<gradusArg> list;
    };
    // Phase one. Failure as run() has it.
    explicit Launch(const Call& call);
    ~Launch();
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    uint64_t workspace() const { return size_; }
    // The kernel that was chosen: an instruction set, or golden.
    std::string path() const;
    // Seconds of phase two and the synchronisation.
    double again() const;
    // Seconds of both phases and the synchronisation, with a fresh executor.
    double whole() const;

  private:
    double finish(aclOpExecutor* executor, double start) const;

    Arguments a_;
    uint64_t size_ = 0;
    std::shared_ptr<void> memory_;
    aclOpExecutor* executor_ = nullptr;
};

// Both phases at once, on threads of the tool's own; progress on a terminal if it takes long: golden's way.
void run_watched(const Call& call, const std::string& doing);

}  // namespace gradus::cli
