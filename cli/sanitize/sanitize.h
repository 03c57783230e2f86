// What the parts of `gradus sanitize` share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradus::cli {

// What an id means, as Markdown: a program of a few lines with the mistake, and its repair. `all`: every id.
std::string explain_finding(const std::string& id);

// A page that shows what was found, each race drawn with the arrow that is missing; `line`: the command line.
void write_sanitize_page(const std::string& path, const std::string& line, const std::vector<nlohmann::json>& found);

}  // namespace gradus::cli
