// gradus list: the operators, a line each.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/base/json.h"
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

void print_operators() {
    nlohmann::json operators = nlohmann::json::array();
    for (const Operator& op : catalogue())
        operators.push_back(
            {{"name", op.name}, {"family", op.family}, {"formula", op.formula}, {"products", op.products}});
    print_json({{"schema", "gradus-list/1"}, {"operators", operators}});
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

const char kListExamples[] =
    "Examples:\n"
    "  gradus list\n"
    "  gradus list --names\n"
    "  gradus list --json | jq -r '.operators[].name'";

void list_command(const ListOptions& options, Session& session) {
    session.json ? print_operators() : options.names ? print_names(options.op) : print_table();
}

}  // namespace gradus::cli
