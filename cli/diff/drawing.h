// The drawings of a judgement, for a Page; `narrow`: for a small screen.
#pragma once

#include "cli/judge/measure.h"

namespace gradus::cli {

// How many elements are how many ulps off; the height is logarithmic, so that one element of a million is seen.
std::string draw_histogram(const Judgement& judgement, bool narrow);
// Where the errors are: the worst of each cell, in steps of colour. `cells`: the id of what the pointer shows.
std::string draw_heat_map(const HeatMap& map, const Shape& shape, const std::string& cells, bool narrow);

}  // namespace gradus::cli
