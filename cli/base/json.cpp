#include "cli/base/json.h"

#include <fmt/core.h>

#include <cmath>

namespace gradus::cli {

nlohmann::json json_number(double value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::string json_text(const nlohmann::json& json) {
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string as_utf8(const std::string& text) { return nlohmann::json::parse(json_text(text)).get<std::string>(); }

void print_json(const nlohmann::json& json) { fmt::print("{}", json_text(json)); }

}  // namespace gradus::cli
