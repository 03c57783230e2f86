// Products by every path of gemm/, from operands in 16 bits with strides: what its test and the fuzzer share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gemm/gemm.h"

namespace gradus::gemm {

struct NamedPath {
    std::string name;
    const Path* path;
};

// What this CPU can run, and the stand-ins of what it cannot.
inline std::vector<NamedPath> paths() {
    std::vector<NamedPath> all;
    for (const DType dtype : {DType::bf16, DType::f16}) {
        const std::string type = dtype == DType::bf16 ? " bf16" : " f16";
        for (const Isa isa : cpu_isas())
            if (isa <= Isa::avx512) all.push_back({isa_name(isa) + type, &path_f32(dtype, isa)});
#if defined(__x86_64__)
        if (dtype == DType::bf16) all.push_back({"avx512_bf16 stand-in", &path_avx512_bf16_stand_in()});
        if (dtype == DType::bf16 && cpu_has(Isa::avx512_bf16)) all.push_back({"avx512_bf16", &path_avx512_bf16()});
        all.push_back({"amx stand-in" + type, &path_amx_stand_in(dtype)});
        if (cpu_has(Isa::amx)) all.push_back({"amx" + type, &path_amx(dtype)});
#endif
    }
    return all;
}

// Memory full of NaN, with some of it behind its end, aligned as a workspace is.
struct Memory {
    explicit Memory(int64_t bytes) : size(bytes), data(static_cast<std::byte*>(std::aligned_alloc(64, room(bytes)))) {
        std::fill(data.get(), data.get() + room(bytes), std::byte{0xFF});
    }
    static size_t room(int64_t bytes) { return static_cast<size_t>(bytes + 127) / 64 * 64; }
    bool intact() const {
        return std::all_of(data.get() + size, data.get() + room(size),
                           [](std::byte b) { return b == std::byte{0xFF}; });
    }
    struct Free {
        void operator()(std::byte* p) const { std::free(p); }
    };
    int64_t size;
    std::unique_ptr<std::byte, Free> data;
};

// A matrix in 16 bits with strides, and its values.
struct Values {
    int64_t rows, columns, row_stride, column_stride;
    std::vector<uint16_t> bits;
    std::vector<double> value;

    template <typename F>
    Values(DType dtype, int64_t m, int64_t n, bool transposed, int64_t step, F f)
        : rows(m),
          columns(n),
          row_stride(transposed ? step : n * step),
          column_stride(transposed ? m * step : step),
          bits(static_cast<size_t>(m * n * step + 1), 0x7FC1),
          value(static_cast<size_t>(m * n)) {
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                auto& to = bits[static_cast<size_t>(i * row_stride + j * column_stride)];
                if (dtype == DType::f16) {
                    const f16 x = from_f64<f16>(f());
                    to = x.bits, value[static_cast<size_t>(i * n + j)] = to_f64(x);
                } else {
                    const bf16 x = from_f64<bf16>(f());
                    to = x.bits, value[static_cast<size_t>(i * n + j)] = to_f64(x);
                }
            }
    }
    double at(int64_t i, int64_t j) const { return value[static_cast<size_t>(i * columns + j)]; }
    Matrix matrix(int64_t i = 0, int64_t j = 0) const {
        return {bits.data() + i * row_stride + j * column_stride, row_stride, column_stride};
    }
};

struct Packed {
    Packed(const Path& path, bool is_a, const Values& v)
        : panel(is_a ? path.panel_a(v.rows, v.columns) : path.panel_b(v.rows, v.columns)), memory(panel.bytes()) {}
    Panel panel;
    Memory memory;
};

// Packs in parts, as callers with tiles of their own do.
inline void pack(const Path& path, Packed& packed, const Values& v, int64_t row_part, int64_t k_part) {
    for (int64_t i = 0; i < v.rows; i += row_part)
        for (int64_t k = 0; k < v.columns; k += k_part)
            path.pack(packed.panel, packed.memory.data.get(),
                      {i, std::min(row_part, v.rows - i), k, std::min(k_part, v.columns - k)}, v.matrix(i, k));
    EXPECT_TRUE(packed.memory.intact()) << "packing wrote behind the panel";
}

inline std::vector<float> product(const Path& path, const Values& a, const Values& b, bool accumulate = false,
                                  int64_t row_part = 96, int64_t k_part = 192) {
    Packed pa(path, true, a), pb(path, false, b);
    pack(path, pa, a, row_part, k_part);
    pack(path, pb, b, row_part * 2, k_part);
    const int64_t m = pa.panel.strips() * path.a.rows, n = pb.panel.strips() * path.b.rows, stride = n + 3;
    std::vector<float> c(static_cast<size_t>(m * stride), accumulate ? 1.0f : std::nanf(""));
    const Using using_path(path);
    // in two blocks where there is more than one strip
    const int64_t first_a = (pa.panel.strips() + 1) / 2, first_b = (pb.panel.strips() + 1) / 2;
    for (const auto& [sa, na] : {std::pair<int64_t, int64_t>{0, first_a}, {first_a, pa.panel.strips() - first_a}})
        for (const auto& [sb, nb] : {std::pair<int64_t, int64_t>{0, first_b}, {first_b, pb.panel.strips() - first_b}})
            if (na > 0 && nb > 0)
                path.multiply(
                    pa.panel, pa.memory.data.get(), pb.panel, pb.memory.data.get(),
                    {sa, na, sb, nb, c.data() + sa * path.a.rows * stride + sb * path.b.rows, stride, accumulate});
    std::vector<float> result(static_cast<size_t>(a.rows * b.rows));
    for (int64_t i = 0; i < a.rows; ++i)
        for (int64_t j = 0; j < b.rows; ++j)
            result[static_cast<size_t>(i * b.rows + j)] = c[static_cast<size_t>(i * stride + j)];
    return result;
}

}  // namespace gradus::gemm
