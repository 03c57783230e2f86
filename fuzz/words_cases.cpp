#include "fuzz/words_cases.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/call/assignment.h"
#include "cli/call/call.h"
#include "cli/commands/command_line.h"
#include "fuzz/report.h"
#include "testing/call.h"

namespace gradus::fuzz {
namespace {

using Words = std::vector<std::string>;

// As a command line has them, where a word ends with its first NUL.
Words words_of(const std::string& text) {
    Words words;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words.push_back(word.c_str());
    return words;
}

// What does not understand a text says so, by a Failure with a sentence, and by nothing else.
bool understood(const std::function<void()>& read) {
    try {
        read();
        count("texts understood");
        if (planted("refusal")) throw std::runtime_error("planted");
        return true;
    } catch (const cli::Failure& failure) {
        if (failure.exit < cli::kMismatch || failure.exit > cli::kEnvironment || failure.what()[0] == '\0')
            fail("refusal", "exit " + std::to_string(failure.exit) + ", " + failure.what());
    } catch (const std::exception& error) {
        fail("refusal", std::string("an exception that says nothing to a user: ") + error.what());
    }
    count("texts refused");
    return false;
}

// Sizes come from the text: those which a machine has the memory for are kept small, those which none has may come.
bool is_small(const std::string& text) {
    double product = 1, largest = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) continue;
        if (i > 0 && (text[i - 1] == 'e' || text[i - 1] == 'E')) return false;  // 1e9
        double value = 0;
        for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i)
            value = 10 * value + (text[i] - '0');
        product *= std::max(value, 1.0);
        largest = std::max(largest, value);
    }
    return product <= 2e6 || largest >= 1e18;
}

// Nothing that names a file: it would be written, or be anybody's.
bool names_a_file(const std::string& text) {
    return std::ranges::any_of(std::initializer_list<const char*>{"/", ".npy", ".npz", ".bin", ".json", ".html"},
                               [&](const char* part) { return text.find(part) != std::string::npos; });
}

}  // namespace

void try_option(const std::string& text) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals).c_str(),
                      value = text.substr(std::min(equals + 1, text.size())).c_str();
    if (name == "log" || name == "soc_name") return;  // would write lines; keeps every name it was ever given
    const char* const known = gradusGetOption(name.c_str());
    const std::string before = known != nullptr ? known : "";
    testing::take_message();
    for (const auto set : {gradusSetOption, gradusSetThreadOption}) {
        const int code = set(name.c_str(), value.c_str());
        const std::string message = testing::take_message();
        if ((code != 0 && code != ACL_ERROR_INVALID_PARAM) || (code != 0) != !message.empty() || planted("code"))
            fail("code", "'" + text + "' answers " + std::to_string(code) + " with '" + message + "'");
        count(code == 0 ? "texts understood" : "texts refused");
        if (code == 0 && gradusGetOption(name.c_str()) == nullptr) fail("option", name + " was set and is not there");
        if (code != 0 && known != nullptr && before != gradusGetOption(name.c_str()))
            fail("option", name + " has changed by a value that was refused");
    }
    if (known == nullptr) return;
    gradusSetThreadOption(name.c_str(), nullptr);
    if (gradusSetOption(name.c_str(), before.c_str()) != 0) fail("option", name + " cannot be set to what it was");
}

// The other reader of JSON that is here has no bound of depth, and ends at a zero.
void try_json(const std::string& text) {
    int depth = 0, deepest = 0;
    for (const char c : text) {
        if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
        if (c == ']' || c == '}') --depth;
    }
    const bool sound = !find_json_error(text).has_value();
    const bool expected = nlohmann::json::accept(text) != planted("json");
    const bool marked = text.starts_with("\xEF\xBB\xBF");  // a byte order mark, which it skips
    if (sound != expected && deepest < 100 && !marked && text.find('\0') == std::string::npos)
        fail("json", std::string(sound ? "taken" : "refused") + ", and the other reader does not agree");
    count(sound ? "texts understood" : "texts refused");
}

void try_arguments(const std::string& text) {
    const cli::Sizes sizes = {{"N", 4}, {"T1", 0}, {"D", -3}};
    understood([&] {
        const cli::Assignment word = cli::parse_assignment(text);
        if (is_small(word.value)) cli::parse_wish(word.value, sizes);
    });
    understood([&] { cli::parse_list(text, sizes); });
    understood([&] {
        const int64_t value = cli::evaluate_integer(text, sizes);
        if (static_cast<double>(value) != cli::evaluate(text, sizes)) fail("expression", "two values of " + text);
    });
    understood([&] { cli::suggestion(text, cli::names_in(text)); });
    understood([&] { cli::split(text, ','); });
}

void try_call(const std::string& text) {
    Words words = words_of(text);
    if (words.empty() || !is_small(text) || names_a_file(text)) return;
    set_case("gradus run " + cli::quoted(words));
    const std::string name = words.front();
    words.erase(words.begin());
    understood([&] {
        const cli::Call call = cli::make_call(cli::find_operator(name), words);
        run(call);
    });
}

void try_names(const std::string& text) {
    const Words words = words_of(text);
    std::vector<gradusArg> args;
    for (size_t i = 1; i < words.size(); ++i) {
        gradusArg arg{};
        arg.name = words[i].c_str();
        arg.kind = static_cast<gradusKind>(i % 6);
        if (arg.kind == GRADUS_STRING) arg.value.s = words[i].c_str();
        args.push_back(arg);
    }
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    testing::take_message();
    const int code =
        gradusPrepare(words.empty() ? nullptr : words[0].c_str(), args.data(), args.size(), &size, &executor);
    if ((code != 161001 && code != 161002) || testing::take_message().empty())
        fail("code", "no operator can do without a tensor, and " + std::to_string(code) + " is answered");
}

void try_command_line(const std::string& text) {
    Words words = words_of(text);
    constexpr const char* kCommands[] = {"list", "describe", "run", "check", "--help", "--version", "help", "lst"};
    constexpr const char* kOptions[] = {"--names",  "--json", "--help",      "--version",   "--seed",
                                        "--limits", "--isa",  "--precision", "--precisiom", "--threads"};
    if (words.empty() || std::ranges::count(kCommands, words[0]) == 0) return;
    if (!is_small(text) || names_a_file(text)) return;
    const auto is_argument = [](const std::string& word) { return word[0] != '-' && word.find('=') != word.npos; };
    if (words[0] == "check" && std::ranges::none_of(words, is_argument)) return;  // all shapes of one operator or more
    for (const std::string& word : words)
        if (word.starts_with("-") && std::ranges::count(kOptions, word.substr(0, word.find('='))) == 0) return;
    set_case("gradus " + cli::quoted(words));
    std::vector<char*> argv = {const_cast<char*>("gradus")};
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    cli::Session session;
    understood([&] {
        const int exit = cli::run_command_line(static_cast<int>(words.size()) + 1, argv.data(), session);
        if (exit < cli::kRight || exit > cli::kEnvironment) fail("refusal", "exit code " + std::to_string(exit));
    });
}

}  // namespace gradus::fuzz
