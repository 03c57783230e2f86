#include "gemm/gemm.h"

namespace gradus::gemm {

// f16 splits into two bf16 exactly, so AMX serves both. Without AMX (Zen 4), vdpbf16ps runs at twice the rate of f32
// FMA; on CPUs with AMX at half of it, and is used there only where max_isa asks for it.
const Path& choose(DType dtype, Isa cap) {
#if defined(__x86_64__)
    if (cap >= Isa::amx && cpu_has(Isa::amx)) return path_amx(dtype);
    if (cap >= Isa::avx512_bf16 && cpu_has(Isa::avx512_bf16) && dtype == DType::bf16) return path_avx512_bf16();
#endif
    return path_f32(dtype, cap);
}

}  // namespace gradus::gemm
