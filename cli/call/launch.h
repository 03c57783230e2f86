// A call as the C interface takes it: phase one and two, once or as often as wanted.
#pragma once

#include "cli/call/call.h"

namespace gradus::cli {

class Launch {
  public:
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

    std::string op_;
    std::vector<Tensor> tensors_;     // kept alive
    std::vector<std::string> texts_;  // what gradusArg points to
    std::vector<std::shared_ptr<aclIntArray>> arrays_;
    std::vector<gradusArg> args_;
    uint64_t size_ = 0;
    std::shared_ptr<void> memory_;
    aclOpExecutor* executor_ = nullptr;
};

}  // namespace gradus::cli
