#include "cli/output/terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/bench/timing.h"

namespace gradus::cli {
namespace {

using bench::now;

// Code points of UTF-8: every byte that does not continue one.
size_t width(const std::string& text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Escapes take no room on the screen.
size_t visible_width(const std::string& text) {
    size_t hidden = 0;
    for (size_t at = 0; (at = text.find('\x1b', at)) != std::string::npos;) {
        const size_t end = text.find('m', at);
        if (end == std::string::npos) break;
        hidden += end - at + 1;
        at = end;
    }
    return width(text) - hidden;
}

}  // namespace

std::string tinted(Tint tint, const std::string& text) {
    static const char* const codes[] = {"0", "32", "31", "2", "1"};
    static const bool colour = [] {
        const char* no = std::getenv("NO_COLOR");
        const char* terminal = std::getenv("TERM");
        return isatty(STDOUT_FILENO) != 0 && (no == nullptr || *no == '\0') &&
               (terminal == nullptr || std::string(terminal) != "dumb");
    }();
    if (!colour || tint == Tint::plain) return text;
    return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<int>(tint)], text);
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], visible_width(row[i]));
    }
    std::string out;
    for (size_t r = 0; r < rows.size(); ++r) {
        std::string line;
        for (size_t i = 0; i < rows[r].size(); ++i) {
            line += rows[r][i];
            if (i + 1 < rows[r].size()) line += std::string(widths[i] - visible_width(rows[r][i]) + 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += (r == 0 ? tinted(Tint::bold, line) : line) + "\n";
    }
    return out;
}

Progress::Progress(std::string what, int64_t steps) : what_(std::move(what)), steps_(steps), start_(now()) {}

Progress::~Progress() {
    if (drawn_ > 0) fmt::print(stderr, "\r\x1b[K");
}

void Progress::step(const std::string& doing) {
    doing_ = doing;
    static const bool watched = isatty(STDERR_FILENO) != 0;
    const double t = now();
    // Ten pictures a second are plenty.
    if (watched && t - start_ >= 1 && t - drawn_ >= 0.1) {
        drawn_ = t;
        draw();
    }
    ++done_;
}

void Progress::draw() {
    constexpr int64_t kWidth = 24;
    const int64_t full = steps_ > 0 ? std::min(kWidth, kWidth * done_ / steps_) : 0;
    std::string bar(static_cast<size_t>(full), '#');
    bar.resize(kWidth, '.');
    fmt::print(stderr, "\r\x1b[K{} [{}] {}/{} {}", what_, bar, done_, steps_, doing_.substr(0, 60));
    std::fflush(stderr);
}

}  // namespace gradus::cli
