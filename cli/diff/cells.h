// The worst element of every cell of a map: what the pointer shows, and worst elements that are not all neighbours.
#pragma once

#include <functional>

#include "cli/judge/measure.h"

namespace gradus::cli {

struct Cell {
    int64_t index = -1;  // none: nothing differs there
    double got = 0, want = 0;
};

// Row by row, as the map has them.
std::vector<Cell> worst_cells(const HeatMap& map, const Shape& shape, const std::function<double(int64_t)>& got,
                              const std::function<double(int64_t)>& want);
// The worst cells of the map, the worst first, at most `most` of them; where there are enough, each of another row.
std::vector<Cell> different_places(const HeatMap& map, const std::vector<Cell>& cells, size_t most);
// For the page's script, under that id.
std::string cells_data(const HeatMap& map, const std::vector<Cell>& cells, const Shape& shape, const std::string& id);

}  // namespace gradus::cli
