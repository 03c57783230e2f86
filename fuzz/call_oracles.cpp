#include "fuzz/call_oracles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/judge/measure.h"
#include "fuzz/report.h"
#include "testing/prepared.h"

namespace gradus::fuzz {
namespace {

using testing::Array;
using testing::Option;
using Results = testing::Call::Results;

Array array_of(const cli::Tensor& tensor) {
    Array array(tensor.dtype(), tensor.shape());
    if (!array.bytes.empty()) std::memcpy(array.bytes.data(), tensor.data(), array.bytes.size());
    return array;
}

void set_attribute(testing::Call& call, const cli::Argument& argument, const nlohmann::json& value) {
    switch (argument.kind) {
        case GRADUS_INT:
            call.integer(argument.name, value.get<int64_t>());
            return;
        case GRADUS_DOUBLE:
            call.real(argument.name, value.get<double>());
            return;
        case GRADUS_BOOL:
            call.boolean(argument.name, value.get<bool>());
            return;
        case GRADUS_INT_ARRAY:
            call.integers(argument.name, value.get<std::vector<int64_t>>());
            return;
        default:
            call.words(argument.name, value.get<std::string>().c_str());
    }
}

// Infinity times a difference is NaN where the terms are the same number, and infinite where they are rounded apart. If
// nothing but infinity came in (M is no NaN), infinite results count as golden's NaN; and a NaN as golden's infinity
// where that is not what its loops in narrow arithmetic have, one and all.
void settle_infinities(cli::Question& question, const std::string& name, const cli::Subject& subject, Array& got) {
    if (!cli::is_float(got.type) || !subject.magnitude.given()) return;
    std::vector<cli::Values> narrow;
    for (int64_t i = 0; i < subject.want.count(); ++i) {
        const double want = subject.want.at(i), have = subject.got.at(i);
        if (!std::isinf(subject.magnitude.at(i))) continue;
        if (std::isnan(want) && std::isinf(have)) got.set(i, std::nan(""));
        if (!std::isinf(want) || !std::isnan(have)) continue;
        if (narrow.empty())
            for (const char* precision : {"f32", "f32_truncated", "bf16", "f16"})
                narrow.push_back(question.answers(name).simulated(precision));
        if (std::any_of(narrow.begin(), narrow.end(), [=](const cli::Values& v) { return v.at(i) != want; }))
            got.set(i, want);
    }
}

// Of few numbers the judge may name a pattern, all errors towards zero say, that chance has made.
bool keeps(const cli::Judgement& judgement) {
    return judgement.verdict <= cli::Verdict::kept ||
           (judgement.verdict <= cli::Verdict::rounded && judgement.beyond_kept == 0);
}

// A factor that is rounded on the way, to f32 or where it is stated to f16, is off by half a step of the subnormal
// numbers, where it is one, and no share of the magnitude has that: golden's loops in the same type tell what it
// leaves. Of results as small as that alone.
bool leaves_subnormal_factors(cli::Question& question, const std::string& name, const cli::Subject& subject) {
    const cli::Allowance& allowance = subject.allowance;
    if (allowance.kernel != ACL_FLOAT && (allowance.kernel != ACL_FLOAT16 || allowance.roundings == 0)) return false;
    const double small = 16 * cli::grid_of(allowance.kernel).least_normal();
    const cli::Tolerance tolerance(subject);
    for (int64_t i = 0; i < subject.want.count(); ++i) {
        const double want = subject.want.at(i), magnitude = subject.magnitude.at(i);
        if (!std::isfinite(want)) continue;  // judged below
        if (!(std::abs(subject.got.at(i) - want) <= tolerance.kept(want, magnitude)) && !(magnitude < small))
            return false;
    }
    cli::Answers answers = question.answers(name);
    answers.mistakes.clear();  // whose names nobody asks for here, and whose search takes a minute of large calls
    return cli::judge(subject, {}, &answers).verdict <= cli::Verdict::rounded;
}

// What a unit takes as 0 where it multiplies numbers like these: the bf16 instructions every factor and sum below the
// normal numbers (docs/numerics.md).
double taken_as_zero(const cli::Call& call, const std::string& isa) {
    if (isa != "avx512_bf16" && isa != "amx") return 0;
    if (!call.op->name.starts_with("FusedLinear") && !call.op->name.starts_with("NsaSelected")) return 0;
    double largest = 1;  // of the other factors: inputs, or products of two
    for (const auto& [name, tensor] : call.tensors) {
        const Array values = array_of(tensor);
        for (int64_t i = 0; cli::is_float(values.type) && i < values.size(); ++i)
            if (std::isfinite(values.at(i))) largest = std::max(largest, std::abs(values.at(i)));
    }
    return 0x1p-126 * largest * largest;
}
bool takes_small_as_zero(const cli::Subject& subject, double small) {
    const cli::Tolerance tolerance(subject);
    for (int64_t i = 0; small > 0 && i < subject.want.count(); ++i) {
        const double want = subject.want.at(i), off = std::abs(subject.got.at(i) - want);
        if (std::isfinite(want) &&
            !(off <= tolerance.kept(want, subject.magnitude.at(i)) + subject.allowance.terms * small))
            return false;
    }
    return small > 0 && cli::judge(subject).verdict <= cli::Verdict::rounded;
}

// Every output within the promise.
void judge(cli::Question& question, Results results, const std::string& isa, double small) {
    for (auto& [name, got] : results) {
        if (planted("promise") && !got.bytes.empty()) got.bytes.back() ^= std::byte{0x40};
        const cli::Subject subject = question.subject(name, {got.type, got.bytes.data(), got.size()});
        settle_infinities(question, name, subject, got);
        const cli::Judgement judgement = cli::judge(subject);
        if (!keeps(judgement) && !leaves_subnormal_factors(question, name, subject) &&
            !takes_small_as_zero(subject, small))
            fail("promise", name + " on " + isa + ": " + verdict_name(judgement.verdict) + ", " + judgement.reason);
        count("outputs judged");
    }
}

// An element that has no bit cleared is what was there before: no operator makes such a NaN.
void expect_written(const Results& results) {
    for (const auto& [name, got] : results) {
        if (!cli::is_float(got.type)) continue;  // masks and indices are exact, and judged
        const auto item = static_cast<size_t>(got.item());
        for (size_t at = 0; at < got.bytes.size(); at += item)
            if (planted("written") || std::all_of(got.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                                  got.bytes.begin() + static_cast<std::ptrdiff_t>(at + item),
                                                  [](std::byte b) { return b == testing::kPoison; }))
                fail("written", name + ": element " + std::to_string(at / item) + " is as it was before");
    }
}

// Ways to run a call that must not change a bit.
constexpr const char* kWays[] = {"again",           "on 2 threads",      "on 7 threads",
                                 "at a page's end", "at a page's begin", "one element on",
                                 "other scratch",   "tensors destroyed", "on stale results"};

Results run_another_way(testing::Call call, uint64_t way) {
    const Option memory("memory", "any");
    const Option threads("num_threads", way == 1 ? "2" : way == 2 ? "7" : "1");
    if (way == 3) call.memory = testing::Memory::page_end;
    if (way == 4) call.memory = testing::Memory::page_begin;
    if (way == 5) call.shift = 1;
    if (way == 6) call.workspace_shift = 4;
    if (way == 7) call.destroy_early = true;
    return call.run();
}

void expect_same_bits(const Results& first, Results second, const char* way) {
    for (auto& [name, got] : second) {
        if (planted("bits") && !got.bytes.empty()) got.bytes.front() ^= std::byte{1};
        if (const int64_t at = testing::first_difference(first.at(name), got); at >= 0)
            fail("bits", std::string(way) + ": " + name + " differs at element " + std::to_string(at));
    }
    count("runs compared");
}

void expect_code(const char* phase, int code, const std::string& message) {
    constexpr int kCodes[] = {0, 161001, 161002, 361001};
    if (std::ranges::count(kCodes, code) == 0 || planted("code"))
        fail("code", std::string(phase) + " answers " + std::to_string(code) + ": " + message);
    if ((code == 0) != message.empty())
        fail("message", std::string(phase) + " answers " + std::to_string(code) + " with '" + message + "'");
}

// "aclnnSwiGlu: x: …", the argument in question first.
void expect_sentence(const testing::Call& call, const Bend& bend, const std::string& message) {
    const std::string start = "aclnn" + call.op + ": ";
    std::vector<std::string> names = call.names();
    names.insert(names.end(), {bend.misspelled(), "NULL"});
    const bool said = message.starts_with(start) && std::ranges::any_of(names, [&](const std::string& name) {
                          return message.compare(start.size(), name.size() + 1, name + ":") == 0;
                      });
    if (!said || planted("message")) fail("message", "no argument is named in '" + message + "'");
}

// Both phases of a bent call that phase one takes.
void run_bent(testing::Call& call, const Bend& bend) {
    testing::Prepared prepared(call);
    if (prepared.code != 0) fail("accept", "taken at first, then refused: " + testing::take_message());
    constexpr uint64_t kMost = uint64_t{64} << 20;
    if (prepared.size > kMost) {  // a bend has made it a large problem
        aclDestroyAclOpExecutor(prepared.executor);
        return;
    }
    void* workspace = nullptr;
    if (prepared.size > 0) {
        EXPECT_EQ(aclrtMalloc(&workspace, prepared.size + testing::kGuard, ACL_MEM_MALLOC_HUGE_FIRST), 0);
        aclrtMemset(workspace, prepared.size + testing::kGuard, 0xFF, prepared.size + testing::kGuard);
    }
    testing::take_message();
    const int code = gradusLaunch(workspace, prepared.size, prepared.executor, testing::stream());
    expect_code("phase two", code, testing::take_message());
    count(code == 0 ? "bent calls that ran" : "bent calls refused at their addresses");
    EXPECT_EQ(aclrtSynchronizeStream(testing::stream()), 0) << testing::take_message();
    for (size_t i = 0; i < prepared.placed.size(); ++i)
        if (prepared.placed[i] && !call.tensors[i].output && !bend.may_move_outputs())
            if (!prepared.placed[i]->untouched() || planted("outside"))
                fail("outside", "a bent call has changed the input " + call.tensors[i].name);
    if (workspace != nullptr) EXPECT_EQ(aclrtFree(workspace), 0);
}

}  // namespace

testing::Call placed(const cli::Call& made, Input& in, bool dense) {
    testing::Call call(made.op->name);
    testing::Random random("layouts");
    random.engine.seed(in.below(1 << 16));
    for (const cli::Argument& argument : made.op->arguments) {
        if (!argument.is_tensor()) {
            if (const auto found = made.attributes.find(argument.name); found != made.attributes.end())
                set_attribute(call, argument, found->second);
            continue;
        }
        const auto found = made.tensors.find(argument.name);
        if (found == made.tensors.end()) continue;
        const cli::Tensor& tensor = found->second;
        const testing::Layout layout = dense ? testing::dense(tensor.shape()) : random.layout(tensor.shape());
        if (argument.direction == cli::Argument::output)
            call.out(argument.name, tensor.dtype(), tensor.shape(), layout);
        else
            call.in(argument.name, array_of(tensor), layout);
    }
    return call;
}

void expect_right(const cli::Call& made, testing::Call& call, Input& in) {
    const std::string isa = in.pick(testing::instruction_sets());
    const uint64_t ways[] = {in.below(std::size(kWays)), in.below(std::size(kWays))};
    cli::Question question(made);
    const Option cap("max_isa", isa);
    const Results first = [&] {
        const Option alone("num_threads", "1");
        return call.run();
    }();
    count("calls");
    count("calls accepted");
    judge(question, first, isa, taken_as_zero(made, isa));
    expect_written(first);
    for (const uint64_t way : ways) expect_same_bits(first, run_another_way(call, way), kWays[way]);
}

void expect_harmless(testing::Call& call, Bend& bend) {
    call.change = [&bend](std::vector<gradusArg>& args) { bend.apply(args); };
    const testing::Call::Answer fast = call.ask();
    const testing::Call::Answer golden = [&] {
        const Option precision("precision", "golden");
        return call.ask();
    }();
    count("calls");
    for (const auto* answer : {&fast, &golden}) {
        expect_code("phase one", answer->code, answer->message);
        if (answer->code != 0) expect_sentence(call, bend, answer->message);
        if (answer->wrote != (answer->code == 0) || planted("outputs"))
            fail("outputs", "phase one answers " + std::to_string(answer->code) +
                                (answer->wrote ? " and gives back an executor" : " and gives back none"));
    }
    const bool alike = planted("golden") ? fast.code != golden.code : fast.code == golden.code;
    if (!alike && !bend.may_make_doubles())
        fail("golden", "fast answers " + std::to_string(fast.code) + ", golden " + std::to_string(golden.code) + ": " +
                           fast.message + golden.message);
    if (bend.must_be_refused() && (fast.code == 0 || planted("accept"))) fail("accept", "nobody may take such a call");
    count(fast.code == 0 ? "calls accepted" : "calls refused");
    if (fast.code == 0) run_bent(call, bend);
    if (golden.code != 0) return;
    const Option precision("precision", "golden");
    run_bent(call, bend);
}

}  // namespace gradus::fuzz
