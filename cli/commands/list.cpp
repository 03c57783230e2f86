// gradus list: the operators, a line each.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/call/catalogue.h"
#include "cli/commands/commands.h"
#include "cli/output/terminal.h"

namespace gradus::cli {
namespace {

void print_table() {
    std::vector<std::vector<std::string>> rows = {{"OPERATOR", "FAMILY", "FORMULA"}};
    for (const Operator& op : catalogue()) rows.push_back({op.name, tinted(Tint::dim, op.family), op.formula});
    fmt::print("{}", table(rows));
}

void print_json() {
    nlohmann::json operators = nlohmann::json::array();
    for (const Operator& op : catalogue())
        operators.push_back(
            {{"name", op.name}, {"family", op.family}, {"formula", op.formula}, {"products", op.products}});
    fmt::print("{}\n", nlohmann::json{{"schema", "gradus-list/1"}, {"operators", operators}}.dump(2));
}

// For completion: what a shell needs to know, and nothing else.
void print_names(const std::string& of) {
    if (of.empty()) {
        for (const Operator& op : catalogue()) fmt::print("{}\n", op.name);
        return;
    }
    for (const Argument& argument : find_operator(of).arguments) fmt::print("{}=\n", argument.name);
}

}  // namespace

void add_list(CLI::App& app, Session& session) {
    CLI::App* command = app.add_subcommand("list", "the operators, a line each");
    const auto names = std::make_shared<bool>(false);
    const auto of = std::make_shared<std::string>();
    CLI::Option* only = command->add_flag("--names", *names, "only the names, for scripts");
    command->add_option("OP", *of, "with --names: its arguments instead")->needs(only);
    command->footer(
        "Examples:\n"
        "  gradus list\n"
        "  gradus list --names\n"
        "  gradus list --json | jq -r '.operators[].name'");
    command->callback([names, of, &session] {
        *names ? print_names(*of) : session.json ? print_json() : print_table();
    });
}

}  // namespace gradus::cli
