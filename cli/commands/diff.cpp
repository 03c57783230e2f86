// gradus diff: two files, or a file and the golden answer to its inputs.
#include "cli/diff/diff.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "cli/call/assignment.h"
#include "cli/call/case.h"
#include "cli/commands/commands.h"
#include "cli/commands/selection.h"
#include "cli/diff/find.h"
#include "cli/output/page.h"
#include "cli/tensor/files.h"
#include "cli/tensor/slice.h"

namespace gradus::cli {
namespace {

JudgeOptions judge_options(const DiffOptions& request) {
    return {.top = static_cast<size_t>(request.top), .rtol = request.rtol, .atol = request.atol};
}

// FILE.npy, FILE.npy:bf16[3], FILE.bin:bf16[4,8], with or without NAME= or NAME:bf16= in front.
Tensor read_tensor(const std::string& text) {
    const bool named = text.find('=') < text.find_first_of("/.");
    Assignment word = named ? parse_assignment(text) : Assignment{"", text, {}};
    const Wish wish = parse_wish(word.value, {});
    const std::optional<aclDataType> as = wish.dtype ? wish.dtype : word.dtype;
    const auto part = [&wish](const Tensor& whole) { return wish.slice ? sliced(whole, *wish.slice) : whole; };
    if (!is_file(wish.base) && wish.shape)
        throw Failure(kUsage, fmt::format("'{}': a part is taken of a .npy, a .npz or a .bin", word.value));
    if (!is_raw_file(wish.base)) return part(read_npy(wish.base, as ? &*as : nullptr, true, word.name));
    if (!as || !wish.shape)
        throw Failure(kUsage, fmt::format("{}: a .bin says neither dtype nor shape; write {}:bf16[4096,1024]",
                                          wish.base, wish.base));
    return part(read_raw(wish.base, *as, *wish.shape));
}

// Two directories, or archives: every tensor that one has by that of the same name.
std::vector<Finding> diff_members(const DiffOptions& request, const std::vector<Member>& got,
                                  const std::vector<Member>& want) {
    std::vector<Finding> findings;
    std::string alone;
    for (const Member& g : got) {
        const auto w = std::ranges::find(want, g.name, &Member::name);
        if (w == want.end())
            alone += fmt::format("{}{} is in GOT only", alone.empty() ? "" : ", ", g.name);
        else
            findings.push_back(find_between(g.name, read_npy(g.path, nullptr, true), read_npy(w->path, nullptr, true),
                                            {}, request.promise, judge_options(request)));
    }
    for (const Member& w : want)
        if (std::ranges::find(got, w.name, &Member::name) == got.end())
            alone += fmt::format("{}{} is in WANT only", alone.empty() ? "" : ", ", w.name);
    if (!alone.empty()) throw Failure(kUsage, fmt::format("{} and {}: {}", request.words[0], request.words[1], alone));
    return findings;
}

std::vector<Finding> diff_files(const DiffOptions& request) {
    if (!request.only.empty()) throw Failure(kUsage, "--only: an output of an operator, with --op or --case");
    if (request.words.size() != 2)
        throw Failure(kUsage, fmt::format("diff: {} files, expected GOT and WANT, or --op with GOT and the inputs",
                                          request.words.size()));
    const std::vector<Member> gots = members_of(request.words[0]), wants = members_of(request.words[1]);
    if (!gots.empty() && !wants.empty()) return diff_members(request, gots, wants);
    const Tensor got = read_tensor(request.words[0]), want = read_tensor(request.words[1]);
    std::optional<Tensor> magnitude;
    if (!request.magnitude.empty()) magnitude = read_tensor(request.magnitude);
    return {find_between(request.words[0] + " against " + request.words[1], got, want, magnitude, request.promise,
                         judge_options(request))};
}

// The words of the call, and the results among them by the name of the output.
struct Parts {
    std::vector<std::string> call;
    std::vector<std::pair<const Argument*, std::string>> results;

    void add(const Argument& output, const std::string& word) {
        if (std::ranges::any_of(results, [&](const auto& result) { return result.first == &output; }))
            throw Failure(kUsage, output.name + ": given twice");
        results.emplace_back(&output, word);
        if (output.optional) call.push_back(output.name + "=auto");  // left to itself, the call does without
    }
};

std::vector<std::string> outputs_of(const Operator& op) {
    std::vector<std::string> names;
    for (const Argument& argument : op.arguments)
        if (argument.direction == Argument::output) names.push_back(argument.name);
    return names;
}

const Argument& only_output(const Operator& op, const std::string& wanted) {
    const std::vector<std::string> names = outputs_of(op);
    const Argument* found = nullptr;
    for (const Argument& argument : op.arguments) {
        if (argument.direction != Argument::output) continue;
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
        throw Failure(kUsage,
                      fmt::format("{}: no result to judge; give it as {}=FILE", op.name,
                                  request.only.empty() ? fmt::format("{}", fmt::join(outputs_of(op), "=FILE or "))
                                                       : request.only));
    return parts;
}

std::vector<Finding> diff_operator(const DiffOptions& request, std::string& against) {
    const Case from = request.directory.empty() ? Case{request.op, {}} : read_case(request.directory);
    std::optional<ScopedOption> limits;
    if (!from.limits.empty()) limits.emplace("limits", from.limits);
    const Operator& op = find_operator(from.op);
    const Parts parts = take_apart(op, request);
    std::vector<std::pair<std::string, Tensor>> results;
    for (const auto& [argument, word] : parts.results) results.emplace_back(argument->name, read_tensor(word));
    std::vector<std::string> words = from.words;
    for (const std::string& word : with_seed(parts.call, request.seed))
        if (std::ranges::count(words, word) == 0) words.push_back(word);
    Call call = make_call(op, words, true);
    for (auto& [name, origin] : call.origins)
        if (const auto known = from.origins.find(name); known != from.origins.end()) origin = known->second;
    against = fmt::format("{} against the golden {}", op.name, call.line);
    return find_in_results(call, results, judge_options(request));
}

}  // namespace

const char kDiffExamples[] =
    "Examples:\n"
    "  gradus diff got.npy want.npy\n"
    "  gradus diff got.bin:bf16[4096,22016] want.npy:bf16 --html report.html\n"
    "  gradus diff --op SwiGluGrad out=got.npy x=x.npy yGrad=g.npy dim=-1\n"
    "  gradus run SwiGluGrad x=[64,512] dtype=bf16 --case mine; gradus diff --case mine out=got.npy\n"
    "  gradus diff --op FusedLinearCrossEntropyLossGrad weightGradOut:bf16=got.npy input=... --json\n"
    "A file: FILE.npy, FILE.npy:bf16 (raw 16-bit words), FILE.bin:DTYPE[SHAPE]; a part of one as NumPy writes it:\n"
    "'FILE.npy[3,0:4]', 'FILE.bin:DTYPE[SHAPE][3]'. WANT may be of a wider dtype than GOT.\n"
    "Verdicts: equal, kept, rounded (exit 0); imprecise, wrong (exit 1). docs/diff.md has the rules.";

void diff_command(const DiffOptions& request, Session& session) {
    for (const std::string& file : request.files) {
        if (!is_page(file) && !file.ends_with(".json"))
            throw Failure(kUsage, fmt::format("--output: '{}', expected FILE.html or FILE.json", file));
        expect_writable(file);
    }
    std::string against;
    std::vector<Finding> findings;
    if (request.op.empty() && request.directory.empty()) {
        findings = diff_files(request);
        against = request.words[0] + " against " + request.words[1];
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
