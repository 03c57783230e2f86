// What collectives must give, independently of the library: numbers of every type, and their reductions in rank order.
#pragma once

#include <vector>

#include "hccl/hccl.h"

namespace gradus::testing {

using Bytes = std::vector<unsigned char>;

struct Type {
    HcclDataType type;
    const char* name;
    size_t size;
    bool on_device;
};
constexpr Type kReduced[] = {{HCCL_DATA_TYPE_FP32, "fp32", 4, true},      {HCCL_DATA_TYPE_BFP16, "bfp16", 2, true},
                             {HCCL_DATA_TYPE_FP16, "fp16", 2, true},      {HCCL_DATA_TYPE_INT8, "int8", 1, true},
                             {HCCL_DATA_TYPE_INT16, "int16", 2, true},    {HCCL_DATA_TYPE_INT32, "int32", 4, true},
                             {HCCL_DATA_TYPE_INT64, "int64", 8, true},    {HCCL_DATA_TYPE_UINT8, "uint8", 1, false},
                             {HCCL_DATA_TYPE_UINT16, "uint16", 2, false}, {HCCL_DATA_TYPE_UINT32, "uint32", 4, false},
                             {HCCL_DATA_TYPE_UINT64, "uint64", 8, false}, {HCCL_DATA_TYPE_FP64, "fp64", 8, false}};

constexpr Type kOnlyMoved[] = {{HCCL_DATA_TYPE_INT128, "int128", 16, false},
                               {HCCL_DATA_TYPE_HIF8, "hif8", 1, false},
                               {HCCL_DATA_TYPE_FP8E4M3, "fp8e4m3", 1, false},
                               {HCCL_DATA_TYPE_FP8E5M2, "fp8e5m2", 1, false},
                               {HCCL_DATA_TYPE_FP8E8M0, "fp8e8m0", 1, false}};

Bytes expected_reduction(const std::vector<Bytes>& inputs, const Type& t, HcclReduceOp op);

// Floats of about 1 with zeros, infinities and NaNs among them; integers of all bits.
Bytes input(const Type& t, size_t count, uint32_t rank, bool special);

Bytes slice(const Bytes& bytes, size_t begin, size_t count);

}  // namespace gradus::testing
