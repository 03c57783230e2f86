#include "runtime/foreign.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>

namespace gradus {
namespace {

// The kernel's list of what is mapped, line by line. Asking the dynamic linker would take its lock, which the child of
// a fork may find taken for ever.
class Maps {
  public:
    Maps() : file_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
    ~Maps() {
        if (file_ >= 0) close(file_);
    }
    Maps(const Maps&) = delete;
    Maps& operator=(const Maps&) = delete;

    // False at the end. What is longer than any path is cut off.
    bool next(std::string_view& line) {
        size_t length = 0;
        for (char c; get(c);) {
            if (c == '\n') return line = {line_, length}, true;
            if (length < sizeof line_) line_[length++] = c;
        }
        return false;
    }

  private:
    bool get(char& c) {
        if (at_ == size_) {
            const ssize_t got = file_ >= 0 ? read(file_, buffer_, sizeof buffer_) : 0;
            if (got <= 0) return false;
            at_ = 0;
            size_ = static_cast<size_t>(got);
        }
        return c = buffer_[at_++], true;
    }

    int file_;
    char buffer_[4096], line_[PATH_MAX + 128];
    size_t at_ = 0, size_ = 0;
};

std::string_view path_of(std::string_view line) {
    const size_t slash = line.find('/');
    return slash == std::string_view::npos ? std::string_view() : line.substr(slash);
}
std::string_view folder_of(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

bool holds(std::string_view line, uintptr_t address) {
    unsigned long begin = 0, end = 0;
    const Text text = line.substr(0, 64);
    return std::sscanf(text.c_str(), "%lx-%lx", &begin, &end) == 2 && address >= begin && address < end;
}

bool has_cann_name(std::string_view path) {
    const std::string_view file = path.substr(folder_of(path).size());
    for (std::string_view name : {"libascendcl.so", "libacl_rt.so", "libnnopbase.so"})
        if (file.starts_with(name)) return true;
    return false;
}

// The path of a library with a name of CANN's outside our own folder, where stand-ins of that name lie; or nothing.
Text find_foreign() {
    std::string_view line;
    Text own_folder;
    for (Maps maps; maps.next(line);)
        if (holds(line, reinterpret_cast<uintptr_t>(&check_no_foreign_cann))) own_folder = folder_of(path_of(line));
    for (Maps maps; maps.next(line);)
        if (has_cann_name(path_of(line)) && folder_of(path_of(line)) != own_folder.view()) return path_of(line);
    return {};
}

constinit std::atomic<bool> none_found = false;  // it was looked, and nothing was found

}  // namespace

Status check_no_foreign_cann(int code) {
    if (none_found.load(std::memory_order_relaxed)) return {};
    const Text path = find_foreign();  // by several threads perhaps, who find the same
    none_found = path.empty();
    if (none_found) return {};
    return {code, concat("a CANN library is loaded in this process (", path,
                         "); Gradus stands in for CANN and cannot share a process with it: start with one of the two")};
}

}  // namespace gradus
