// Calls by name over the whole catalogue: right ones by construction, and in half of the cases one thing bent.
#include <fmt/format.h>

#include <cmath>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "fuzz/alive.h"
#include "fuzz/call_oracles.h"
#include "fuzz/call_words.h"
#include "fuzz/report.h"

namespace gradus::fuzz {
namespace {

// Some elements of a float input that are no ordinary numbers; in words.
std::string spoil(const cli::Call& call, Input& in) {
    std::vector<const cli::Argument*> floats;
    for (const cli::Argument& argument : call.op->arguments)
        if (const auto found = call.tensors.find(argument.name);
            argument.direction == cli::Argument::input && found != call.tensors.end() &&
            cli::is_float(found->second.dtype()) && found->second.count() > 0)
            floats.push_back(&argument);
    if (floats.empty()) return "";
    const cli::Argument& argument = *in.pick(floats);
    const cli::Tensor& tensor = call.tensors.at(argument.name);
    const int64_t at = in.between(0, tensor.count() - 1);
    // a tiny f32 number in the place of a sum of exponentials, which is 1 or more, overflows on the way
    const double tiny = tensor.dtype() == ACL_FLOAT ? 0.0 : 0x1p-133;
    const double value = in.pick<double>({NAN, INFINITY, -INFINITY, -0.0, tiny});
    tensor.set(at, value);
    return fmt::format(", with {}{} = {}", argument.name, cli::index_text(tensor.shape(), at), value);
}

bool wants_dense(const cli::Operator& op) {
    for (const cli::Argument& argument : op.arguments)
        if (argument.limits.find("contiguous") != std::string::npos) return true;
    return false;
}

void run_case(Input in) {
    const cli::Operator& op = in.pick(cli::catalogue());
    const bool limits = !in.one_in(2), is_bent = in.one_in(2), spoiled = in.one_in(6);
    const testing::Option limit("limits", limits ? "on" : "off");
    const std::vector<std::string> words = random_words(op, in, limits);
    std::string line = fmt::format("gradus run {} {} --limits {}", op.name, cli::quoted(words), limits ? "on" : "off");
    set_case(line);
    const cli::Call made = [&] {
        try {
            return cli::make_call(op, words);
        } catch (const cli::Failure& failure) {
            fail("accept", std::string("right by construction, and refused: ") + failure.what());
        }
    }();
    const bool dense = (limits && wants_dense(op)) || in.one_in(3);
    if (spoiled) line += "   #" + spoil(made, in);
    line += dense ? "" : ", in views with strides";
    testing::Call call = placed(made, in, dense);
    if (!is_bent) {
        set_case(line);
        return expect_right(made, call, in);
    }
    Bend bend(in, call);
    set_case(line + ", bent: " + bend.words());
    expect_harmless(call, bend);
    const int64_t one = 1;
    if (planted("leak")) aclCreateIntArray(&one, 1);
}

}  // namespace
}  // namespace gradus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    gradus::cli::stream();  // first: the harness of the tests takes a runtime that is there already
    gradus::testing::stream();
    // memory grows with every case that is larger than all before, and then the case is run again: not always
    const auto run = [&] { gradus::fuzz::run_case({data, size}); };
    size % 4 == 0 ? gradus::fuzz::expect_nothing_left(run) : run();
    return 0;
}
