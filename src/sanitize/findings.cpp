#include "sanitize/findings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/observer.h"

namespace gradus::sanitize {
namespace {

const char* word(Level level) { return level == Level::error ? "error" : level == Level::warning ? "warning" : "note"; }

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (static_cast<unsigned char>(c) < 0x20)
            out += ' ';
        else
            out += c;
    }
    return out + "\"";
}

// For others that show it: the accesses and the fix, without stacks.
std::string line_of(const Finding& finding) {
    std::string line = finding.kind;
    for (size_t i = 0; i < finding.parts.size() && i < 2; ++i)
        line += (line.empty() ? "" : "; ") + finding.parts[i].text;
    return finding.fix.empty() ? line : line + "; fix: " + finding.fix;
}

// Nor the blanks before it. A lambda's name has a # of its own.
std::string without_comment(std::string line) {
    const size_t comment = line.starts_with('#') ? 0 : std::min(line.find(" #"), line.find("\t#"));
    line.erase(std::min(comment, line.size()));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    return line;
}

std::string counted(uint64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

}  // namespace

Findings::Findings(const Options& options) {
    log_ = options.log.empty() ? Lines(STDERR_FILENO) : Lines(options.log);
    if (!options.json.empty()) json_ = Lines(options.json);
    std::ifstream file(options.suppressions);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(without_comment(line));
        Suppression suppression;
        if (!(words >> suppression.id)) continue;
        std::getline(words >> std::ws, suppression.part);  // with its blanks: main.cpp:88 backward
        suppressions_.push_back(std::move(suppression));
    }
}

bool Findings::suppressed(const Finding& finding) {
    for (const Suppression& suppression : suppressions_) {
        if (suppression.id != finding.id && suppression.id != "*") continue;
        if (suppression.part.empty()) return true;
        for (const Part& part : finding.parts)
            if (stack_text(stacks.frames(part.site)).find(suppression.part) != std::string::npos) return true;
    }
    return false;
}

void Findings::report(const Finding& finding) {
    ++reported;
    const auto site = [&](size_t i) { return i < finding.parts.size() ? finding.parts[i].site : Site{0}; };
    std::string what = finding.id;
    for (const auto& [key, value] : finding.keys)
        if (key == "function" || key == "other_function" || key == "object") what += " " + value;
    const auto [seen, fresh] = seen_.try_emplace(Key{what, site(0), site(1)}, finding.level);
    if (!fresh && seen->second <= finding.level) return void(++repeated_);
    seen->second = finding.level;
    if (suppressed(finding)) return void(++suppressed_);
    ++count_[static_cast<int>(finding.level)];
    const uint64_t number = count_[0] + count_[1] + count_[2];
    if (json_.wanted()) json_.add(json_of(finding, number));
    log_.add(text_of(finding, number));
    const auto ticket = [&](std::string_view name) {
        const auto it =
            std::ranges::find(finding.keys, name, [](const auto& key) -> std::string_view { return key.first; });
        return it == finding.keys.end() ? uint64_t{0} : std::strtoull(it->second.c_str(), nullptr, 10);
    };
    const bool error = finding.level == Level::error;
    const std::string line = line_of(finding);
    const gradus::Finding told{finding.id, error, {ticket("task"), ticket("other_task")}, line};
    observe([&](Observer& o) { o.on_finding(told); });
}

std::string Findings::text_of(const Finding& finding, uint64_t number) {
    std::string text = std::string("gradus sanitize: ") + word(finding.level) + " " + finding.id;
    if (!finding.kind.empty()) text += " (" + finding.kind + ")";
    text += " #" + std::to_string(number) + "\n";
    for (const Part& part : finding.parts) {
        text += "  " + part.text + "\n";
        if (part.site != 0) text += "      " + stack_text(stacks.frames(part.site)) + "\n";
    }
    if (!finding.fix.empty()) text += "  fix: " + finding.fix + "\n";
    text += "  id=" + std::string(finding.id) + " level=" + word(finding.level);
    for (const auto& [key, value] : finding.keys)
        text += " " + key + "=" + (value.find(' ') == std::string::npos ? value : quoted(value));
    return text + "\n";
}

std::string Findings::json_of(const Finding& finding, uint64_t number) {
    std::string line = "{\"id\":" + quoted(finding.id) + ",\"level\":" + quoted(word(finding.level)) +
                       ",\"number\":" + std::to_string(number) + ",\"pid\":" + std::to_string(getpid()) +
                       ",\"kind\":" + quoted(finding.kind);
    for (const auto& [key, value] : finding.keys) line += "," + quoted(key) + ":" + quoted(value);
    line += ",\"parts\":[";
    for (size_t i = 0; i < finding.parts.size(); ++i) {
        line += (i > 0 ? ",{\"text\":" : "{\"text\":") + quoted(finding.parts[i].text) + ",\"stack\":[";
        const std::vector<Frame>& frames = stacks.frames(finding.parts[i].site);
        for (size_t f = 0; f < frames.size(); ++f)
            line += (f > 0 ? ",{\"file\":" : "{\"file\":") + quoted(frames[f].file) +
                    ",\"line\":" + std::to_string(frames[f].line) + ",\"function\":" + quoted(frames[f].function) + "}";
        line += "]}";
    }
    return line + "],\"fix\":" + quoted(finding.fix) + "}\n";
}

void Findings::summarise() {
    std::string text = "gradus sanitize: ";
    if (none()) {
        text += "nothing found";
    } else {
        text += counted(count_[0], "error") + ", " + counted(count_[1], "warning");
        if (count_[2] > 0) text += ", " + counted(count_[2], "note");
    }
    if (repeated_ > 0) text += ", seen again " + counted(repeated_, "time");
    if (suppressed_ > 0) text += ", " + std::to_string(suppressed_) + " suppressed";
    log_.add(text + "\n");
    if (!json_.wanted()) return;
    json_.add("{\"summary\":true,\"pid\":" + std::to_string(getpid()) + ",\"errors\":" + std::to_string(count_[0]) +
              ",\"warnings\":" + std::to_string(count_[1]) + ",\"notes\":" + std::to_string(count_[2]) +
              ",\"repeated\":" + std::to_string(repeated_) + ",\"suppressed\":" + std::to_string(suppressed_) + "}\n");
}

void Findings::forget_counts() {
    for (uint64_t& count : count_) count = 0;
    suppressed_ = repeated_ = 0;
}

}  // namespace gradus::sanitize
