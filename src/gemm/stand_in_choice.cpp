// In the place of gemm.cpp, for tests: everything is multiplied by the plain loops of one path, on any CPU.
#include "gemm/gemm.h"

namespace gradus::gemm {
namespace {

[[maybe_unused]] const Path& amx(DType dtype) { return path_amx_stand_in(dtype); }
[[maybe_unused]] const Path& avx512_bf16(DType dtype) {
    return dtype == DType::bf16 ? path_avx512_bf16_stand_in() : path_f32(dtype, Isa::scalar);
}

}  // namespace

const Path& choose(DType dtype, Isa) { return GRADUS_STAND_IN(dtype); }
const char* why_chosen(DType, Isa) { return "a stand-in, for tests"; }

}  // namespace gradus::gemm
