#include "cli/call/launch.h"

#include <fmt/core.h>

#include <mutex>
#include <optional>

#include "cli/base/clock.h"
#include "cli/base/failure.h"
#include "cli/judge/values.h"
#include "cli/output/terminal.h"

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

Launch::Arguments::Arguments(const Call& call) : op(call.op->name) {
    texts.reserve(call.op->arguments.size());
    for (const Argument& argument : call.op->arguments) {
        gradusArg arg{};
        arg.name = argument.name.c_str();
        arg.kind = argument.kind;
        if (argument.is_tensor()) {
            const auto found = call.tensors.find(argument.name);
            if (found == call.tensors.end()) continue;
            tensors.push_back(found->second);
            arg.value.tensor = found->second.handle();
            list.push_back(arg);
            continue;
        }
        const auto found = call.attributes.find(argument.name);
        if (found == call.attributes.end()) continue;
        const nlohmann::json& value = found->second;
        if (argument.kind == GRADUS_INT_ARRAY) {
            const auto items = value.get<std::vector<int64_t>>();
            arrays.emplace_back(aclCreateIntArray(items.data(), items.size()), &aclDestroyIntArray);
            arg.value.array = arrays.back().get();
        } else if (argument.kind == GRADUS_INT) {
            arg.value.i = value.get<int64_t>();
        } else if (argument.kind == GRADUS_DOUBLE) {
            arg.value.d = value.get<double>();
        } else if (argument.kind == GRADUS_BOOL) {
            arg.value.b = value.get<bool>();
        } else {
            texts.push_back(value.get<std::string>());
            arg.value.s = texts.back().c_str();
        }
        list.push_back(arg);
    }
}

Launch::Launch(const Call& call) : a_(call) {
    stream();
    expect_accepted(gradusPrepare(a_.op.c_str(), a_.list.data(), a_.list.size(), &size_, &executor_));
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

void run_watched(const Call& call, const std::string& doing) {
    const Launch::Arguments arguments(call);
    // lent threads are counted: what golden has done of its tiles is what there is to show
    struct Watch {
        std::mutex mutex;
        std::optional<Progress> progress;
        const std::string& doing;
    } watch{{}, {}, doing};
    const auto loop = [](void* host, int64_t count, void (*body)(void*, int64_t), void* data) {
        auto& w = *static_cast<Watch*>(host);
        w.progress.emplace(w.doing, count);
        in_parallel(count, [&](int64_t i) {
            body(data, i);
            const std::scoped_lock lock(w.mutex);
            w.progress->step("");
        });
    };
    stream();  // made up tensors lie in its memory
    const ScopedOption limits("limits", gradusGetOption("limits")), memory("memory", gradusGetOption("memory"));
    expect_success(gradusSetLoop(loop, &watch), "gradusSetLoop");
    const aclnnStatus status = gradusRun(arguments.op.c_str(), arguments.list.data(), arguments.list.size());
    gradusSetLoop(nullptr, nullptr);
    expect_accepted(status);
}

double Launch::again() const { return finish(executor_, now()); }

double Launch::whole() const {
    const double start = now();
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    expect_accepted(gradusPrepare(a_.op.c_str(), a_.list.data(), a_.list.size(), &size, &executor));
    return finish(executor, start);
}

}  // namespace gradus::cli
