// What every --json has in common.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gradus::cli {

// JSON has no NaN and no infinity; as strings they survive.
nlohmann::json json_number(double value);
// Bytes that are not UTF-8, as names of files may have, are replaced: it is JSON whatever the names are.
std::string json_text(const nlohmann::json& json);
// Any other text, with the same bytes replaced.
std::string as_utf8(const std::string& text);
// To stdout.
void print_json(const nlohmann::json& json);

}  // namespace gradus::cli
