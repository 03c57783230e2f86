// What the control groups of this process allow, of version 1, 2 or both: containers and batch systems set these
// limits.
#pragma once

#include <cstddef>
#include <optional>

namespace gradus {

// Without a value: no limit, or none that can be read.
struct CgroupLimits {
    std::optional<int> cpus;            // the quota in CPUs, rounded up
    std::optional<size_t> memory;       // bytes
    std::optional<size_t> memory_used;  // bytes of `memory` in use by all processes under that limit, cached files too
};

// The lowest limits of the group and of all those it lies in. Reads files and takes no memory, so that it may be asked
// at any time. `root` comes before /proc and /sys, for tests.
CgroupLimits cgroup_limits(const char* root = "") noexcept;

}  // namespace gradus
