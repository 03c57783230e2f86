// The observer that remembers. A call costs two looks at the clock and one record, a task three and one.
#pragma once

#include <array>

#include "trace/store.h"

namespace gradus::trace {

class Recorder final : public Observer {
  public:
    explicit Recorder(Store& store) : store_(store) {}

    void on_call(const char* function) override;
    void on_return(const char* function, const Status& status) override;
    void on_phase_one() override;

    void on_memory(int device, int64_t change) override;
    void on_host_access(const TaskInfo& task) override;
    void on_host_access_end(const TaskInfo& task) override;
    void on_task(const TaskInfo& task) override;
    void on_task_begin(const TaskInfo& task) override;
    void on_task_end(const TaskInfo& task, int code) override;
    void on_task_dropped(const TaskInfo& task) override;
    void on_stream_done(uint64_t stream, uint64_t ticket) override;
    void on_record_done(uint64_t record) override;
    void on_finding(const Finding& finding) override;
    void on_finalize() override;

    // In the child of a fork, by its one thread.
    void forget_all() noexcept;

  private:
    static constexpr size_t kRunning = 64;  // tasks at a time that are looked at for clashes
    static constexpr int kDevices = 1024;

    Clash find_clash(const TaskInfo& task) const;
    uint64_t later(uint64_t a, uint64_t b) const;

    Store& store_;
    // behind the process lock
    std::array<const TaskInfo*, kRunning> running_{};
    std::array<int64_t, kDevices> device_bytes_{};
};

}  // namespace gradus::trace
