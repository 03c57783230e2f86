// An argument as loops see it: element [i, j, k] of up to three dims, by strides in elements; the address comes later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/tensor_view.h"

namespace gradus {

struct Strided {
    int slot = 0;
    DType dtype = DType::f32;
    int64_t offset = 0, item = 0;
    std::array<int64_t, 3> step{};

    Strided() = default;
    Strided(int argument, const TensorView& view)
        : slot(argument), dtype(view.dtype), offset(view.offset), item(dtype_size(view.dtype)) {
        for (int d = 0; d < view.rank; ++d) step[static_cast<size_t>(d)] = view.step(d);
    }

    std::byte* at(std::byte* const* address, int64_t i, int64_t j = 0, int64_t k = 0) const {
        return address[slot] + (offset + i * step[0] + j * step[1] + k * step[2]) * item;
    }
    float f32(std::byte* const* address, int64_t i, int64_t j = 0) const {
        return load_element<float>(at(address, i, j));
    }
    void put(std::byte* const* address, int64_t i, float value) const { store_element(at(address, i), one_nan(value)); }
    // int32 or int64
    int64_t index(std::byte* const* address, int64_t i, int64_t j = 0, int64_t k = 0) const {
        const std::byte* from = at(address, i, j, k);
        return item == 8 ? load_element<int64_t>(from) : load_element<int32_t>(from);
    }
    void put_index(std::byte* const* address, int64_t i, int64_t value) const {
        if (item == 8)
            store_element(at(address, i), value);
        else
            store_element(at(address, i), static_cast<int32_t>(value));
    }
};

}  // namespace gradus
