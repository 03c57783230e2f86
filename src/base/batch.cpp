#include "base/batch.h"

#include <numeric>

namespace gradus {
namespace {

// Unsigned: a view may reach up to 2^63 bytes, and one step behind its end is up to twice as far.
bool follows(const Batch::Dim& outer, const Batch::Dim& inner) {
    const auto size = static_cast<uint64_t>(inner.size);
    for (size_t t = 0; t < Batch::kMost; ++t)
        if (static_cast<uint64_t>(outer.stride[t]) != static_cast<uint64_t>(inner.stride[t]) * size) return false;
    return true;
}

}  // namespace

int64_t Batch::at(int t, int64_t part) const {
    const auto k = static_cast<size_t>(t);
    int64_t from = offset[k];
    for (int d = rank - 1; d > 0; --d) {
        const Dim& along = dim[static_cast<size_t>(d)];
        from += part % along.size * along.stride[k];
        part /= along.size;
    }
    return from + part * dim[0].stride[k];
}

bool Batch::packed(int t, int64_t bytes) const {
    return rank == 0 || (rank == 1 && dim[0].stride[static_cast<size_t>(t)] == bytes);
}

Batch::Dim Batch::pop() {
    if (rank == 0) return {};
    const Dim inner = dim[static_cast<size_t>(--rank)];
    count /= inner.size;
    return inner;
}

Batch batch_of(std::span<const TensorView* const> views, std::span<const int> dims) {
    Batch batch;
    std::array<int64_t, Batch::kMost> item;
    for (size_t t = 0; t < views.size(); ++t) {
        item[t] = dtype_size(views[t]->dtype);
        batch.offset[t] = views[t]->offset * item[t];
    }
    for (const int d : dims) {
        Batch::Dim inner{.size = views[0]->of(d)};
        if (inner.size == 1) continue;
        for (size_t t = 0; t < views.size(); ++t) inner.stride[t] = views[t]->step(d) * item[t];
        batch.count *= inner.size;
        if (batch.rank > 0 && follows(batch.dim[static_cast<size_t>(batch.rank - 1)], inner))
            inner.size *= batch.dim[static_cast<size_t>(--batch.rank)].size;
        batch.dim[static_cast<size_t>(batch.rank++)] = inner;
    }
    return batch;
}

Batch batch_of(std::span<const TensorView* const> views, int rank) {
    std::array<int, kMaxRank> dims;
    std::iota(dims.begin(), dims.end(), 0);
    return batch_of(views, std::span(dims).first(static_cast<size_t>(rank)));
}

}  // namespace gradus
