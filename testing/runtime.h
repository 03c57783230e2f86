// What tests of the runtime need: the message of a refusal, a stream held still, and processes of their own. Nothing
// here sets a device unless the fixture is used: a test begins without a context.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "acl/acl.h"

namespace gradus::testing {

// The messages since the last call, newest first; empty when there are none.
std::string take_message();

// The newest message names the function, the argument, and what was wrong with it.
void expect_message(const std::string& function, const std::string& part);

// A host function: *counter, a std::atomic<int>, goes up by one.
void count_up(void* counter);

// A host function that holds its stream until it is opened.
class Gate {
  public:
    Gate() = default;
    ~Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    aclError hold(aclrtStream stream);
    void open();
    void wait_until_reached();

  private:
    static void pass(void* argument);

    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false, reached_ = false;
    int waiting_ = 0;
};

// A thread that makes a call which has to wait. It is there when the thread sleeps, or has come back too early: what
// must not have happened yet is looked at without hoping that some milliseconds are enough.
class WaitingThread {
  public:
    explicit WaitingThread(const std::function<void()>& call);
    ~WaitingThread() { join(); }
    WaitingThread(const WaitingThread&) = delete;
    WaitingThread& operator=(const WaitingThread&) = delete;
    void join();

  private:
    std::atomic<pid_t> inside_ = 0;
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

// Device 0 and a stream of its own for each test.
class Runtime : public ::testing::Test {
  protected:
    void SetUp() override;
    void TearDown() override;
    static void* device_memory(size_t size);
    // Returns when all queued work is done but that of streams which wait themselves: so does a synchronous copy.
    static void wait_until_streams_wait();

    aclrtStream stream = nullptr;
};

// The exit code of the helper program (tests/runtime/helper.cpp), which is a process of its own: exits, environment
// variables. −1: it did not come to an exit.
int run_helper(const std::string& mode, const std::string& environment = "");

}  // namespace gradus::testing
