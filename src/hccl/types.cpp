#include "hccl/types.h"

#include <array>

namespace gradus::hccl {
namespace {

enum Reduced : int { never, without_limits, always };

struct Type {
    HcclDataType type;
    const char* name;
    size_t size;
    Reduced reduced;
};
constexpr std::array<Type, 17> kTypes = {{
    {HCCL_DATA_TYPE_INT8, "int8", 1, always},
    {HCCL_DATA_TYPE_INT16, "int16", 2, always},
    {HCCL_DATA_TYPE_INT32, "int32", 4, always},
    {HCCL_DATA_TYPE_FP16, "fp16", 2, always},
    {HCCL_DATA_TYPE_FP32, "fp32", 4, always},
    {HCCL_DATA_TYPE_INT64, "int64", 8, always},
    {HCCL_DATA_TYPE_UINT64, "uint64", 8, without_limits},
    {HCCL_DATA_TYPE_UINT8, "uint8", 1, without_limits},
    {HCCL_DATA_TYPE_UINT16, "uint16", 2, without_limits},
    {HCCL_DATA_TYPE_UINT32, "uint32", 4, without_limits},
    {HCCL_DATA_TYPE_FP64, "fp64", 8, without_limits},
    {HCCL_DATA_TYPE_BFP16, "bfp16", 2, always},
    {HCCL_DATA_TYPE_INT128, "int128", 16, never},
    {HCCL_DATA_TYPE_HIF8, "hif8", 1, never},
    {HCCL_DATA_TYPE_FP8E4M3, "fp8e4m3", 1, never},
    {HCCL_DATA_TYPE_FP8E5M2, "fp8e5m2", 1, never},
    {HCCL_DATA_TYPE_FP8E8M0, "fp8e8m0", 1, never},
}};

const Type* find(HcclDataType type) {
    for (const Type& t : kTypes)
        if (t.type == type) return &t;
    return nullptr;
}

}  // namespace

size_t size_of(HcclDataType type) {
    const Type* const t = find(type);
    return t != nullptr ? t->size : 0;
}

Text name_of(HcclDataType type) {
    const Type* const t = find(type);
    return t != nullptr ? Text(t->name) : concat("type ", static_cast<int>(type));
}

Text name_of(HcclReduceOp op) {
    switch (op) {
        case HCCL_REDUCE_SUM:
            return "sum";
        case HCCL_REDUCE_PROD:
            return "prod";
        case HCCL_REDUCE_MAX:
            return "max";
        case HCCL_REDUCE_MIN:
            return "min";
        default:
            return concat("operation ", static_cast<int>(op));
    }
}

Status check_type(const char* argument, HcclDataType type) {
    if (find(type) != nullptr) return {};
    return {HCCL_E_NOT_SUPPORT, concat(argument, ": ", static_cast<int>(type), ", expected an HCCL_DATA_TYPE_")};
}

Status check_count(const char* argument, uint64_t count) {
    if (count <= kMostCount) return {};
    return {HCCL_E_PARA, concat(argument, ": ", count, ", expected at most ", kMostCount)};
}

Status check_rank(const char* argument, uint32_t rank, uint32_t ranks) {
    if (rank < ranks) return {};
    return {HCCL_E_PARA, concat(argument, ": ", rank, ", expected less than ", ranks)};
}

Status check_aligned(const char* argument, const void* at, HcclDataType type) {
    const size_t size = size_of(type);
    if (reinterpret_cast<uintptr_t>(at) % (size > 8 ? 8 : size) == 0) return {};
    return {HCCL_E_PARA, concat(argument, ": not aligned to its elements of ", uint64_t{size}, " bytes")};
}

Status check_reduction(HcclDataType type, HcclReduceOp op, bool with_counts, bool limits) {
    GRADUS_TRY(check_type("dataType", type));
    const Type& t = *find(type);
    if (op < HCCL_REDUCE_SUM || op > HCCL_REDUCE_MIN)
        return {HCCL_E_NOT_SUPPORT, concat("op: ", static_cast<int>(op), ", expected 0 (sum) to 3 (min)")};
    constexpr const char* kLift = " (a limit of the device: GRADUS_LIMITS=off lifts it)";
    if (t.reduced == never) return {HCCL_E_NOT_SUPPORT, concat("dataType: ", t.name, " can be moved, not reduced")};
    if (!limits) return {};
    if (t.reduced == without_limits)
        return {HCCL_E_NOT_SUPPORT, concat("dataType: ", t.name,
                                           ", expected int8, int16, int32, int64, fp16, fp32 or "
                                           "bfp16",
                                           kLift)};
    if (op == HCCL_REDUCE_PROD && (with_counts || type == HCCL_DATA_TYPE_INT16 || type == HCCL_DATA_TYPE_BFP16))
        return {HCCL_E_NOT_SUPPORT, concat("op: prod of ", t.name, with_counts ? " with counts" : "", kLift)};
    return {};
}

}  // namespace gradus::hccl
