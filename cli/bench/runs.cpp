// Which shapes are measured, and how.
#include <fmt/format.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/bench/bench.h"
#include "cli/bench/others.h"
#include "cli/call/launch.h"
#include "cli/output/terminal.h"

namespace gradus::cli {
namespace {

double target_of(const Operator& op, const std::string& dtype, const Machine& m) {
    const auto found = op.targets.find(m.isa == "amx" && op.targets.contains("amx") ? "amx" : dtype);
    return found == op.targets.end() ? 0 : found->second * target_scale(m);
}

// In the order in which people read them.
std::vector<std::string> dtypes_of(const Operator& op, const std::vector<std::string>& wanted) {
    std::vector<std::string> dtypes;
    for (const char* dtype : {"bf16", "f16", "f32"})
        if (op.targets.contains(dtype) && (wanted.empty() || std::ranges::count(wanted, dtype) > 0))
            dtypes.emplace_back(dtype);
    return dtypes;
}

Call call_of(const BenchRun& run) {
    std::vector<std::string> words = run.words;
    if (!run.dtype.empty()) words.push_back("dtype=" + run.dtype);
    return make_call(*run.op, words);
}

// The strips of the operator's own tensors, row by row where the limit says what a row is. A tensor of wider elements
// beside narrow ones is several strips of those.
bench::Limit stream_of(const Call& call) {
    const nlohmann::json& limit = call.op->limit;
    const auto number = [&](const char* key) {
        return static_cast<int64_t>(evaluate(limit.at(key), call.sizes, call.tensors));
    };
    const int64_t strip = number("strip");
    const auto size_of = [](const Tensor& t) { return static_cast<int64_t>(aclDataTypeSize(t.dtype())); };
    int64_t narrow = 8;
    std::map<std::string, int64_t> count, taken;  // strips of a tensor
    for (const char* side : {"reads", "writes"})
        for (const std::string name : limit.at(side)) narrow = std::min(narrow, size_of(call.tensors.at(name)));
    // Rows of a few lines are no pattern of their own.
    constexpr int64_t kLeastRow = 1024;
    const bool by_rows = limit.contains("row") && number("row") * narrow >= kLeastRow;
    const int64_t row = by_rows ? number("row") : strip, rows = strip / row;
    for (const char* side : {"reads", "writes"})
        for (const std::string name : limit.at(side)) {
            const Tensor& tensor = call.tensors.at(name);
            count[name] += size_of(tensor) / narrow;
            if (count[name] * rows * row * narrow > tensor.bytes())
                throw Failure(kEnvironment,
                              fmt::format("{}: the limit's strips are too long for {}", call.op->name, name));
        }
    const int64_t bytes = row * narrow;
    const auto strips = [&](const char* side) {
        std::vector<bench::Strip> all;
        for (const std::string name : limit.at(side)) {
            const Tensor& tensor = call.tensors.at(name);
            for (int64_t i = 0; i < size_of(tensor) / narrow; ++i)
                all.push_back({tensor.data() + taken[name]++ * bytes, count[name] * bytes});
        }
        return all;
    };
    const std::vector<bench::Strip> reads = strips("reads"), writes = strips("writes");
    return bench::stream_limit(rows, bytes, reads, writes);
}

bench::Limit limit_of(const Call& call, double flops) {
    return call.op->limit.contains("strip") ? stream_of(call) : bench::matrix_limit(flops, call.dtype == ACL_FLOAT16);
}

}  // namespace

// Arithmetic takes longer in narrow vectors while memory does not.
double target_scale(const Machine& m) { return m.isa.starts_with("avx512") || m.isa == "amx" ? 1 : 0.5; }

std::string BenchRun::arguments() const {
    std::vector<std::string> plain;
    for (const std::string& word : words)
        plain.push_back(word.find_first_of(" '\"") == std::string::npos ? word : quoted(word));
    return fmt::format("{}", fmt::join(plain, " "));
}

std::vector<BenchRun> own_runs(const Operator& op, const std::vector<std::string>& words, bool typed,
                               const std::vector<std::string>& dtypes, const Machine& m) {
    if (typed) return {{&op, 0, "", words, "", 0}};
    std::vector<BenchRun> runs;
    for (const std::string& dtype : dtypes_of(op, dtypes))
        runs.push_back({&op, 0, "", words, dtype, target_of(op, dtype, m)});
    return runs;
}

std::vector<BenchRun> known_runs(const Operator& op, const std::vector<std::string>& dtypes, int shape,
                                 const Machine& m) {
    std::vector<BenchRun> runs;
    for (size_t i = 0; i < op.bench.size(); ++i)
        for (const std::string& dtype : dtypes_of(op, dtypes)) {
            const BenchCase& bench = op.bench[i];
            const int number = static_cast<int>(i) + 1;
            if (shape != 0 && shape != number) continue;
            const double target = target_of(op, dtype, m) * bench.scale;
            runs.push_back({&op, number, bench.model, split(bench.arguments, ' '), dtype, target});
        }
    return runs;
}

std::vector<BenchRun> tiny_runs(const Operator& op, const std::vector<std::string>& dtypes) {
    const std::vector<std::string> own = dtypes_of(op, dtypes);
    if (op.tiny.empty() || own.empty()) return {};
    return {{&op, 0, "", split(op.tiny, ' '), own.front(), 0}};
}

BenchResult measure_run(BenchRun run, bool quick, Progress& progress) {
    const Call call = call_of(run);
    if (run.dtype.empty()) run.dtype = dtype_name(call.dtype);
    double bytes = 0;
    for (const auto& [name, tensor] : call.tensors) bytes += static_cast<double>(tensor.bytes());
    const double flops = evaluate(call.op->limit.at("flops"), call.sizes, call.tensors);
    const Launch launch(call);
    launch.again();  // touches the results' pages before the limit is chosen on them
    bench::Limit limit = limit_of(call, flops);
    const Others others;
    const bench::Effort effort = quick ? bench::Effort{7, 0.3} : bench::Effort{15, 1.0};
    const bench::Timing measured =
        bench::time_in_turn([&launch] { return launch.again(); }, limit, effort, [&progress] { progress.tick(); });
    limit.seconds = nullptr;  // it is of tensors that go away here
    return {run, limit, measured, flops, bytes, others.share(), {}};
}

TinyResult measure_tiny(const BenchRun& run, bool quick) {
    const Launch launch(call_of(run));
    launch.again();
    std::vector<double> microseconds(quick ? 1000 : 5000);
    const Others others;
    for (double& sample : microseconds) sample = launch.whole() * 1e6;
    return {run, bench::spread(std::move(microseconds)), others.share(), {}};
}

}  // namespace gradus::cli
