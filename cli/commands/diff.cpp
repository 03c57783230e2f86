// gradus diff: two files, or a file and the golden answer to its inputs.
#include "cli/diff/diff.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/call/case.h"
#include "cli/call/words.h"
#include "cli/commands/commands.h"
#include "cli/diff/find.h"
#include "cli/tensor/files.h"

namespace gradus::cli {
namespace {

struct Request {
    std::vector<std::string> words;
    std::string op, output, html, promise, magnitude, directory;
    JudgeOptions options;
};

constexpr char kExamples[] =
    "Examples:\n"
    "  gradus diff got.npy want.npy\n"
    "  gradus diff got.bin:bf16[4096,22016] want.npy:bf16 --html report.html\n"
    "  gradus diff --op SwiGluGrad out=got.npy x=x.npy yGrad=g.npy dim=-1\n"
    "  gradus run SwiGluGrad x=[64,512] dtype=bf16 --case mine; gradus diff --case mine out=got.npy\n"
    "  gradus diff --op FusedLinearCrossEntropyLossGrad weightGradOut:bf16=got.npy input=... --json\n"
    "A file: FILE.npy, FILE.npy:bf16 (raw 16-bit words), FILE.bin:DTYPE[SHAPE]. WANT may be of a wider dtype than "
    "GOT.\n"
    "Verdicts: equal, kept, rounded (exit 0); imprecise, wrong (exit 1). docs/diff.md has the rules.";

// FILE.npy, FILE.npy:bf16, FILE.bin:bf16[4,8], with or without NAME= or NAME:bf16= in front.
Tensor read_tensor(const std::string& text) {
    const bool named = text.find('=') < text.find_first_of("/.");
    Word word = named ? parse_word(text) : Word{"", text, {}};
    const Wish wish = parse_wish(word.value, {});
    const std::optional<aclDataType> as = wish.dtype ? wish.dtype : word.dtype;
    if (!is_raw_file(wish.base)) return read_npy(wish.base, as ? &*as : nullptr, true);
    if (!as || !wish.shape)
        throw Failure(kUsage, fmt::format("{}: a .bin says neither dtype nor shape; write {}:bf16[4096,1024]",
                                          wish.base, wish.base));
    return read_raw(wish.base, *as, *wish.shape);
}

std::vector<Finding> diff_files(const Request& request) {
    if (request.words.size() != 2)
        throw Failure(kUsage, fmt::format("diff: {} files, expected GOT and WANT, or --op with GOT and the inputs",
                                          request.words.size()));
    const Tensor got = read_tensor(request.words[0]), want = read_tensor(request.words[1]);
    std::optional<Tensor> magnitude;
    if (!request.magnitude.empty()) magnitude = read_tensor(request.magnitude);
    return {find_between(request.words[0] + " against " + request.words[1], got, want, magnitude, request.promise,
                         request.options)};
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
        std::string list;
        for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
        throw Failure(kUsage,
                      wanted.empty()
                          ? fmt::format("{} has several outputs ({}): say NAME=FILE or --output NAME", op.name, list)
                          : fmt::format("{} has no output '{}', but {}", op.name, wanted, list));
    }
    return *found;
}

Parts take_apart(const Operator& op, const Request& request) {
    Parts parts;
    for (const std::string& word : request.words) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos) {
            parts.add(only_output(op, request.output), word);
            continue;
        }
        const std::string name = word.substr(0, word.find_first_of(":="));
        const Argument* argument = op.find(name);
        if (argument == nullptr || argument->direction != Argument::output)
            parts.call.push_back(word);
        else if (request.output.empty() || request.output == name)
            parts.add(*argument, word);
    }
    if (!request.output.empty()) only_output(op, request.output);  // an unknown name is said even if nothing is judged
    if (parts.results.empty())
        throw Failure(kUsage, fmt::format("diff --op {}: no result to judge; give it as {}=FILE", op.name,
                                          request.output.empty() ? "OUTPUT" : request.output));
    return parts;
}

std::vector<Finding> diff_operator(const Request& request, std::string& against) {
    const Case from = request.directory.empty() ? Case{request.op, {}} : read_case(request.directory);
    const Operator& op = find_operator(from.op);
    const Parts parts = take_apart(op, request);
    std::vector<std::pair<std::string, Tensor>> results;
    for (const auto& [argument, word] : parts.results) results.emplace_back(argument->name, read_tensor(word));
    std::vector<std::string> words = from.words;
    for (const std::string& word : parts.call)
        if (std::ranges::count(words, word) == 0) words.push_back(word);
    const Call call = make_call(op, words);
    against = fmt::format("{} against the golden {}", op.name, call.line);
    return find_in_results(call, results, request.options);
}

void diff(const Request& request, Session& session) {
    std::string against;
    std::vector<Finding> findings;
    if (request.op.empty() && request.directory.empty()) {
        findings = diff_files(request);
        against = findings[0].name;
    } else {
        findings = diff_operator(request, against);
    }
    for (const Finding& finding : findings)
        if (!passes(finding.judgement.verdict)) session.exit = kMismatch;
    if (session.json)
        fmt::print("{}\n",
                   findings_json(findings, against).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        print_findings(findings);
    if (!request.html.empty()) write_findings(request.html, findings, against);
}

}  // namespace

void add_diff(CLI::App& app, Session& session) {
    CLI::App* command = app.add_subcommand("diff", "Say whether a result is right, and what mistake it looks like");
    auto request = std::make_shared<Request>();
    command->add_option("words", request->words, "GOT WANT; with --op: OUTPUT=GOT and the operator's inputs")
        ->required();
    command->add_option("--op", request->op, "compute what is expected: the golden answer of this operator");
    command->add_option("--case", request->directory, "compute it for the case in DIR, as `gradus run --case` made it")
        ->type_name("DIR")
        ->excludes("--op");
    command->add_option("--output", request->output, "judge this output only");
    command->add_option("--magnitude", request->magnitude, "of two files: the sum of |terms| of every element")
        ->type_name("FILE");
    command->add_option("--promise", request->promise, "of two files, what GOT is: elementwise, summed or exact")
        ->check(CLI::IsMember({"elementwise", "summed", "exact"}));
    command->add_option("--rtol", request->options.rtol, "a tolerance of your own: |got - want| <= atol + rtol*|want|")
        ->check(CLI::NonNegativeNumber);
    command->add_option("--atol", request->options.atol, "... and its absolute part")->check(CLI::NonNegativeNumber);
    command->add_option("--top", request->options.top, "how many of the worst elements to show")->capture_default_str();
    command->add_option("--html", request->html, "write a page with verdict, histogram and heat map");
    command->footer(kExamples);
    command->callback([request, &session] { diff(*request, session); });
}

}  // namespace gradus::cli
