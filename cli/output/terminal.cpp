#include "cli/output/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "cli/base/clock.h"

namespace gradus::cli {
namespace {

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

bool is_blank(char c) { return c == ' '; }

// As lines of at most `room` characters, broken at blanks, or anywhere where there is none. A cell in colour is short,
// and left as it is: its escapes belong together.
std::vector<std::string> lines_of(const std::string& text, size_t room) {
    if (visible_width(text) <= room || text.find('\x1b') != std::string::npos) return {text};
    std::vector<std::string> lines;
    size_t begin = 0;
    while (begin < text.size()) {
        size_t end = begin, columns = 0, blank = std::string::npos;
        while (end < text.size() && columns < room) {
            if (is_blank(text[end])) blank = end;
            do ++end;
            while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
            ++columns;
        }
        if (end < text.size() && !is_blank(text[end]) && blank != std::string::npos && blank > begin) end = blank;
        lines.push_back(text.substr(begin, end - begin));
        for (begin = end; begin < text.size() && is_blank(text[begin]);) ++begin;
    }
    return lines;
}

struct Column {
    size_t width = 0, least = 12;  // least: of what cannot be broken
};

// The widest column that can gives up as much as is needed, down to the next one, and so on.
void narrow(std::vector<Column>& columns, size_t room) {
    constexpr size_t kGap = 2;
    for (;;) {
        size_t total = kGap * (columns.size() - 1), next = 0;
        Column* widest = nullptr;
        for (Column& column : columns) {
            total += column.width;
            if (column.width <= column.least) continue;
            if (widest == nullptr || column.width > widest->width) {
                next = widest == nullptr ? 0 : widest->width;
                widest = &column;
            } else {
                next = std::max(next, column.width);
            }
        }
        if (total <= room || widest == nullptr) return;
        const size_t fits = widest->width - std::min(widest->width, total - room);
        widest->width = std::max({fits, widest->least, std::min(next, widest->width - 1)});
    }
}

}  // namespace

std::string tinted(Tint tint, const std::string& text) {
    static const char* const codes[] = {"0", "32", "31", "2", "1", "33"};
    static const bool colour = [] {
        const char* no = std::getenv("NO_COLOR");
        const char* terminal = std::getenv("TERM");
        return isatty(STDOUT_FILENO) != 0 && (no == nullptr || *no == '\0') &&
               (terminal == nullptr || std::string(terminal) != "dumb");
    }();
    if (!colour || tint == Tint::plain) return text;
    return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<int>(tint)], text);
}

size_t terminal_width() {
    winsize size{};
    if (isatty(STDOUT_FILENO) == 0) return std::numeric_limits<size_t>::max();
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<Column> columns(1);
    for (const auto& row : rows) {
        columns.resize(std::max(columns.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) {
            const size_t width = visible_width(row[i]);
            columns[i].width = std::max(columns[i].width, width);
            if (row[i].find('\x1b') != std::string::npos) columns[i].least = std::max(columns[i].least, width);
        }
    }
    narrow(columns, terminal_width());
    std::string out;
    for (size_t r = 0; r < rows.size(); ++r) {
        std::vector<std::vector<std::string>> cells;
        size_t height = 1;
        for (size_t i = 0; i < rows[r].size(); ++i) {
            cells.push_back(lines_of(rows[r][i], columns[i].width));
            height = std::max(height, cells.back().size());
        }
        for (size_t h = 0; h < height; ++h) {
            std::string line;
            for (size_t i = 0; i < cells.size(); ++i) {
                const std::string cell = h < cells[i].size() ? cells[i][h] : "";
                line += cell;
                if (i + 1 < cells.size())
                    line += std::string(columns[i].width - std::min(columns[i].width, visible_width(cell)) + 2, ' ');
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out += (r == 0 ? tinted(Tint::bold, line) : line) + "\n";
        }
    }
    return out;
}

Progress::Progress(std::string what, int64_t steps) : what_(std::move(what)), steps_(steps), start_(now()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
    if (drawn_ > 0) fmt::print(stderr, "\r\x1b[K");
    drawn_ = 0;
}

void Progress::step(const std::string& doing) {
    doing_ = doing;
    ++begun_;
    tick();
}

void Progress::tick() {
    static const bool watched = isatty(STDERR_FILENO) != 0;
    const double t = now();
    // Ten pictures a second are plenty.
    if (!watched || t - start_ < 1 || t - drawn_ < 0.1) return;
    drawn_ = t;
    ++ticks_;
    draw();
}

void Progress::draw() {
    constexpr int64_t kWidth = 24;
    winsize size{};
    const int64_t room = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    const int64_t full = steps_ > 0 ? std::min(kWidth, kWidth * (begun_ - 1) / steps_) : 0;
    std::string bar(static_cast<size_t>(full), '#');
    bar.resize(kWidth, '.');
    const char turning = "|/-\\"[ticks_ % 4];
    const std::string start = fmt::format("{} {} [{}] {}/{} ", turning, what_, bar, begun_, steps_);
    // Not the last column: some terminals begin a new line there.
    const auto left = static_cast<size_t>(std::max<int64_t>(0, room - 1 - static_cast<int64_t>(start.size())));
    fmt::print(stderr, "\r\x1b[K{}{}", start.substr(0, static_cast<size_t>(room - 1)), doing_.substr(0, left));
    std::fflush(stderr);
}

}  // namespace gradus::cli
