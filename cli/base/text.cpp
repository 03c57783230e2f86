#include "cli/base/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace gradus::cli {
namespace {

// Insertions, deletions and replacements from one word to the other.
size_t edits(const std::string& a, const std::string& b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0]++;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

}  // namespace

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : text) {
        depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
        if (c == separator && depth == 0)
            parts.emplace_back();
        else if (!parts.back().empty() || c != ' ')
            parts.back() += c;
    }
    for (std::string& part : parts) part.erase(part.find_last_not_of(' ') + 1);
    if (parts.size() == 1 && parts[0].empty()) parts.clear();
    return parts;
}

std::string quoted(const std::string& word) {
    if (!word.empty() && word.find_first_of(" \t\n[](){}*?;&|<>$'\"\\`!#~") == std::string::npos) return word;
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

std::string quoted(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
        if (!line.empty()) line += ' ';
        line += quoted(word);
    }
    return line;
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
    std::string best;
    // Farther away, or with no letter left in its place, it is another word.
    size_t fewest = std::min(std::max<size_t>(2, word.size() / 3) + 1, word.size());
    for (const std::string& candidate : known) {
        const std::string a = lower(word), b = lower(candidate);
        // The beginning of a longer name is near, too.
        const size_t distance = a.size() >= 3 && b.starts_with(a) ? 1 : edits(a, b);
        if (distance >= fewest) continue;
        fewest = distance;
        best = candidate;
    }
    return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
    const std::string near = nearest(word, known);
    return near.empty() ? "" : fmt::format(", did you mean {}?", near);
}

}  // namespace gradus::cli
