#include "cli/call/launch.h"

#include <fmt/core.h>

#include "cli/base/clock.h"
#include "cli/base/failure.h"

namespace gradus::cli {
namespace {

// A refusal of the arguments is the user's, one of the product is nobody's fault, the rest is the machine's.
void expect_accepted(aclnnStatus status) {
    if (status == 0) return;
    const char* text = aclGetRecentErrMsg();
    const std::string message = text == nullptr ? fmt::format("the library answers {}", status) : text;
    const bool product = status == 361001 && message.find("product") != std::string::npos;
    throw Failure(status == 161001 || status == 161002 ? kUsage : product ? kUnsupported : kEnvironment, message);
}

}  // namespace

Launch::Launch(const Call& call) : op_(call.op->name) {
    stream();
    aclGetRecentErrMsg();  // what was said before is not of this call
    texts_.reserve(call.op->arguments.size());
    for (const Argument& argument : call.op->arguments) {
        gradusArg arg{};
        arg.name = argument.name.c_str();
        arg.kind = argument.kind;
        if (argument.is_tensor()) {
            const auto found = call.tensors.find(argument.name);
            if (found == call.tensors.end()) continue;
            tensors_.push_back(found->second);
            arg.value.tensor = found->second.handle();
            args_.push_back(arg);
            continue;
        }
        const auto found = call.attributes.find(argument.name);
        if (found == call.attributes.end()) continue;
        const nlohmann::json& value = found->second;
        if (argument.kind == GRADUS_INT_ARRAY) {
            const auto items = value.get<std::vector<int64_t>>();
            arrays_.emplace_back(aclCreateIntArray(items.data(), items.size()), &aclDestroyIntArray);
            arg.value.array = arrays_.back().get();
        } else if (argument.kind == GRADUS_INT) {
            arg.value.i = value.get<int64_t>();
        } else if (argument.kind == GRADUS_DOUBLE) {
            arg.value.d = value.get<double>();
        } else if (argument.kind == GRADUS_BOOL) {
            arg.value.b = value.get<bool>();
        } else {
            texts_.push_back(value.get<std::string>());
            arg.value.s = texts_.back().c_str();
        }
        args_.push_back(arg);
    }
    expect_accepted(gradusPrepare(op_.c_str(), args_.data(), args_.size(), &size_, &executor_));
    expect_success(aclSetAclOpExecutorRepeatable(executor_), "aclSetAclOpExecutorRepeatable");
    if (size_ == 0) return;
    void* data = nullptr;
    expect_success(aclrtMalloc(&data, size_, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc of the workspace");
    memory_ = std::shared_ptr<void>(data, &aclrtFree);
    // Touched: the first use of a page costs more than an operator.
    expect_success(aclrtMemset(data, size_, 1, size_), "aclrtMemset of the workspace");
}

std::string Launch::path() const {
    const char* path = gradusPath(executor_);
    return path == nullptr ? "unknown" : path;
}

Launch::~Launch() { aclDestroyAclOpExecutor(executor_); }

double Launch::finish(aclOpExecutor* executor, double start) const {
    expect_accepted(gradusLaunch(memory_.get(), size_, executor, stream()));
    expect_accepted(aclrtSynchronizeStream(stream()));
    return now() - start;
}

double Launch::again() const { return finish(executor_, now()); }

double Launch::whole() const {
    const double start = now();
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    expect_accepted(gradusPrepare(op_.c_str(), args_.data(), args_.size(), &size, &executor));
    return finish(executor, start);
}

}  // namespace gradus::cli
