// gradus: the library's operators from the shell. Subcommands in files of their names.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/failure.h"

namespace gradus::cli {
namespace {

constexpr char kFooter[] =
    "Exit codes: 0 right, 1 mismatch, 2 usage, 3 unsupported, 4 environment.\n"
    "`gradus COMMAND --help` has examples.";

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
    const std::string near = nearest(word, known);
    return near.empty() ? "" : fmt::format(", did you mean {}?", near);
}

// What CLI11 only calls extra, said so that one can see the typing mistake.
void check_words(const CLI::App& app, int argc, char** argv) {
    const std::string first = argc > 1 ? argv[1] : "";
    if (first.empty() || first[0] == '-') return;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (command->get_name() != first) continue;
        const auto known = option_names(*command);
        for (int i = 2; i < argc; ++i) {
            const std::string word = argv[i];
            const std::string name = word.substr(0, word.find('='));
            if (name == "--") return;  // behind it are the words of another program
            if (name.rfind("--", 0) != 0) continue;
            if (std::find(known.begin(), known.end(), name) == known.end())
                throw Failure(kUsage, fmt::format("{}: unknown option {}{}", first, name, suggestion(name, known)));
        }
        return;
    }
    throw Failure(kUsage, fmt::format("unknown command '{}'{}; `gradus --help` lists all", first,
                                      suggestion(first, command_names(app))));
}

void report(const Failure& failure, bool json) {
    std::fflush(stdout);
    fmt::print(stderr, "gradus: {}\n", failure.what());
    if (!json) return;
    const nlohmann::json error = {{"schema", "gradus-error/1"}, {"error", failure.what()}, {"exit", failure.exit}};
    fmt::print("{}\n", error.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int parse(CLI::App& app, int argc, char** argv) {
    try {
        check_words(app, argc, argv);
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {  // --help, --version
        return app.exit(success);
    } catch (const CLI::ParseError& error) {
        throw Failure(kUsage, error.what());
    }
    return kRight;
}

int run_main(int argc, char** argv) {
    CLI::App app("Runs, judges and measures CANN's LLM-training gradient operators on this CPU.", "gradus");
    Session session;
    app.require_subcommand(0, 1);
    app.set_version_flag("--version", [] { return fmt::format("gradus {}", gradusVersion()); });
    app.get_formatter()->column_width(34);
    add_list(app, session);
    add_describe(app, session);
    add_run(app, session);
    add_check(app, session);
    add_diff(app, session);
    add_bench(app, session);
    add_info(app, session);
    add_sanitize(app, session);
    app.footer(kFooter);  // now: a command inherits what is there when it is added
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        command->add_flag("--json", session.json, "the result as JSON on stdout");

    // Before anything is parsed: an error of the parser is wanted as JSON, too.
    for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i)
        session.json = session.json || std::string_view(argv[i]) == "--json";
    try {
        const int code = parse(app, argc, argv);
        if (argc == 1) {
            fmt::print(stderr, "{}", app.help());
            return kUsage;
        }
        return code != 0 ? code : session.exit;
    } catch (const Failure& failure) {
        report(failure, session.json);
        return failure.exit;
    } catch (const std::exception& error) {  // no memory, a catalogue of another version
        report(Failure(kEnvironment, error.what()), session.json);
        return kEnvironment;
    }
}

}  // namespace
}  // namespace gradus::cli

int main(int argc, char** argv) {
    try {
        return gradus::cli::run_main(argc, argv);
    } catch (...) {  // while it was said what went wrong
        std::fputs("gradus: out of memory\n", stderr);
        return gradus::cli::kEnvironment;
    }
}
