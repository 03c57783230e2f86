#include "gemm/gemm.h"

namespace gradus::gemm {

// On CPUs with AMX, vdpbf16ps runs at half the rate of f32 FMA, and f16 splits into two bf16 exactly: AMX first. Without
// AMX (Zen 4), vdpbf16ps runs at twice the rate of f32.
const Path& choose(DType dtype, Isa cap) {
#if defined(GRADUS_LATER)
    if (cap >= Isa::amx && cpu_has(Isa::amx)) return path_amx(dtype);
    if (cap >= Isa::avx512_bf16 && cpu_has(Isa::avx512_bf16) && !cpu_has(Isa::amx) && dtype == DType::bf16)
        return path_avx512_bf16();
#endif
    return path_f32(dtype, cap);
}

}  // namespace gradus::gemm
