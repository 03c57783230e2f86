#include "cli/diff/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/base/json.h"

namespace gradus::cli {
namespace {

// NaN or Inf on one side only is the worst that can be.
double error_of(double got, double want) {
    if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
    const double error = std::abs(got - want);
    return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<Cell> worst_cells(const HeatMap& map, const Shape& shape, const std::function<double(int64_t)>& got,
                              const std::function<double(int64_t)>& want) {
    std::vector<Cell> cells(map.worst.size());
    std::vector<double> errors(cells.size());
    const int64_t columns = shape.empty() ? 1 : shape.back();
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i / columns / map.row_step * map.columns + i % columns / map.column_step);
        if (at >= cells.size() || map.worst[at] == 0) continue;
        const double g = got(i), w = want(i), error = error_of(g, w);
        if (error <= errors[at]) continue;
        errors[at] = error;
        cells[at] = {i, g, w};
    }
    return cells;
}

std::vector<Cell> different_places(const HeatMap& map, const std::vector<Cell>& cells, size_t most) {
    std::vector<size_t> order;
    for (size_t i = 0; i < cells.size(); ++i)
        if (cells[i].index >= 0) order.push_back(i);
    std::ranges::stable_sort(order, [&map](size_t a, size_t b) { return map.worst[a] > map.worst[b]; });
    std::vector<Cell> chosen;
    std::set<size_t> rows, taken;
    for (const bool new_row : {true, false})
        for (const size_t i : order) {
            if (chosen.size() >= most || taken.contains(i)) continue;
            if (!rows.insert(i / static_cast<size_t>(map.columns)).second && new_row) continue;
            taken.insert(i);
            chosen.push_back(cells[i]);
        }
    return chosen;
}

std::string cells_data(const HeatMap& map, const std::vector<Cell>& cells, const Shape& shape, const std::string& id) {
    nlohmann::json json = {{"shape", shape}, {"columns", map.columns}, {"cells", nlohmann::json::array()}};
    for (const Cell& cell : cells)
        json["cells"].push_back(cell.index < 0 ? nlohmann::json(0)
                                               : nlohmann::json{cell.index, fmt::format("{:.6g}", cell.got),
                                                                fmt::format("{:.6g}", cell.want)});
    return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>", id, json.dump());
}

}  // namespace gradus::cli
