#include "ops/nsa_selected_attention/plan.h"

#include "ops/nsa_selected_attention/effort.h"

namespace gradus::nsa_selected_attention {

Problem problem_of(const Call& call, const Places& at, bool causal) {
    const TensorView &query = call.view(forward::kQuery), &key = call.view(forward::kKey),
                     &value = call.view(forward::kValue);
    Problem e{.rows = query.of(0),
              .keys = key.of(0),
              .heads = query.of(1),
              .key_heads = key.of(1),
              .group = query.of(1) / key.of(1),
              .depth = query.of(2),
              .value_depth = value.of(2),
              .size = call.integer(at.size),
              .count = call.integer(at.count),
              .causal = causal,
              .scale = call.real(at.scale),
              .dtype = query.dtype,
              .sequences = {}};
    e.set_sequences(call.array(at.query_lengths).value_or(std::vector<int64_t>{e.rows}),
                    call.array(at.key_lengths).value_or(std::vector<int64_t>{e.keys}));
    return e;
}

int64_t effort_of(const Problem& e, double times, bool golden) {
    const double pairs =
        static_cast<double>(e.rows) * static_cast<double>(e.heads) * static_cast<double>(e.count * e.size);
    const double width = static_cast<double>(e.depth + e.value_depth);
    const double bytes = width * 2 * static_cast<double>(e.rows * e.heads + e.keys * e.key_heads);
    return static_cast<int64_t>(std::min(1e18, times * (bytes + pairs * width / 8) * (golden ? 16 : 1)));
}

}  // namespace gradus::nsa_selected_attention
