#include "gemm/gemm.h"

namespace gradus::gemm {
namespace {

bool everywhere(const Cpu&, Isa) { return true; }

// vdpbf16ps has twice the rate of f32 FMA on AMD's CPUs, and half of it on Intel's: there only if it is asked for.
[[maybe_unused]] bool where_dots_are_fast(const Cpu& cpu, Isa cap) { return !cpu.intel || cap == Isa::avx512_bf16; }

constexpr Choice kTable[] = {
#if defined(__x86_64__)
    // f16 splits into two bf16 exactly, so AMX serves both
    {Isa::amx, true, &everywhere, "AMX: the fastest products of 16 bits",
     [](DType dtype, Isa) -> const Path& { return path_amx(dtype); }},
    {Isa::avx512_bf16, false, &where_dots_are_fast, "vdpbf16ps: faster than f32 here, or asked for",
     [](DType, Isa) -> const Path& { return path_avx512_bf16(); }},
#endif
    {Isa::scalar, true, &everywhere, "f32: no faster product of 16 bits on this CPU within max_isa", &path_f32},
};

const Choice& here(DType dtype, Isa cap) { return choice_for(dtype, cap, {&cpu_has, cpu_is_intel()}); }

}  // namespace

const Choice& choice_for(DType dtype, Isa cap, const Cpu& cpu) {
    const Choice* choice = kTable;
    while (cap < choice->needs || !cpu.has(choice->needs) || (dtype == DType::f16 && !choice->serves_f16) ||
           !choice->preferred(cpu, cap))
        ++choice;
    return *choice;
}

const Path& choose(DType dtype, Isa cap) { return here(dtype, cap).path(dtype, cap); }
const char* why_chosen(DType dtype, Isa cap) { return here(dtype, cap).why; }

}  // namespace gradus::gemm
