// What the tests of the runtime share. They see nothing but the public C interface.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>

#include "acl/acl.h"

inline std::string message() {
    const char* text = aclGetRecentErrMsg();
    return text != nullptr ? text : "";
}

// The newest message names the function, the argument, and what was wrong with it.
inline void expect_message(const std::string& function, const std::string& part) {
    const std::string text = message();
    EXPECT_EQ(text.rfind(function + ": ", 0), 0u) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

// A host function that holds its stream until it is opened.
class Gate {
  public:
    ~Gate() {
        open();
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return waiting_ == 0; });
    }
    aclError hold(aclrtStream stream) {
        {
            const std::lock_guard lock(mutex_);
            ++waiting_;
        }
        return aclrtLaunchHostFunc(stream, pass, this);
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void wait_until_reached() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return reached_; });
    }
    void forget() {  // the callback was dropped
        const std::lock_guard lock(mutex_);
        waiting_ = 0;
    }

  private:
    static void pass(void* argument) {
        auto& gate = *static_cast<Gate*>(argument);
        std::unique_lock lock(gate.mutex_);
        gate.reached_ = true;
        gate.changed_.notify_all();
        gate.changed_.wait(lock, [&] { return gate.open_; });
        --gate.waiting_;
        gate.changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false, reached_ = false;
    int waiting_ = 0;
};

class Runtime : public testing::Test {
  protected:
    void SetUp() override {
        message();
        ASSERT_EQ(aclrtSetDevice(0), 0);
        ASSERT_EQ(aclrtCreateStream(&stream), 0);
    }
    void TearDown() override {
        if (stream != nullptr) {
            EXPECT_EQ(aclrtDestroyStream(stream), 0) << message();
        }
        EXPECT_EQ(aclrtResetDevice(0), 0) << message();
    }
    static void* device_memory(size_t size) {
        void* p = nullptr;
        EXPECT_EQ(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST), 0) << message();
        return p;
    }

    aclrtStream stream = nullptr;
};

// Runs the helper program, which is a process of its own: exits, environment variables.
inline int run_helper(const std::string& mode, const std::string& environment = "") {
    const int status = std::system((environment + " " + GRADUS_HELPER + " " + mode).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
