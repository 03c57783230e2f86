// A call through the C interface, both phases.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "cli/call.h"
#include "cli/failure.h"

namespace gradus::cli {
namespace {

std::string library_message(int status) {
    const char* message = aclGetRecentErrMsg();
    return message != nullptr ? message : fmt::format("error {}", status);
}

// The arguments as the C interface wants them; the arrays live as long as this.
class Arguments {
  public:
    explicit Arguments(const Call& call) {
        for (const Argument& argument : call.op->arguments) {
            gradusArg arg{};
            arg.name = argument.name.c_str();
            arg.kind = argument.kind;
            if (argument.is_tensor()) {
                const auto found = call.tensors.find(argument.name);
                if (found == call.tensors.end()) continue;
                arg.value.tensor = found->second.handle();
            } else {
                const auto found = call.attributes.find(argument.name);
                if (found == call.attributes.end()) continue;
                set(arg, found->second);
            }
            args_.push_back(arg);
        }
    }
    ~Arguments() {
        for (const aclIntArray* array : arrays_) aclDestroyIntArray(array);
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    const gradusArg* data() const { return args_.data(); }
    uint64_t size() const { return args_.size(); }

  private:
    void set(gradusArg& arg, const nlohmann::json& value) {
        switch (arg.kind) {
            case GRADUS_INT:
                arg.value.i = value.get<int64_t>();
                break;
            case GRADUS_DOUBLE:
                arg.value.d = value.get<double>();
                break;
            case GRADUS_BOOL:
                arg.value.b = value.get<bool>();
                break;
            case GRADUS_INT_ARRAY: {
                const auto list = value.get<std::vector<int64_t>>();
                arrays_.push_back(aclCreateIntArray(list.data(), list.size()));
                arg.value.array = arrays_.back();
                break;
            }
            default:
                arg.value.s = value.get_ref<const std::string&>().c_str();
        }
    }

    std::vector<gradusArg> args_;
    std::vector<const aclIntArray*> arrays_;
};

void check_phase_one(aclnnStatus status) {
    if (status == ACLNN_SUCCESS) return;
    const std::string message = library_message(status);
    const bool usage = status == ACLNN_ERR_PARAM_NULLPTR || status == ACLNN_ERR_PARAM_INVALID;
    throw Failure(usage ? kUsage : status == ACLNN_ERR_RUNTIME_ERROR ? kUnsupported : kEnvironment, message);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ScopedOption::ScopedOption(const char* name, const std::string& value) : name_(name) {
    const char* before = gradusGetOption(name);
    before_ = before != nullptr ? before : "";
    if (gradusSetOption(name, value.c_str()) != ACL_SUCCESS) throw Failure(kUsage, library_message(0));
}

ScopedOption::~ScopedOption() { gradusSetOption(name_, before_.c_str()); }

Ran run(const Call& call, int repeats) {
    const aclrtStream queue = stream();
    const Arguments arguments(call);
    std::vector<double> seconds;
    Ran ran{};
    std::unique_ptr<Tensor> workspace;
    for (int i = 0; i < std::max(1, repeats); ++i) {
        uint64_t bytes = 0;
        aclOpExecutor* executor = nullptr;
        check_phase_one(gradusPrepare(call.op->name.c_str(), arguments.data(), arguments.size(), &bytes, &executor));
        if (!workspace) workspace = std::make_unique<Tensor>(ACL_UINT8, Shape{static_cast<int64_t>(bytes)});
        ran.workspace = bytes;
        ran.path = gradusPath(executor);
        const auto start = std::chrono::steady_clock::now();
        const aclnnStatus launched = gradusLaunch(workspace->data(), bytes, executor, queue);
        if (launched == ACLNN_ERR_PARAM_INVALID) check_phase_one(launched);
        expect_success(launched, call.op->name);
        expect_success(aclrtSynchronizeStream(queue), call.op->name);
        seconds.push_back(seconds_since(start));
    }
    std::sort(seconds.begin(), seconds.end());
    ran.seconds = seconds.front();
    ran.median = seconds[seconds.size() / 2];
    return ran;
}

std::string path_of(const Call& call) {
    const Arguments arguments(call);
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    check_phase_one(gradusPrepare(call.op->name.c_str(), arguments.data(), arguments.size(), &bytes, &executor));
    std::string path = gradusPath(executor);
    aclDestroyAclOpExecutor(executor);
    return path;
}

Call with_new_outputs(const Call& call) {
    Call copy = call;
    for (const Argument& argument : call.op->arguments) {
        const auto found = copy.tensors.find(argument.name);
        if (argument.direction == Argument::output && found != copy.tensors.end())
            found->second = Tensor(found->second.dtype(), found->second.shape());
    }
    return copy;
}

}  // namespace gradus::cli
