#include "base/batch.h"

namespace gradus {

int64_t Batch::at(int t, int64_t part) const {
    const Tensor& where = tensor[static_cast<size_t>(t)];
    int64_t offset = where.offset;
    for (int d = rank - 1; d > 0; --d) {
        const auto k = static_cast<size_t>(d);
        offset += part % size[k] * where.stride[k];
        part /= size[k];
    }
    return offset + part * where.stride[0];
}

bool Batch::packed(int t, int64_t bytes) const {
    return rank == 0 || (rank == 1 && tensor[static_cast<size_t>(t)].stride[0] == bytes);
}

Batch batch_of(std::span<const TensorView* const> views, int rank) {
    Batch batch;
    batch.count = 1;
    for (size_t t = 0; t < views.size(); ++t) batch.tensor[t].offset = views[t]->offset * dtype_size(views[t]->dtype);
    for (int d = 0; d < rank; ++d) {
        const int64_t size = views[0]->of(d);
        batch.count *= size;
        if (size == 1) continue;
        const auto last = static_cast<size_t>(batch.rank - 1);
        bool follows = batch.rank > 0;
        for (size_t t = 0; t < views.size() && follows; ++t)
            follows = batch.tensor[t].stride[last] == views[t]->step(d) * dtype_size(views[t]->dtype) * size;
        const size_t k = follows ? last : static_cast<size_t>(batch.rank++);
        batch.size[k] = follows ? batch.size[k] * size : size;
        for (size_t t = 0; t < views.size(); ++t)
            batch.tensor[t].stride[k] = views[t]->step(d) * dtype_size(views[t]->dtype);
    }
    return batch;
}

}  // namespace gradus
