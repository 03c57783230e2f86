#include "testing/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "cli/judge/judge.h"
#include "testing/judge.h"

namespace gradus::testing {
namespace {

constexpr char kHint[] = "f64 only with precision golden or magnitude";

void widen(Call::Tensor& tensor) {
    if (is_float(tensor.values.type)) tensor.values = widened(tensor.values);
}

void expect_equal(const Call::Results& got, const Call::Results& want, const std::string& how) {
    ASSERT_EQ(got.size(), want.size()) << how;
    for (const auto& [name, array] : want) EXPECT_EQ(first_difference(got.at(name), array), -1) << name << ", " << how;
}

void expect_dtypes(const std::function<Call()>& good) {
    const Call pattern = good();
    for (const Call::Tensor& t : pattern.tensors) {
        if (!is_float(t.values.type)) continue;
        Call one = good();
        widen(one.tensor(t.name));
        Call::Answer answer = one.ask();
        EXPECT_EQ(answer.code, 161002) << t.name;
        EXPECT_NE(answer.message.find(t.name + ": dtype f64, expected "), std::string::npos) << answer.message;
        EXPECT_NE(answer.message.find(kHint), std::string::npos) << answer.message;

        const Option golden("precision", "golden");
        const bool only_output = t.output && [&] {
            for (const Call::Tensor& other : pattern.tensors)
                if (other.output && other.name != t.name && is_float(other.values.type)) return false;
            return true;
        }();
        answer = one.ask();
        EXPECT_EQ(answer.code, only_output ? 0 : 161002) << t.name << " alone in f64: " << answer.message;
        if (!only_output)
            EXPECT_NE(answer.message.find("expected f64 as " + t.name), std::string::npos) << answer.message;
    }
    for (const auto& change : {+[](Call call) { return widened(std::move(call)); }, &with_wide_results}) {
        EXPECT_EQ(change(good()).ask().code, 161002) << "fast";
        for (const char* precision : {"golden", "magnitude"}) {
            const Option option("precision", precision);
            const Call::Answer answer = change(good()).ask();
            EXPECT_EQ(answer.code, 0) << precision << ": " << answer.message;
        }
    }
    const Option golden("precision", "golden");
    for (const Call::Tensor& t : pattern.tensors)
        if (!is_float(t.values.type)) {
            Call call = widened(good());
            call.tensor(t.name).type = ACL_DOUBLE;
            EXPECT_EQ(call.ask().code, 161002) << t.name << " is no float";
        }
}

// The same answer in every dtype that can hold it, through views, and for any number of threads.
void expect_same_answer(const std::function<Call()>& good, const char* precision) {
    const Call::Results narrow = run_as(precision, good()), wide = run_as(precision, with_wide_results(good()));
    expect_equal(run_as(precision, widened(good())), wide, "all f64");
    for (const auto& [name, array] : wide) {
        int64_t differ = 0;
        if (is_float(array.type))
            for (int64_t i = 0; i < array.size(); ++i) {
                const double want = rounded(array.at(i), narrow.at(name).type), got = narrow.at(name).at(i);
                differ += got != want && !(std::isnan(got) && std::isnan(want));
            }
        EXPECT_EQ(differ, 0) << name << " is not f64 rounded once";
    }
    for (const char* threads : {"1", "3"}) {
        const Option option("num_threads", threads);
        expect_equal(run_as(precision, widened(good())), wide, std::string(threads) + " threads");
    }
    Random random("golden views");
    for (int i = 0; i < 3; ++i) {
        Call call = i == 0 ? with_wide_results(good()) : widened(good());
        for (Call::Tensor& t : call.tensors) t.layout = random.layout(t.values.shape);
        expect_equal(run_as(precision, call), wide, "views, " + random.repeat());
    }
    Call edge = widened(good());
    edge.memory = Memory::page_end;
    const Option any("memory", "any");
    expect_equal(run_as(precision, edge), wide, "at the end of a page");
}

void expect_kept(const std::function<Call()>& good, const std::map<std::string, Kept>& kept) {
    const Call::Results fast = good().run(), golden = run_as("golden", with_wide_results(good())),
                        magnitude = run_as("magnitude", with_wide_results(good()));
    for (const auto& [name, m] : magnitude) {
        if (!is_float(m.type)) {
            EXPECT_EQ(first_difference(m, golden.at(name)), -1) << name << " has no magnitude";
            continue;
        }
        ASSERT_EQ(kept.count(name), 1u) << name;
        const auto& [terms, roundings] = kept.at(name);
        const Array &got = fast.at(name), &want = golden.at(name);
        int64_t below = 0;
        for (int64_t i = 0; i < m.size(); ++i) below += !(m.at(i) >= std::fabs(want.at(i)));
        EXPECT_EQ(below, 0) << name << ": a magnitude below its value";
        const auto values = [](const Array& array) { return cli::Values(array.type, array.bytes.data(), array.size()); };
        const cli::Judgement j =
            cli::judge({got.shape, values(got), values(want), values(m), {false, terms, roundings, got.type}});
        EXPECT_LE(j.verdict, cli::Verdict::kept) << name << " in " << type_name(got.type) << ": " << j.reason;
    }
}

std::string judge_within(const Array& got, const std::vector<double>& want, const std::function<double(int64_t)>& scale,
                         double terms) {
    if (got.type != ACL_DOUBLE || static_cast<size_t>(got.size()) != want.size()) return "not the f64 results wanted";
    std::ostringstream text;
    text.precision(17);
    for (int64_t i = 0; i < got.size(); ++i) {
        const double g = got.at(i), w = want[static_cast<size_t>(i)], bound = terms * 0x1p-52 * scale(i);
        if (std::isnan(w) ? std::isnan(g) : std::isinf(w) ? g == w : std::fabs(g - w) <= bound) continue;
        text << "element " << i << " of " << testing::text(got.shape) << ": got " << g << ", expected " << w
             << ", allowed error " << bound;
        break;
    }
    return text.str();
}

}  // namespace

bool is_float(aclDataType type) {
    return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16 || type == ACL_DOUBLE;
}

Array widened(const Array& array) {
    Array wide(ACL_DOUBLE, array.shape);
    for (int64_t i = 0; i < array.size(); ++i) wide.set(i, array.at(i));
    return wide;
}

Call widened(Call call) {
    for (Call::Tensor& t : call.tensors) widen(t);
    return call;
}

Call with_wide_results(Call call) {
    for (Call::Tensor& t : call.tensors)
        if (t.output) widen(t);
    return call;
}

Call::Results run_as(const char* precision, Call call) {
    const Option option("precision", precision);
    return call.run();
}

void expect_golden_rules(const std::function<Call()>& good, const std::map<std::string, Kept>& kept) {
    const Option off("limits", "off");
    SCOPED_TRACE(good().op);
    expect_dtypes(good);
    for (const char* precision : {"golden", "magnitude"}) {
        SCOPED_TRACE(precision);
        expect_same_answer(good, precision);
    }
    expect_kept(good, kept);
}

std::string judge_f64(const Array& got, const std::vector<double>& want, const Array& magnitude, double terms) {
    return judge_within(
        got, want, [&](int64_t i) { return magnitude.at(i); }, terms);
}

std::string judge_magnitude(const Array& got, const std::vector<double>& want, double terms) {
    return judge_within(
        got, want, [&](int64_t i) { return std::fabs(want[static_cast<size_t>(i)]); }, terms);
}

void expect_derivative(const Array& at, const Array& gradient, int64_t step,
                       const std::function<double(const Array& moved)>& f) {
    constexpr double h = 0x1p-10;  // about 1e-10 of what f is like within 0.002
    ASSERT_EQ(gradient.size(), at.size());
    for (int64_t i = 0; i < at.size(); i += step) {
        const auto moved = [&](double by) {
            Array array = at;
            array.set(i, at.at(i) + by);
            return f(array);
        };
        const double want = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
        EXPECT_NEAR(gradient.at(i), want, 1e-8) << i;
    }
}

double weighted(const Call& call, const std::string& output, const Array& weights) {
    const Call::Results got = run_as("golden", widened(call));
    double sum = 0;
    for (int64_t i = 0; i < weights.size(); ++i) sum += weights.at(i) * got.at(output).at(i);
    return sum;
}

}  // namespace gradus::testing
