// gradus describe: what the catalogue knows of one operator.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "cli/base/json.h"
#include "cli/call/catalogue.h"
#include "cli/commands/commands.h"
#include "cli/output/terminal.h"
#include "cli/tensor/tensor.h"

namespace gradus::cli {
namespace {

// The same for every operator (the library's rule, not the catalogue's).
const std::vector<std::vector<std::string>> kReturnCodes = {
    {"RETURNS", ""},
    {"0", "success"},
    {"161001", "an argument that is needed is NULL"},
    {"161002", "an argument is not what it should be; aclGetRecentErrMsg() has argument, got and wanted"},
    {"361001", "the product stood in for (GRADUS_SOC_NAME) does not have the operator; or a launch failed"},
    {"561xxx", "an executor that is not alive, or no memory"}};

std::string dtypes_text(const Argument& argument) {
    std::vector<std::string> names;
    for (const aclDataType dtype : argument.dtypes) names.emplace_back(dtype_name(dtype));
    return fmt::format("{}", fmt::join(names, " "));
}

const char* kind_text(gradusKind kind) {
    static const char* const names[] = {"tensor", "int array", "int", "double", "bool", "string"};
    return names[kind];
}

std::vector<std::string> row_of(const Argument& argument) {
    const char* const directions[] = {"in", "out", "attribute"};
    std::string words = argument.is_tensor() ? argument.shape : argument.allowed;
    if (argument.preset) words += fmt::format("{}default {}", words.empty() ? "" : "; ", argument.preset->dump());
    return {argument.name,
            directions[argument.direction],
            argument.is_tensor() ? dtypes_text(argument) : kind_text(argument.kind),
            argument.optional ? "optional" : "",
            words,
            argument.limits};
}

void print_text(const Operator& op) {
    fmt::print("{} ({})\n\n  {}\n\n", tinted(Tint::bold, "aclnn" + op.name), op.family, op.formula);
    std::vector<std::vector<std::string>> rows = {
        {"ARGUMENT", "", "TYPE", "", "SHAPE OR VALUES", "LIMITS OF THE DEVICE"}};
    for (const Argument& argument : op.arguments) rows.push_back(row_of(argument));
    fmt::print("{}\n{}\n", table(rows), table(kReturnCodes));
    fmt::print("products   {}\ndocument   {}\n", fmt::join(op.products, ", "), op.document);
    if (!op.roundings.empty()) fmt::print("roundings  {}\n", op.roundings);
    if (!op.small.empty()) fmt::print("try        gradus run {} {}\n", op.name, op.small);
    fmt::print("\nThe limits of the device are lifted by GRADUS_LIMITS=off, or --limits off.\n");
}

}  // namespace

const char kDescribeExamples[] =
    "Examples:\n"
    "  gradus describe SwiGluGrad\n"
    "  gradus describe aclnnExpSegsum --json | jq .operator.arguments";

void describe_command(const DescribeOptions& options, Session& session) {
    const Operator& op = find_operator(options.op);
    session.json ? print_json({{"schema", "gradus-describe/1"}, {"operator", op.json}}) : print_text(op);
}

}  // namespace gradus::cli
