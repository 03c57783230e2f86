// What this CPU can do, in the words of the option max_isa.
#pragma once

#include <string>
#include <vector>

namespace gradus {

// Ascending: asking for a cap of one allows all before it that the CPU has. ARM and x86 never meet. SVE is not among
// them: its vectors have no size that a compiler knows, so no structure could hold them.
enum class Isa { scalar, neon, avx2, avx512, avx512_bf16, amx };

inline constexpr const char* kIsaNames[] = {"scalar", "neon", "avx2", "avx512", "avx512_bf16", "amx"};
constexpr const char* isa_name(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

bool cpu_has(Isa isa);  // detected at the first question; AMX includes the kernel's permission for this process
bool cpu_is_intel();
Isa cpu_best_isa();
std::vector<Isa> cpu_isas();  // those this CPU has, ascending

}  // namespace gradus
