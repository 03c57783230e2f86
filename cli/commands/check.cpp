// gradus check: the fast implementation against golden, on this very machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/base/clock.h"
#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/text.h"
#include "cli/call/launch.h"
#include "cli/commands/commands.h"
#include "cli/commands/selection.h"
#include "cli/diff/question.h"
#include "cli/judge/judge.h"
#include "cli/output/machine.h"
#include "cli/output/terminal.h"

namespace gradus::cli {
namespace {

struct Fault {
    std::string output, verdict, reason, reproduce;
};

// What was seen of one operator.
struct Tally {
    const Operator* op;
    int64_t runs = 0;
    int64_t verdicts[5] = {};  // of outputs, by Verdict
    double ulps = 0;           // the largest error of an output: ‖got − golden‖ / ‖golden‖
    std::string where;
    std::vector<Fault> faults;
    std::string unsupported;  // by the product stood in for

    bool pass() const { return faults.empty(); }
};

struct SweptCall {
    std::vector<std::string> words;  // with dtype and seed
    bool own;                        // the user's words: what is wrong with them is the user's mistake
};

double ulp_of(aclDataType dtype) { return dtype == ACL_BF16 ? 0x1p-7 : dtype == ACL_FLOAT16 ? 0x1p-10 : 0x1p-23; }

class Checker {
  public:
    Checker(const CheckOptions& options, std::vector<std::string> isas) : options_(options), isas_(std::move(isas)) {
        const int threads = std::atoi(gradusGetOption("num_threads"));
        many_ = std::to_string(std::max(2, threads));  // more than one in any case: bits must not depend on it
    }

    void check(Tally& tally, const SweptCall& c) const {
        try {
            Question question(make_call(*tally.op, c.words));
            for (const std::string& isa : isas_) check(tally, c, question, isa);
        } catch (const Failure& failure) {
            if (failure.exit == kUnsupported)
                tally.unsupported = failure.what();
            else if (c.own || failure.exit == kEnvironment)
                throw;
            else
                tally.faults.push_back({"", "failed", failure.what(), reproduce(tally, c, isas_.back())});
        }
    }

  private:
    static std::string reproduce(const Tally& tally, const SweptCall& c, const std::string& isa) {
        return fmt::format("gradus check {} {} --isa {}", tally.op->name, quoted(c.words), isa);
    }

    static Call result(const Call& call, const std::string& threads) {
        const ScopedOption option("num_threads", threads);
        Call out = with_new_outputs(call);
        Launch(out).again();
        return out;
    }

    void check(Tally& tally, const SweptCall& c, Question& question, const std::string& isa) const {
        const ScopedOption cap("max_isa", isa);
        const Call& call = question.call();
        const Call many = result(call, many_);
        ++tally.runs;
        for (const Argument& argument : tally.op->arguments) {
            const auto got = many.tensors.find(argument.name);
            if (argument.direction != Argument::output || got == many.tensors.end()) continue;
            judge_output(tally, c, isa, argument, got->second, question);
        }
        if (options_.quick) return;
        const Call one = result(call, "1");
        ++tally.runs;
        for (const auto& [name, tensor] : one.tensors) {
            const Tensor& other = many.tensors.at(name);
            if (std::memcmp(tensor.data(), other.data(), static_cast<size_t>(tensor.bytes())) != 0)
                tally.faults.push_back({name, "unsteady", fmt::format("other bits with 1 thread than with {}", many_),
                                        reproduce(tally, c, isa)});
        }
    }

    static void judge_output(Tally& tally, const SweptCall& c, const std::string& isa, const Argument& argument,
                             const Tensor& got, Question& question) {
        const Answers answers = question.answers(argument.name);
        const Judgement j = judge(question.subject(argument.name, got), {}, &answers);
        ++tally.verdicts[static_cast<int>(j.verdict)];
        const double ulps = j.relative_l2 / ulp_of(got.dtype());
        if (std::isfinite(ulps) && ulps > tally.ulps) {
            tally.ulps = ulps;
            tally.where = fmt::format("{} {}, {}", argument.name, dtype_name(got.dtype()), isa);
        }
        if (j.verdict <= Verdict::kept) return;  // of the library's own results the promise is wanted
        tally.faults.push_back({argument.name, verdict_name(j.verdict), j.reason, reproduce(tally, c, isa)});
    }

    const CheckOptions& options_;
    std::vector<std::string> isas_;
    std::string many_;
};

std::vector<std::string> chosen_isas(const CheckOptions& options) {
    const std::vector<std::string> known = instruction_sets();
    for (const std::string& isa : options.isas)
        if (std::ranges::count(known, isa) == 0)
            throw Failure(kUnsupported, fmt::format("--isa: this CPU has no {}, but {}", isa, fmt::join(known, ", ")));
    if (!options.isas.empty()) return options.isas;
    return options.quick ? std::vector<std::string>{known.back()} : known;
}

std::vector<SweptCall> cases_of(const Operator& op, const std::vector<std::string>& own, int64_t seed) {
    std::vector<SweptCall> cases;
    const auto add = [&](const std::vector<std::string>& words) {
        for (const std::string& dtype : is_typed(words) ? std::vector<std::string>{""} : float_dtypes(op)) {
            cases.push_back({with_seed(words, seed), !own.empty()});
            if (!dtype.empty()) cases.back().words.push_back("dtype=" + dtype);
        }
    };
    if (!own.empty()) add(own);
    for (const std::string& list : own.empty() ? op.sweep : std::vector<std::string>{}) add(split(list, ' '));
    return cases;
}

nlohmann::json json_of(const Tally& t) {
    nlohmann::json verdicts, faults = nlohmann::json::array();
    for (const Verdict v : {Verdict::equal, Verdict::kept, Verdict::rounded, Verdict::imprecise, Verdict::wrong})
        verdicts[verdict_name(v)] = t.verdicts[static_cast<int>(v)];
    for (const Fault& f : t.faults)
        faults.push_back(
            {{"output", f.output}, {"verdict", f.verdict}, {"reason", f.reason}, {"reproduce", f.reproduce}});
    nlohmann::json json = {{"operator", t.op->name}, {"runs", t.runs},
                           {"pass", t.pass()},       {"verdicts", verdicts},
                           {"faults", faults},       {"worst", {{"ulps", t.ulps}, {"where", t.where}}}};
    if (!t.unsupported.empty()) json["unsupported"] = t.unsupported;
    return json;
}

std::string worst_text(const Tally& t) {
    return t.ulps == 0 ? "none" : fmt::format("{:.2g} ulp ({})", t.ulps, t.where);
}

void print(const std::vector<Tally>& tallies, const std::vector<std::string>& isas, double seconds) {
    std::vector<std::vector<std::string>> rows = {
        {"operator", "runs", "verdict", "equal, kept", "largest error (rms)"}};
    int64_t runs = 0, faulty = 0;
    for (const Tally& t : tallies) {
        runs += t.runs, faulty += t.pass() ? 0 : 1;
        const std::string verdict =
            !t.unsupported.empty() ? tinted(Tint::dim, "unsupported")
            : t.pass()             ? tinted(Tint::good, "right")
                       : tinted(Tint::bad, fmt::format("{} fault{}", t.faults.size(), t.faults.size() == 1 ? "" : "s"));
        const int64_t* v = t.verdicts;
        rows.push_back({t.op->name, std::to_string(t.runs), verdict, fmt::format("{}, {}", v[0], v[1]),
                        t.unsupported.empty() ? worst_text(t) : t.unsupported});
    }
    fmt::print("{}\n{}", machine().line(), table(rows));
    constexpr size_t kShown = 5;  // of an operator; the rest is like them
    for (const Tally& t : tallies) {
        for (size_t i = 0; i < std::min(kShown, t.faults.size()); ++i) {
            const Fault& f = t.faults[i];
            fmt::print("\n{} {}{}: {}\n  {}\n", tinted(Tint::bad, f.verdict), t.op->name,
                       f.output.empty() ? "" : "." + f.output, f.reason, f.reproduce);
        }
        if (t.faults.size() > kShown) fmt::print("\n… and {} more of {}\n", t.faults.size() - kShown, t.op->name);
    }
    fmt::print("\n{} {} operators, {} runs on {} in {:.1f} s\n",
               faulty == 0 ? tinted(Tint::good, "right:") : tinted(Tint::bad, fmt::format("{} of them wrong:", faulty)),
               tallies.size(), runs, fmt::join(isas, ", "), seconds);
}

}  // namespace

const char kCheckExamples[] =
    "Examples:\n"
    "  gradus check                             every operator, dtype and instruction set of this CPU\n"
    "  gradus check SwiGluGrad --seed 7\n"
    "  gradus check SwiGluGrad x=[64,510]       a shape of your own, as for gradus run\n"
    "  gradus check --isa avx2 --quick\n"
    "Exit code 0: all results keep their promise; 1: one does not, and a line says how to see it again.";

void check_command(const CheckOptions& options, Session& session) {
    const Selected words = split_selection(options.words);
    const std::vector<std::string> isas = chosen_isas(options);
    std::optional<ScopedOption> threads;
    if (options.threads > 0) threads.emplace("num_threads", std::to_string(options.threads));
    const double start = now();
    std::vector<Tally> tallies;
    std::vector<std::vector<SweptCall>> cases;
    int64_t steps = 0;
    for (const Operator* op : words.operators) {
        tallies.push_back({.op = op, .where = {}, .faults = {}, .unsupported = {}});
        cases.push_back(cases_of(*op, words.arguments, options.seed));
        steps += static_cast<int64_t>(cases.back().size());
    }
    {
        const Checker checker(options, isas);
        Progress progress("checking", steps);
        for (size_t i = 0; i < tallies.size(); ++i)
            for (const SweptCall& c : cases[i]) {
                progress.step(tallies[i].op->name + " " + quoted(c.words));
                if (tallies[i].unsupported.empty()) checker.check(tallies[i], c);
            }
    }
    const bool pass = std::ranges::all_of(tallies, [](const Tally& t) { return t.pass(); });
    const bool any = std::ranges::any_of(tallies, [](const Tally& t) { return t.unsupported.empty(); });
    session.exit = !pass ? kMismatch : any ? kRight : kUnsupported;
    if (!session.json) return print(tallies, isas, now() - start);
    nlohmann::json json = {{"schema", "gradus-check/1"},
                           {"machine", machine().json()},
                           {"seed", options.seed},
                           {"isas", isas},
                           {"pass", pass},
                           {"operators", nlohmann::json::array()}};
    for (const Tally& t : tallies) json["operators"].push_back(json_of(t));
    print_json(json);
}

}  // namespace gradus::cli
