#include "hccl/reduce.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hccl/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::hccl {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Of two equal numbers: zeros of different sign differ in one bit, which `and` clears and `or` sets.
template <HcclReduceOp kOp>
HWY_INLINE V32 combine(V32 a, V32 b) {
    if constexpr (kOp == HCCL_REDUCE_SUM) return hn::Add(a, b);
    if constexpr (kOp == HCCL_REDUCE_PROD) return hn::Mul(a, b);
    const auto same = hn::Eq(a, b);
    V32 best;
    if constexpr (kOp == HCCL_REDUCE_MAX)
        best = hn::IfThenElse(same, hn::And(a, b), max_or_nan(a, b));
    else
        best = hn::IfThenElse(same, hn::Or(a, b), min_or_nan(a, b));
    return if_nan(a, a, if_nan(b, b, best));
}

template <HcclReduceOp kOp>
HWY_INLINE Pair combine(Pair a, Pair b) {
    return {combine<kOp>(a.first, b.first), combine<kOp>(a.second, b.second)};
}

template <typename T, HcclReduceOp kOp>
void reduce_floats(const std::byte* const* sources, uint32_t count, std::byte* to, int64_t elements) {
    const auto source = [sources](uint32_t r) { return reinterpret_cast<const T*>(sources[r]); };
    each_pair(elements, [&](int64_t i, auto part) HWY_ATTR {
        Pair total = load(source(0) + i, part);
        for (uint32_t r = 1; r < count; ++r) total = combine<kOp>(total, load(source(r) + i, part));
        store(reinterpret_cast<T*>(to) + i, part, one_nan(total));
    });
}

// Integers, and f64, which the compiler puts into lanes. Sums and products wrap around, as unsigned ones do.
template <typename T, HcclReduceOp kOp>
HWY_INLINE T combine_scalar(T a, T b) {
    if constexpr (std::is_same_v<T, double>) {
        if constexpr (kOp == HCCL_REDUCE_SUM) return a + b;
        if constexpr (kOp == HCCL_REDUCE_PROD) return a * b;
        const T less = a < b || (a == b && std::bit_cast<int64_t>(a) < 0) ? a : b, more = less == a ? b : a;
        const T best = kOp == HCCL_REDUCE_MAX ? (a == b ? (std::bit_cast<int64_t>(a) < 0 ? b : a) : more) : less;
        return a != a ? a : b != b ? b : best;
    } else {
        using U = std::make_unsigned_t<T>;
        using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, U>;  // or small ones would become int, which overflows
        if constexpr (kOp == HCCL_REDUCE_SUM) return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
        if constexpr (kOp == HCCL_REDUCE_PROD) return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
        if constexpr (kOp == HCCL_REDUCE_MAX) return a > b ? a : b;
        return a < b ? a : b;
    }
}

template <typename T, HcclReduceOp kOp>
void reduce_scalars(const std::byte* const* sources, uint32_t count, std::byte* to, int64_t elements) {
    constexpr int64_t kStage = 512;
    T total[kStage];
    for (int64_t begin = 0; begin < elements; begin += kStage) {
        const int64_t n = elements - begin < kStage ? elements - begin : kStage;
        std::memcpy(total, reinterpret_cast<const T*>(sources[0]) + begin, static_cast<size_t>(n) * sizeof(T));
        for (uint32_t r = 1; r < count; ++r) {
            const T* const from = reinterpret_cast<const T*>(sources[r]) + begin;
            for (int64_t i = 0; i < n; ++i) total[i] = combine_scalar<T, kOp>(total[i], from[i]);
        }
        if constexpr (std::is_same_v<T, double>)
            for (int64_t i = 0; i < n; ++i) total[i] = gradus::one_nan(total[i]);
        std::memcpy(reinterpret_cast<T*>(to) + begin, total, static_cast<size_t>(n) * sizeof(T));
    }
}

template <HcclReduceOp kOp>
Reduction find_of(HcclDataType type) {
    switch (type) {
        case HCCL_DATA_TYPE_FP32:
            return reduce_floats<float, kOp>;
        case HCCL_DATA_TYPE_FP16:
            return reduce_floats<f16, kOp>;
        case HCCL_DATA_TYPE_BFP16:
            return reduce_floats<bf16, kOp>;
        case HCCL_DATA_TYPE_FP64:
            return reduce_scalars<double, kOp>;
        case HCCL_DATA_TYPE_INT8:
            return reduce_scalars<int8_t, kOp>;
        case HCCL_DATA_TYPE_INT16:
            return reduce_scalars<int16_t, kOp>;
        case HCCL_DATA_TYPE_INT32:
            return reduce_scalars<int32_t, kOp>;
        case HCCL_DATA_TYPE_INT64:
            return reduce_scalars<int64_t, kOp>;
        case HCCL_DATA_TYPE_UINT8:
            return reduce_scalars<uint8_t, kOp>;
        case HCCL_DATA_TYPE_UINT16:
            return reduce_scalars<uint16_t, kOp>;
        case HCCL_DATA_TYPE_UINT32:
            return reduce_scalars<uint32_t, kOp>;
        case HCCL_DATA_TYPE_UINT64:
            return reduce_scalars<uint64_t, kOp>;
        default:
            return nullptr;
    }
}

Reduction find(HcclDataType type, HcclReduceOp op) {
    switch (op) {
        case HCCL_REDUCE_SUM:
            return find_of<HCCL_REDUCE_SUM>(type);
        case HCCL_REDUCE_PROD:
            return find_of<HCCL_REDUCE_PROD>(type);
        case HCCL_REDUCE_MAX:
            return find_of<HCCL_REDUCE_MAX>(type);
        case HCCL_REDUCE_MIN:
            return find_of<HCCL_REDUCE_MIN>(type);
        default:
            return nullptr;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus::hccl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::hccl {

HWY_EXPORT(find);

Reduction find_reduction(HcclDataType type, HcclReduceOp op, Isa isa) { return GRADUS_CHOOSE(find, isa)(type, op); }

}  // namespace gradus::hccl
#endif
