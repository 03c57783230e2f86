// Every operator of the catalogue by its name, fast and golden, in both phases and at once: whatever is refused to it,
// it answers with a code and gives everything back, or it computes the same bits without.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "cli/base/text.h"
#include "cli/call/launch.h"
#include "inject.h"
#include "testing/call.h"

namespace gradus::faults {
namespace {

using Bits = std::map<std::string, std::vector<std::byte>>;

constexpr Kind kKinds[] = {Kind::memory, Kind::mapping, Kind::thread};

// A problem of the catalogue's, and its arguments as the C interface takes them. What a case asks for besides is made
// here, so that only the library asks for anything while it is refused.
struct Problem {
    Problem(const cli::Operator& op, const std::string& line)
        : call(cli::make_call(op, cli::split(line, ' '))), arguments(call) {
        EXPECT_EQ(aclrtMalloc(&workspace, kWorkspace, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    }
    ~Problem() { aclrtFree(workspace); }
    Problem(const Problem&) = delete;
    Problem& operator=(const Problem&) = delete;

    int run() const { return gradusRun(arguments.op.c_str(), arguments.list.data(), arguments.list.size()); }
    int prepare_and_launch() const {
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        int code = gradusPrepare(arguments.op.c_str(), arguments.list.data(), arguments.list.size(), &size, &executor);
        if (code == 0) code = size > kWorkspace ? -1 : gradusLaunch(workspace, size, executor, cli::stream());
        const int ended = aclrtSynchronizeStream(cli::stream());
        return code != 0 ? code : ended;
    }
    void poison() const {
        each_output([](const std::string&, const cli::Tensor& tensor) {
            std::memset(tensor.data(), 0xFF, static_cast<size_t>(tensor.bytes()));
        });
    }
    Bits bits() const {
        Bits all;
        each_output([&all](const std::string& name, const cli::Tensor& tensor) {
            all[name].assign(tensor.data(), tensor.data() + tensor.bytes());
        });
        return all;
    }

    static constexpr uint64_t kWorkspace = uint64_t{64} << 20;
    cli::Call call;
    cli::Launch::Arguments arguments;
    void* workspace = nullptr;

  private:
    template <typename F>
    void each_output(const F& f) const {
        for (const cli::Argument& argument : call.op->arguments)
            if (const auto found = call.tensors.find(argument.name);
                argument.direction == cli::Argument::output && found != call.tensors.end())
                f(argument.name, found->second);
    }
};

using Way = int (Problem::*)() const;

// One try; false when there was no nth request.
bool attempt(const Problem& problem, Way way, Kind kind, int64_t nth, bool and_all_after, const Bits& expected) {
    problem.poison();
    const int64_t before = live_blocks();
    int code;
    bool refused;
    {
        const Refusing refusing(kind, nth, and_all_after);
        code = (problem.*way)();
        refused = refusing.requests() >= nth;
    }
    if (code == 0) {
        EXPECT_EQ(problem.bits(), expected) << "taken, and other bits";
    } else {
        EXPECT_TRUE(refused) << testing::take_message();
        EXPECT_TRUE(code == 361001 || code == 161002) << code;
        EXPECT_NE(testing::take_message().find("aclnn" + problem.arguments.op), std::string::npos);
        EXPECT_TRUE(settles_at(before)) << "blocks that nobody gives back";
    }
    problem.poison();
    EXPECT_EQ((problem.*way)(), 0) << "with memory again: " << testing::take_message();
    EXPECT_EQ(problem.bits(), expected) << "with memory again";
    return refused;
}

void attempt_all(const Problem& problem, Way way) {
    problem.poison();
    ASSERT_EQ((problem.*way)(), 0) << testing::take_message();
    const Bits expected = problem.bits();
    for (const Kind kind : kKinds)
        for (const bool and_all_after : {false, true})
            for (int64_t nth = 1;; ++nth) {
                SCOPED_TRACE(std::string(kWords[static_cast<int>(kind)]) + " request " + std::to_string(nth) +
                             (and_all_after ? " and all after" : ""));
                say_where(problem.arguments.op.c_str(), kWords[static_cast<int>(kind)], nth, and_all_after);
                if (!attempt(problem, way, kind, nth, and_all_after, expected) || ::testing::Test::HasFailure()) break;
                ASSERT_LT(nth, 200);
            }
}

TEST(Catalogue, EveryOperator) {
    report_where_at_the_end();
    cli::stream();
    const testing::Option limits("limits", "off");
    const bool all = std::getenv("GRADUS_TEST_LONG") != nullptr;
    for (const cli::Operator& op : cli::catalogue())
        for (const std::string& line : all ? std::vector{op.tiny, op.sweep.back()} : std::vector{op.tiny})
            for (const char* const precision : {"fast", "golden"})
                for (const Way way : {&Problem::run, &Problem::prepare_and_launch}) {
                    SCOPED_TRACE(op.name + " " + line + " " + precision);
                    const Problem problem(op, line);
                    const testing::Option how("precision", precision), threads("num_threads", "3");
                    attempt_all(problem, way);
                    if (HasFailure()) return;
                }
}

}  // namespace
}  // namespace gradus::faults
