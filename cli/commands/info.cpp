// gradus info: what this machine has and what the library makes of it.
#include <dlfcn.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <climits>
#include <cstdlib>
#include <thread>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/text.h"
#include "cli/call/call.h"
#include "cli/call/launch.h"
#include "cli/commands/commands.h"
#include "cli/commands/selection.h"
#include "cli/output/machine.h"
#include "cli/output/terminal.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

constexpr const char* kOptions[] = {"limits", "precision", "memory", "num_threads", "max_isa", "soc_name", "log"};

std::string variable_of(const std::string& option) {
    std::string name = "GRADUS_" + option;
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

std::string library_path() {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&gradusVersion), &info) == 0) return "unknown";
    char resolved[PATH_MAX];
    return realpath(info.dli_fname, resolved) != nullptr ? resolved : info.dli_fname;
}

// A CANN that is not us: where one would be installed, unless our own library is behind it.
std::vector<std::string> real_cann() {
    const auto library_of = [](const std::string& prefix) { return prefix + "/lib64/libascendcl.so"; };
    std::vector<std::string> found;
    const char* const candidates[] = {std::getenv("ASCEND_HOME_PATH"), std::getenv("ASCEND_TOOLKIT_HOME"),
                                      "/usr/local/Ascend", "/usr/local/Ascend/ascend-toolkit/latest"};
    for (const char* prefix : candidates) {
        struct stat status {};
        if (prefix == nullptr || *prefix == '\0' || stat(prefix, &status) != 0) continue;
        char resolved[PATH_MAX];
        const bool library = realpath(library_of(prefix).c_str(), resolved) != nullptr;
        if (library && std::string(resolved).find("libgradus") != std::string::npos) continue;
        if (std::find(found.begin(), found.end(), prefix) == found.end()) found.emplace_back(prefix);
    }
    return found;
}

struct Path {
    std::string op, dtype, path, refused;
};

std::string reason_of(const Path& path, const std::vector<std::string>& isas) {
    const std::string cap = gradusGetOption("max_isa"), isa = path.path.substr(0, path.path.find(','));
    if (!path.refused.empty()) return path.refused;
    if (isa == "golden") return "precision is golden: the plain loop in double";
    if (isa == "magnitude") return "precision is magnitude: the plain loop in double, of |terms|";
    const bool capped = !isas.empty() && cap != isas.back();
    if (isa == cap) return capped ? "max_isa stops here" : "the best of this CPU";
    return fmt::format("{} adds nothing to this operator and dtype", cap);
}

// A variable that the library would refuse, in its own words.
std::vector<std::string> wrong_variables() {
    std::vector<std::string> problems;
    for (const char* name : kOptions) {
        const char* set = std::getenv(variable_of(name).c_str());
        if (set == nullptr) continue;
        try {
            const ScopedOption same(name, set);
        } catch (const Failure& failure) {
            problems.push_back(fmt::format("{}={}: {}", variable_of(name), set, failure.what()));
        }
    }
    return problems;
}

// Asks the library itself: phase one of the catalogue's smallest call, for each float dtype.
std::vector<Path> paths() {
    std::vector<Path> all;
    for (const Operator& op : catalogue()) {
        if (op.tiny.empty()) {
            all.push_back({op.name, "", "", "the catalogue has no small case"});
            continue;
        }
        for (const std::string& dtype : float_dtypes(op)) {
            std::vector<std::string> words = split(op.tiny, ' ');
            std::erase_if(words, [](const std::string& word) { return word.starts_with("dtype="); });
            words.push_back("dtype=" + dtype);
            try {
                all.push_back({op.name, dtype, Launch(make_call(op, words)).path(), ""});
            } catch (const Failure& failure) {  // not for this product, or a variable is wrong
                all.push_back({op.name, "", "none", failure.what()});
                break;
            }
        }
    }
    return all;
}

json options_json() {
    json options = json::object();
    for (const char* name : kOptions) {
        const char* set = std::getenv(variable_of(name).c_str());
        options[name] = {{"value", gradusGetOption(name)}, {"from", set != nullptr ? "environment" : "default"}};
    }
    return options;
}

json gather() {
    // Before anything is tried, which makes a wrong variable forgotten.
    const std::vector<std::string> problems = wrong_variables();
    const std::vector<Path> all = paths();
    const std::vector<std::string> isas = instruction_sets();
    json operators = json::array();
    for (const Path& path : all)
        operators.push_back(
            {{"operator", path.op}, {"dtype", path.dtype}, {"path", path.path}, {"reason", reason_of(path, isas)}});
    return {{"schema", "gradus-info/1"},
            {"cpu", machine().cpu},
            {"logical_cpus", std::thread::hardware_concurrency()},
            {"instruction_sets", isas},
            {"threads", std::atoi(gradusGetOption("num_threads"))},
            {"options", options_json()},
            {"problems", problems},
            {"library_version", gradusVersion()},
            {"header_version", GRADUS_HEADER_VERSION},
            {"acl_version", fmt::format("{}.{}.{}", ACL_MAJOR_VERSION, ACL_MINOR_VERSION, ACL_PATCH_VERSION)},
            {"library", library_path()},
            {"real_cann", real_cann()},
            {"operators", operators}};
}

void print_text(const json& info) {
    const auto joined = [&info](const char* key) {
        return fmt::format("{}", fmt::join(info.at(key).get<std::vector<std::string>>(), " "));
    };
    for (const std::string problem : info.at("problems")) fmt::print("{}\n", tinted(Tint::bad, problem));
    const std::string cann = joined("real_cann");
    fmt::print("{}", table({{"gradus", info.at("library_version")},
                            {"library", info.at("library")},
                            {"headers", fmt::format("{}, acl {}", info.at("header_version").get<std::string>(),
                                                    info.at("acl_version").get<std::string>())},
                            {"cpu", fmt::format("{}, {} logical", info.at("cpu").get<std::string>(),
                                                info.at("logical_cpus").get<int>())},
                            {"instruction sets", joined("instruction_sets")},
                            {"threads", std::to_string(info.at("threads").get<int>())},
                            {"real CANN", cann.empty() ? "none found" : cann + " (set_env.sh of one or the other)"}}));
    std::vector<std::vector<std::string>> rows = {{"OPTION", "VALUE", "FROM"}};
    for (const auto& [name, option] : info.at("options").items())
        rows.push_back({name, option.at("value"),
                        option.at("from") == "environment" ? variable_of(name) : tinted(Tint::dim, "default")});
    fmt::print("\n{}", table(rows));
    rows = {{"OPERATOR", "DTYPE", "PATH", "WHY"}};
    for (const json& path : info.at("operators")) {
        const std::vector<std::string> row = {path.at("operator"), path.at("dtype"), path.at("path"),
                                              path.at("reason")};
        std::vector<std::string>& last = rows.back();
        if (last[0] == row[0] && last[2] == row[2] && last[3] == row[3])
            last[1] += " " + row[1];
        else
            rows.push_back(row);
    }
    fmt::print("\n{}", table(rows));
}

}  // namespace

const char kInfoExamples[] =
    "Examples:\n"
    "  gradus info\n"
    "  GRADUS_MAX_ISA=avx2 gradus info\n"
    "  gradus info --json | jq .instruction_sets";

void info_command(Session& session) {
    const json info = gather();
    session.json ? print_json(info) : print_text(info);
    if (!info.at("problems").empty()) session.exit = kUsage;
}

}  // namespace gradus::cli
