#include "testing/runtime.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>

namespace gradus::testing {

std::string take_message() {
    const char* message = aclGetRecentErrMsg();
    return message != nullptr ? message : "";
}

void expect_message(const std::string& function, const std::string& part) {
    const std::string text = take_message();
    EXPECT_EQ(text.rfind(function + ": ", 0), 0u) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

void count_up(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

Gate::~Gate() {
    open();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == 0; });
}

aclError Gate::hold(aclrtStream stream) {
    {
        const std::lock_guard lock(mutex_);
        ++waiting_;
    }
    return aclrtLaunchHostFunc(stream, pass, this);
}

void Gate::open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
}

void Gate::wait_until_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
}

void Gate::pass(void* argument) {
    auto& gate = *static_cast<Gate*>(argument);
    std::unique_lock lock(gate.mutex_);
    gate.reached_ = true;
    gate.changed_.notify_all();
    gate.changed_.wait(lock, [&] { return gate.open_; });
    --gate.waiting_;
    gate.changed_.notify_all();
}

namespace {

bool is_asleep(pid_t thread) {
    std::string word;
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    while (stat >> word && word.back() != ')') {  // its name, in brackets, may have blanks
    }
    return stat >> word && word == "S";
}

}  // namespace

WaitingThread::WaitingThread(const std::function<void()>& call) {
    thread_ = std::thread([this, call] {
        inside_ = gettid();
        call();
        over_ = true;
    });
    while (!over_ && (inside_ == 0 || !is_asleep(inside_))) std::this_thread::yield();
}

void WaitingThread::join() {
    if (thread_.joinable()) thread_.join();
}

void Runtime::SetUp() {
    take_message();
    ASSERT_EQ(aclrtSetDevice(0), 0);
    ASSERT_EQ(aclrtCreateStream(&stream), 0);
}

void Runtime::TearDown() {
    if (stream != nullptr) {
        EXPECT_EQ(aclrtDestroyStream(stream), 0) << take_message();
    }
    EXPECT_EQ(aclrtResetDevice(0), 0) << take_message();
}

void* Runtime::device_memory(size_t size) {
    void* p = nullptr;
    EXPECT_EQ(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST), 0) << take_message();
    return p;
}

void Runtime::wait_until_streams_wait() {
    char byte = 0;
    EXPECT_EQ(aclrtMemcpy(&byte, 1, &byte, 1, ACL_MEMCPY_HOST_TO_HOST), 0) << take_message();
}

int run_helper(const std::string& mode, const std::string& environment) {
    const int status = std::system((environment + " " + GRADUS_HELPER + " " + mode).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace gradus::testing
