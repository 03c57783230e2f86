// gradus diff: two files, or a file and the golden answer to its inputs.
#include "cli/diff/diff.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "cli/call/assignment.h"
#include "cli/commands/commands.h"
#include "cli/commands/selection.h"
#include "cli/diff/explain.h"
#include "cli/output/page.h"
#include "cli/tensor/files.h"
#include "cli/tensor/slice.h"

namespace gradus::cli {
namespace {

JudgeOptions judge_options(const DiffOptions& request) {
    return {.top = static_cast<size_t>(request.top), .rtol = request.rtol, .atol = request.atol};
}

int rank_of(aclDataType dtype) { return dtype == ACL_DOUBLE ? 3 : dtype == ACL_FLOAT ? 2 : 1; }

void check_dtypes(const std::string& name, aclDataType got, aclDataType want) {
    if (got == want) return;
    const auto raw = [](aclDataType dtype) { return dtype == ACL_UINT16 || dtype == ACL_INT16; };
    const std::string what = fmt::format("{}: GOT is {}, WANT is {}", name, dtype_name(got), dtype_name(want));
    if (raw(got) || raw(want))
        throw Failure(kUsage, fmt::format("{}; raw 16-bit words become bf16 with FILE.npy:bf16", what));
    if (!is_float(got) || !is_float(want)) throw Failure(kUsage, what + "; both must be of one dtype");
    if (rank_of(got) > rank_of(want))
        throw Failure(kUsage, fmt::format("{}; a reference must be as fine as the result: give WANT in {} or finer, or "
                                          "round GOT to {} first",
                                          what, dtype_name(got), dtype_name(want)));
    if (rank_of(got) == rank_of(want))
        throw Failure(kUsage, what + "; give WANT in the dtype of GOT, or in f32 or f64 before its last rounding");
}

void check_shapes(const std::string& name, const Tensor& got, const Tensor& want) {
    if (got.shape() == want.shape()) return;
    Shape reversed = got.shape();
    std::reverse(reversed.begin(), reversed.end());
    std::string advice = "GOT is not a result of that problem, or a part of it";
    if (reversed == want.shape())
        advice = "GOT looks transposed: save it in the order of WANT";
    else if (got.count() == want.count())
        advice = "as many elements in another shape: reshape one of them";
    throw Failure(kUsage, fmt::format("{}: GOT has shape {}, WANT has {}; {}", name, text(got.shape()),
                                      text(want.shape()), advice));
}

Finding find(const std::string& name, const Tensor& got, const Tensor& want, const std::string& promise,
             const JudgeOptions& options) {
    check_shapes(name, got, want);
    check_dtypes(name, got.dtype(), want.dtype());
    return {name, got, want, promise, judge(got, want, promise, options), {}};
}

// FILE.npy, FILE.npy:bf16, FILE.bin:bf16[4,8], with or without NAME= or NAME:bf16= in front.
Tensor read_tensor(const std::string& text) {
    const bool named = text.find('=') < text.find_first_of("/.");
    Assignment word = named ? parse_assignment(text) : Assignment{"", text, {}};
    const Wish wish = parse_wish(word.value, {});
    const std::optional<aclDataType> as = wish.dtype ? wish.dtype : word.dtype;
    const auto part = [&wish](const Tensor& whole) { return wish.slice.empty() ? whole : sliced(whole, wish.slice); };
    if (!is_raw_file(wish.base)) return part(read_npy(wish.base, as ? &*as : nullptr, true, word.name));
    if (!as || !wish.shape)
        throw Failure(kUsage, fmt::format("{}: a .bin says neither dtype nor shape; write {}:bf16[4096,1024]",
                                          wish.base, wish.base));
    return part(read_raw(wish.base, *as, *wish.shape));
}

std::vector<Finding> diff_files(const DiffOptions& request) {
    if (request.words.size() != 2)
        throw Failure(kUsage, fmt::format("diff: {} files, expected GOT and WANT, or --op with GOT and the inputs",
                                          request.words.size()));
    const Tensor got = read_tensor(request.words[0]), want = read_tensor(request.words[1]);
    return {
        find(request.words[0] + " against " + request.words[1], got, want, request.promise, judge_options(request))};
}

// The words of the call, and the results among them by the name of the output.
struct Parts {
    std::vector<std::string> call;
    std::vector<std::pair<const Argument*, std::string>> results;

    void add(const Argument& output, const std::string& word) {
        results.emplace_back(&output, word);
        if (output.optional) call.push_back(output.name + "=auto");  // left to itself, the call does without
    }
};

const Argument& only_output(const Operator& op, const std::string& wanted) {
    std::vector<std::string> names;
    const Argument* found = nullptr;
    for (const Argument& argument : op.arguments) {
        if (argument.direction != Argument::output) continue;
        names.push_back(argument.name);
        if (wanted.empty() ? found == nullptr : argument.name == wanted) found = &argument;
    }
    if (found == nullptr || (wanted.empty() && names.size() > 1)) {
        const std::string list = fmt::format("{}", fmt::join(names, ", "));
        throw Failure(kUsage, wanted.empty() ? fmt::format("{} has several outputs ({}): say NAME=FILE or --only NAME",
                                                           op.name, list)
                                             : fmt::format("{} has no output '{}', but {}", op.name, wanted, list));
    }
    return *found;
}

Parts take_apart(const Operator& op, const DiffOptions& request) {
    Parts parts;
    for (const std::string& word : request.words) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos) {
            parts.add(only_output(op, request.only), word);
            continue;
        }
        const std::string name = word.substr(0, word.find_first_of(":="));
        const Argument* argument = op.find(name);
        if (argument == nullptr || argument->direction != Argument::output)
            parts.call.push_back(word);
        else if (request.only.empty() || request.only == name)
            parts.add(*argument, word);
    }
    if (!request.only.empty()) only_output(op, request.only);  // an unknown name is said even if nothing is judged
    if (parts.results.empty())
        throw Failure(kUsage, fmt::format("diff --op {}: no result to judge; give it as {}=FILE", op.name,
                                          request.only.empty() ? "OUTPUT" : request.only));
    return parts;
}

std::vector<Finding> diff_operator(const DiffOptions& request, std::string& against) {
    const Operator& op = find_operator(request.op);
    const Parts parts = take_apart(op, request);
    std::vector<Tensor> results;
    for (const auto& [argument, word] : parts.results) results.push_back(read_tensor(word));
    const Call call = make_call(op, with_seed(parts.call, request.seed));
    {
        const ScopedOption option("precision", "golden");
        run(call);
    }
    against = fmt::format("{} against the golden {}", op.name, call.line);
    std::vector<Finding> findings;
    for (size_t i = 0; i < results.size(); ++i) {
        const Argument& argument = *parts.results[i].first;
        const auto want = call.tensors.find(argument.name);
        if (want == call.tensors.end())
            throw Failure(kUsage, fmt::format("{}: this call does not make it", argument.name));
        findings.push_back(find(argument.name, results[i], want->second,
                                request.promise.empty() ? argument.promise : request.promise, judge_options(request)));
        explain(call, argument.name, findings.back());
    }
    return findings;
}

}  // namespace

const char kDiffExamples[] =
    "Examples:\n"
    "  gradus diff got.npy want.npy\n"
    "  gradus diff got.bin:bf16[4096,22016] want.npy:bf16 --html report.html\n"
    "  gradus diff --op SwiGluGrad out=got.npy x=x.npy yGrad=g.npy dim=-1\n"
    "  gradus diff --op FusedLinearCrossEntropyLossGrad weightGradOut:bf16=got.npy input=... --json\n"
    "A file: FILE.npy, FILE.npy:bf16 (raw 16-bit words), FILE.bin:DTYPE[SHAPE]. WANT may be of a wider dtype than "
    "GOT.\n"
    "Verdicts: equal, rounded, accepted (exit 0); imprecise, wrong (exit 1). docs/diff.md has the rules.";

void diff_command(const DiffOptions& request, Session& session) {
    for (const std::string& file : request.files) {
        if (!is_page(file) && !file.ends_with(".json"))
            throw Failure(kUsage, fmt::format("--output: '{}', expected FILE.html or FILE.json", file));
        expect_writable(file);
    }
    std::string against;
    std::vector<Finding> findings;
    if (request.op.empty()) {
        findings = diff_files(request);
        against = findings[0].name;
    } else {
        findings = diff_operator(request, against);
    }
    for (const Finding& finding : findings)
        if (!passes(finding.judgement.verdict)) session.exit = kMismatch;
    const nlohmann::json json = findings_json(findings, against);
    session.json ? print_json(json) : print_findings(findings);
    for (const std::string& file : request.files)
        is_page(file) ? write_findings(file, findings, against, session.line) : write_file(file, {json_text(json)});
}

}  // namespace gradus::cli
