// Words, their meaning and their limits: one place for all commands, so that a flag means the same in each of them.
#include "cli/commands/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <functional>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "gradus/gradus.h"

namespace gradus::cli {
namespace {

constexpr char kFooter[] =
    "Exit codes: 0 right, 1 mismatch, 2 usage, 3 unsupported, 4 environment.\n"
    "`gradus COMMAND --help` has examples.";

constexpr int kMostThreads = 1024;  // as the library's num_threads has it

const auto kEvery = [](const CLI::App*) { return true; };

// CLI11's ranges let NaN pass, which is below nothing and above nothing.
const CLI::Validator& tolerance() {
    static const CLI::Validator check(
        [](const std::string& text) {
            double value = 0;
            const char* end = text.data() + text.size();
            const auto parsed = std::from_chars(text.data(), end, value);
            const bool whole = parsed.ec == std::errc() && parsed.ptr == end;
            return whole && std::isfinite(value) && value >= 0 ? "" : "'" + text + "', expected a number from 0 up";
        },
        "FLOAT:NONNEGATIVE");
    return check;
}

// Binds a command to its options. The words that several commands share are members, the rest is beside the command.
template <typename Options>
class Command {
  public:
    Command(CLI::App& app, Session& session, const char* name, const char* what, void (*run)(const Options&, Session&))
        : options_(std::make_shared<Options>()), app_(app.add_subcommand(name, what)) {
        app_->callback([options = options_, run, &session] { run(*options, session); });
    }

    CLI::App* operator->() const { return app_; }
    Options& options() const { return *options_; }

    void threads() const {
        app_->add_option("--threads", options_->threads, "how many of them work")
            ->type_name("N")
            ->check(CLI::Range(1, kMostThreads));
    }
    void seed() const {
        app_->add_option("--seed", options_->seed, "of everything made up; the same as seed=N")
            ->type_name("N")
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 53));
    }
    void isa(std::vector<std::string>& names) const {
        app_->add_option("--isa", names, "instruction sets, with commas between; all of this CPU unless given")
            ->delimiter(',')
            ->allow_extra_args(false)
            ->check(isa_names());
    }
    void isa(std::string& name) const {
        app_->add_option("--isa", name, "instruction set at most")->check(isa_names());
    }
    void quick(const char* what) const { app_->add_flag("--quick", options_->quick, what); }
    void selection() const {
        app_->add_option("words", options_->words,
                         "operators, or one and its arguments as for gradus run; all unless given")
            ->type_name("[OPERATOR...] [NAME=VALUE...]");
    }
    // Everything that a command writes goes where -o says.
    void files(const std::string& names, const char* what) const {
        app_->add_option(names, options_->files, what)->type_name("FILE")->allow_extra_args(false);
    }

  private:
    static CLI::IsMember isa_names() {
        return CLI::IsMember({"scalar", "neon", "avx2", "avx512", "avx512_bf16", "amx"});
    }

    std::shared_ptr<Options> options_;
    CLI::App* app_;
};

void add_list(CLI::App& app, Session& session) {
    const Command<ListOptions> command(app, session, "list", "the operators, a line each", &list_command);
    CLI::Option* only = command->add_flag("--names", command.options().names, "only the names, for scripts");
    command->add_option("OP", command.options().op, "with --names: its arguments instead")->needs(only);
    command->footer(kListExamples);
}

void add_describe(CLI::App& app, Session& session) {
    const Command<DescribeOptions> command(
        app, session, "describe", "formula, arguments, dtypes, shapes and limits of an operator", &describe_command);
    command->add_option("OP", command.options().op, "operator, as in `gradus list`; with or without aclnn")->required();
    command->footer(kDescribeExamples);
}

void add_run(CLI::App& app, Session& session) {
    const Command<RunOptions> command(app, session, "run", "run one operator on files or made-up tensors",
                                      &run_command);
    RunOptions& o = command.options();
    command->add_option("OP", o.op, "operator, as in `gradus list`")->required();
    command->add_option("ARGUMENTS", o.words, "name=value; see below");
    command->add_option("-o,--output", o.directory, "write every output as DIR/name.npy")->type_name("DIR");
    command->add_option("--inputs", o.inputs, "write every input as DIR/name.npy, for another kernel to read")
        ->type_name("DIR");
    command->add_option("--case", o.case_directory, "write every input and case.json, for `gradus diff --case DIR`")
        ->type_name("DIR");
    command->add_option("--precision", o.precision, "dtype=f64 with all but the first, and only with the last ten")
        ->check(CLI::IsMember({"fast", "golden", "magnitude", "f32", "bf16", "f16", "bf16_products", "f16_products",
                               "bf16_sums", "f16_sums", "f32_truncated", "bf16_truncated", "f16_truncated"}));
    command->add_option("--repeat", o.repeat, "run N times and report the best")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    command->add_option("--limits", o.limits, "refuse what only the device could not do, or not")
        ->check(CLI::IsMember({"on", "off"}));
    command.threads();
    command.isa(o.isa);
    command.seed();
    command->footer(run_examples);
}

void add_check(CLI::App& app, Session& session) {
    const Command<CheckOptions> command(app, session, "check", "fast against golden on this machine", &check_command);
    command.selection();
    command.quick("the best instruction set and all threads only");
    command.isa(command.options().isas);
    command.threads();
    command.seed();
    command->footer(kCheckExamples);
}

void add_diff(CLI::App& app, Session& session) {
    const Command<DiffOptions> command(app, session, "diff",
                                       "say whether a result is right, and what mistake it looks like", &diff_command);
    DiffOptions& o = command.options();
    command->add_option("words", o.words, "GOT WANT; with --op: OUTPUT=GOT and the operator's inputs");
    CLI::Option* op = command->add_option("--op", o.op, "compute what is expected: the golden answer of this operator");
    command->add_option("--case", o.directory, "the golden answer to the case in DIR, which `gradus run --case` made")
        ->type_name("DIR")
        ->excludes(op);
    command->add_option("--only", o.only, "judge this output only")->type_name("NAME");
    command->add_option("--magnitude", o.magnitude, "of two files: the sum of |terms| of every element")
        ->type_name("FILE")
        ->excludes(op);
    command->add_option("--promise", o.promise, "of two files: what GOT is")
        ->check(CLI::IsMember({"elementwise", "summed", "exact"}));
    command->add_option("--rtol", o.rtol, "a tolerance of your own: |got - want| <= atol + rtol*|want|")
        ->check(tolerance());
    command->add_option("--atol", o.atol, "... and its absolute part")->check(tolerance());
    command->add_option("--top", o.top, "how many of the worst elements to show")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(0, 1000000));
    command.seed();
    command.files("-o,--output,--html",
                  "write a report there: .html with histogram and map, or .json; may be repeated");
    command->footer(kDiffExamples);
}

void add_bench(CLI::App& app, Session& session) {
    const Command<BenchOptions> command(app, session, "bench", "speed beside the limit of this machine",
                                        &bench_command);
    BenchOptions& o = command.options();
    command.selection();
    command.quick("few rounds");
    command->add_option("--dtype", o.dtypes, "with commas between; all unless given")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"bf16", "f16", "f32"}));
    command->add_option("--shape", o.shape, "the Nth shape of each operator only, as --list counts them")
        ->type_name("N")
        ->check(CLI::Range(1, 1000));
    command.threads();
    command.seed();
    command->add_flag("--list", o.list, "show the shapes and run nothing");
    command.files("-o,--output,--save,--html",
                  "write what was measured there: .json, .html with a roofline, .md or .csv; may be repeated");
    command->add_option("--baseline", o.baseline, "compare with a .json of another run; exit 1 where slower")
        ->type_name("FILE");
    command->add_flag("--strict", o.strict, "exit 1 where a target is missed");
    command->footer(kBenchExamples);
}

void add_trace(CLI::App& app, Session& session) {
    const Command<TraceOptions> command(app, session, "trace", "what a program calls and what runs when, as a timeline",
                                        &trace_command);
    TraceOptions& o = command.options();
    command.files(
        "-o,--output,--page",
        "write it there: .json in Chrome's format (trace.json unless given), .html as a page; may be repeated");
    command->add_option("--from", o.from, "no program: a page and a summary of a trace that is there already")
        ->type_name("FILE");
    command->add_option("--limit", o.limit, "GB/s of this machine's memory; measured unless given, 0: none")
        ->check(tolerance());
    command->add_option("PROGRAM", o.program, "behind --, with its arguments");
    command->footer(kTraceExamples);
}

void add_info(CLI::App& app, Session& session) {
    CLI::App* command = app.add_subcommand("info", "this CPU, the path each operator takes, options and versions");
    command->callback([&session] { info_command(session); });
    command->footer(kInfoExamples);
}

void add_sanitize(CLI::App& app, Session& session) {
    const Command<SanitizeOptions> command(app, session, "sanitize",
                                           "run a program and find races, memory used wrongly, leaks, ignored errors",
                                           &sanitize_command);
    SanitizeOptions& o = command.options();
    command->add_option("PROGRAM", o.program, "the program and its arguments, behind --");
    command->add_option("--tool", o.tools, "what to look for; all unless given; may be repeated")
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"memcheck", "racecheck", "initcheck", "leakcheck", "all"}));
    command->add_option("--leak-check", o.leak_check, "full: each of what is left, not a line a kind")
        ->check(CLI::IsMember({"summary", "full"}));
    command->add_option("--portability", o.portability, "full: also habits that the device need not put up with")
        ->check(CLI::IsMember({"usual", "full"}));
    command->add_option("--report-api-errors", o.api_errors, "no: a call that fails is no finding")
        ->check(CLI::IsMember({"yes", "no"}));
    command->add_option("--schedules", o.schedules, "run it N times in orders that it allows; compare what it reads")
        ->type_name("N")
        ->check(CLI::Range(2, 100000));
    command.files("-o,--output,--save,--page",
                  "write what was found there: .html with drawings, else JSON, a line each; may be repeated");
    // alone it is what it is for every command; the name of another file would be the program's, by mistake
    const auto json = [&session, &o](const std::string& value) {
        session.json = value.empty() || value == "true";
        if (session.json) return;
        if (value.ends_with(".json") || value.ends_with(".jsonl"))
            o.files.push_back(value);
        else
            throw Failure(kUsage, "sanitize: --json '" + value + "', expected a .json file, or -- before the program");
    };
    command
        ->add_option_function<std::string>("--json", json, "the result as JSON on stdout, or a line each into a file")
        ->type_name("[FILE.json]")
        ->expected(0, 1);
    command->add_option("--log-file", o.log_file, "the report there instead of stderr")->type_name("FILE");
    command->add_option("--suppressions", o.suppressions, "lines of an id and a part of a call site")
        ->type_name("FILE");
    command->add_option("--error-exitcode", o.error_exitcode, "the exit code if an error was found")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(0, 255));
    command->add_option("--explain", o.explain, "what an id means and how it is repaired; all: every id")
        ->type_name("ID");
    command->footer(kSanitizeExamples);
}

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands(kEvery)) names.push_back(command->get_name());
    return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

// Words that no option took say more than what the parser missed first: they have the typing mistake.
std::string explained(const CLI::App& app, const CLI::ParseError& error) {
    const auto parsed = app.get_subcommands();
    const std::vector<std::string> left = app.remaining(true);
    if (parsed.empty() && !left.empty() && !left.front().starts_with("-"))
        return "unknown command '" + left.front() + "'" + suggestion(left.front(), command_names(app)) +
               "; `gradus --help` lists all";
    const CLI::App& command = parsed.empty() ? app : *parsed.front();
    const std::string place = parsed.empty() ? "" : command.get_name() + ": ";
    for (const std::string& word : left) {
        const std::string name = word.substr(0, word.find('='));
        if (name.starts_with("-"))
            return fmt::format("{}unknown option {}{}", place, name, suggestion(name, option_names(command)));
    }
    return left.empty() ? place + error.what() : place + "'" + left.front() + "' is not expected there";
}

}  // namespace

int run_command_line(int argc, char** argv, Session& session) {
    CLI::App app("Runs, judges and measures CANN's LLM-training gradient operators on this CPU.", "gradus");
    app.require_subcommand(0, 1);
    app.set_version_flag("--version", [] { return std::string("gradus ") + gradusVersion(); });
    app.get_formatter()->column_width(34);
    for (const auto add :
         {add_list, add_describe, add_run, add_check, add_diff, add_bench, add_sanitize, add_trace, add_info})
        add(app, session);
    app.footer(kFooter);  // now: a command inherits what is there when it is added
    for (CLI::App* command : app.get_subcommands(kEvery))
        if (command->get_option_no_throw("--json") == nullptr)
            command->add_flag("--json", session.json, "the result as JSON on stdout");
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {  // --help, --version
        return app.exit(success);
    } catch (const CLI::ParseError& error) {
        throw Failure(kUsage, explained(app, error));
    }
    if (argc > 1) return session.exit;
    std::cerr << app.help();
    return kUsage;
}

}  // namespace gradus::cli
