#include "base/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace gradus {
namespace {

// A path in a fixed buffer.
class Path {
  public:
    // Whether it fitted; else nothing has changed.
    bool append(std::string_view part) {
        if (part.size() >= sizeof text_ - size_) return false;
        std::memcpy(text_ + size_, part.data(), part.size());
        cut(size_ + part.size());
        return true;
    }
    void cut(size_t size) {
        size_ = size;
        text_[size] = '\0';
    }
    size_t size() const { return size_; }
    std::string_view view() const { return {text_, size_}; }
    const char* c_str() const { return text_; }
    bool exists() const { return access(text_, F_OK) == 0; }

  private:
    char text_[PATH_MAX] = "";
    size_t size_ = 0;
};

// What a file holds, as far as the buffer goes; nothing if it cannot be read. Whatever lies there, open does not wait.
std::string_view read_file(const char* path, std::span<char> buffer) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return {};
    size_t size = 0;
    while (size < buffer.size()) {
        const ssize_t got = read(file, buffer.data() + size, buffer.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        size += static_cast<size_t>(got);
    }
    close(file);
    return {buffer.data(), size};
}

// Takes what comes before the separator, or all, and the separator.
std::string_view take(std::string_view& text, char separator) {
    const size_t end = std::min(text.find(separator), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
}

// "max", −1 and everything that is no number of 64 bits: none.
std::optional<uint64_t> number(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// One or two words of the first line of a file in a group's folder.
struct Words {
    std::optional<uint64_t> first, second;
};

Words read_words(Path& folder, std::string_view name) {
    const size_t size = folder.size();
    char buffer[128];
    std::string_view text;
    if (folder.append("/") && folder.append(name)) text = read_file(folder.c_str(), buffer);
    folder.cut(size);
    std::string_view line = take(text, '\n');
    const std::string_view first = take(line, ' ');
    return {number(first), number(line)};
}

void limit_cpus(CgroupLimits& limits, std::optional<uint64_t> quota, std::optional<uint64_t> period) {
    if (!quota || !period || *period == 0) return;
    const uint64_t cpus = *quota / *period + (*quota % *period != 0 ? 1 : 0);
    limits.cpus = static_cast<int>(std::clamp<uint64_t>(cpus, 1, static_cast<uint64_t>(limits.cpus.value_or(INT_MAX))));
}

// Of equal limits the outer one counts: more is in use there.
void limit_memory(CgroupLimits& limits, Path& folder, std::string_view limit, std::string_view used) {
    constexpr uint64_t kNone = uint64_t{1} << 60;  // version 1 has no word for "no limit": it says 2^63 less a page
    const std::optional<uint64_t> bytes = read_words(folder, limit).first;
    if (!bytes || *bytes >= kNone || *bytes > limits.memory.value_or(SIZE_MAX)) return;
    limits.memory = static_cast<size_t>(*bytes);
    limits.memory_used = read_words(folder, used).first;
}

// Calls `visit` with the folder of the group and of all it lies in, up to where the hierarchy is mounted. A container
// may see but its own group there, by a path from outside: what is left of it when leading parts go is looked for, at
// last the mount itself. "/.." is what a namespace calls groups outside of it.
template <typename Visit>
void for_each_group(Path folder, std::string_view group, const Visit& visit) {
    const size_t mount = folder.size();
    if (group == "/" || group.find("/..") != group.npos) group = {};
    while (!group.empty()) {
        if (folder.append(group) && folder.exists()) break;
        folder.cut(mount);
        group.remove_prefix(std::min(group.find('/', 1), group.size()));
    }
    for (;;) {
        visit(folder);
        if (folder.size() <= mount) return;
        folder.cut(std::max(mount, folder.view().rfind('/')));
    }
}

bool lists(std::string_view controllers, std::string_view wanted) {
    while (!controllers.empty())
        if (take(controllers, ',') == wanted) return true;
    return false;
}

// A hierarchy of version 1 is mounted under the name of its controller, or of all that share it.
Path mount_of(Path folder, std::string_view controller, std::string_view controllers) {
    const size_t size = folder.size();
    folder.append("/");
    folder.append(controller);
    if (folder.exists()) return folder;
    folder.cut(size);
    folder.append("/");
    folder.append(controllers);
    return folder;
}

// Beside version 1, version 2 has a folder of its own.
Path mount_of_version_2(Path folder) {
    const size_t size = folder.size();
    folder.append("/cgroup.controllers");
    const bool alone = folder.exists();
    folder.cut(size);
    if (!alone) folder.append("/unified");
    if (!folder.exists()) folder.cut(size);
    return folder;
}

}  // namespace

CgroupLimits cgroup_limits(const char* root) noexcept {
    CgroupLimits limits;
    Path groups, mounts;
    if (!groups.append(root) || !groups.append("/proc/self/cgroup")) return limits;
    if (!mounts.append(root) || !mounts.append("/sys/fs/cgroup")) return limits;
    char buffer[8192];
    std::string_view text = read_file(groups.c_str(), buffer);
    while (!text.empty()) {  // "4:cpu,cpuacct:/group" for each hierarchy of version 1, "0::/group" for version 2
        std::string_view group = take(text, '\n');
        take(group, ':');
        const std::string_view controllers = take(group, ':');
        if (!group.starts_with('/')) continue;
        if (controllers.empty())
            for_each_group(mount_of_version_2(mounts), group, [&](Path& folder) {
                const Words cpu = read_words(folder, "cpu.max");
                limit_cpus(limits, cpu.first, cpu.second);
                limit_memory(limits, folder, "memory.max", "memory.current");
            });
        if (lists(controllers, "cpu"))
            for_each_group(mount_of(mounts, "cpu", controllers), group, [&](Path& folder) {
                limit_cpus(limits, read_words(folder, "cpu.cfs_quota_us").first,
                           read_words(folder, "cpu.cfs_period_us").first);
            });
        if (lists(controllers, "memory"))
            for_each_group(mount_of(mounts, "memory", controllers), group, [&](Path& folder) {
                limit_memory(limits, folder, "memory.limit_in_bytes", "memory.usage_in_bytes");
            });
    }
    return limits;
}

}  // namespace gradus
