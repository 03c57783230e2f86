// What is done with a call: run it, run it again elsewhere, run it under another option.
#include <algorithm>

#include "cli/base/failure.h"
#include "cli/call/call.h"
#include "cli/call/launch.h"

namespace gradus::cli {

ScopedOption::ScopedOption(const char* name, const std::string& value) : name_(name) {
    const char* before = gradusGetOption(name);
    before_ = before != nullptr ? before : "";
    if (gradusSetOption(name, value.c_str()) == ACL_SUCCESS) return;
    const char* message = aclGetRecentErrMsg();
    // The name of an instruction set that this CPU lacks is a right word.
    throw Failure(std::string_view(name) == "max_isa" ? kUnsupported : kUsage, message != nullptr ? message : name);
}

ScopedOption::~ScopedOption() { gradusSetOption(name_, before_.c_str()); }

Ran run(const Call& call, int repeats) {
    const Launch launch(call);
    std::vector<double> seconds;
    for (int i = 0; i < std::max(1, repeats); ++i) seconds.push_back(launch.again());
    std::sort(seconds.begin(), seconds.end());
    return {seconds.front(), seconds[seconds.size() / 2], launch.workspace(), launch.path()};
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
