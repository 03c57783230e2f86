// NumPy's .npz: a zip archive of .npy files, as np.savez and np.savez_compressed write it.
#pragma once

#include "cli/tensor/input.h"

namespace gradus::cli {

struct NpzMember {
    std::string name;  // without .npy
    int64_t offset, packed, unpacked;
    uint32_t crc;
    bool deflated;
};

// In the archive's order. Failure(kUsage) for what is no such archive, or one with members that cannot be read.
std::vector<NpzMember> npz_members(Input& archive);
// Its bytes, unpacked and checked.
std::vector<char> read_member(Input& archive, const NpzMember& member);

}  // namespace gradus::cli
