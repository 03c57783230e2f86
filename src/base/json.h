// Just enough JSON to tell a sound configuration file from a broken one.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gradus {

// Checks text against RFC 8259, nested at most 100 deep. Returns the offset of the first byte that does not fit.
std::optional<size_t> find_json_error(std::string_view text);

}  // namespace gradus
