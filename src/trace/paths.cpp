#include "trace/paths.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/text.h"

namespace gradus::trace {
namespace {

constexpr std::string_view kEnding = ".json";

// A path that grows as long as there is room.
class Path {
  public:
    explicit Path(char (&path)[PATH_MAX]) : path_(path) { path_[0] = '\0'; }
    void add(std::string_view text) {
        fits_ = fits_ && size_ + text.size() < PATH_MAX;
        if (!fits_) return;
        std::memcpy(path_ + size_, text.data(), text.size());
        size_ += text.size();
        path_[size_] = '\0';
    }
    bool fits() const { return fits_; }

  private:
    char (&path_)[PATH_MAX];
    size_t size_ = 0;
    bool fits_ = true;
};

void add_expanded(Path& path, std::string_view pattern, std::string_view process) {
    for (size_t at = 0; at < pattern.size();) {
        const size_t next = std::min(pattern.find("%p", at), pattern.size());
        path.add(pattern.substr(at, next - at));
        if (next < pattern.size()) path.add(process);
        at = next + 2;
    }
}

}  // namespace

bool FilePattern::set(const char* file) noexcept {
    Path path(pattern_);
    if (file[0] != '/') {
        char folder[PATH_MAX];
        if (getcwd(folder, sizeof folder) == nullptr) return false;
        path.add(folder);
        path.add("/");
    }
    path.add(file);
    if (!path.fits()) errno = ENAMETOOLONG;
    return path.fits();
}

bool FilePattern::timeline(uint32_t process, char (&path)[PATH_MAX]) const noexcept {
    const std::string_view pattern = pattern_;
    const Text number = concat(process);
    Path result(path);
    const bool insert = child_ && pattern.find("%p") == std::string_view::npos;
    const bool ends = pattern.size() > kEnding.size() && pattern.substr(pattern.size() - kEnding.size()) == kEnding;
    add_expanded(result, ends ? pattern.substr(0, pattern.size() - kEnding.size()) : pattern, number);
    if (insert) {
        result.add(".");
        result.add(number);
    }
    if (ends) result.add(kEnding);
    return result.fits();
}

bool FilePattern::table(const char* prefix, uint32_t process, char (&path)[PATH_MAX]) const noexcept {
    char whole[PATH_MAX];
    if (!timeline(process, whole)) return false;
    std::string_view name = whole;
    const size_t slash = name.rfind('/');  // there is one: the pattern is absolute
    const std::string_view folder = name.substr(0, slash + 1);
    name.remove_prefix(slash + 1);
    if (name.size() > kEnding.size() && name.substr(name.size() - kEnding.size()) == kEnding)
        name.remove_suffix(kEnding.size());
    Path result(path);
    for (const std::string_view part : {folder, std::string_view(prefix), name, std::string_view(".csv")})
        result.add(part);
    return result.fits();
}

}  // namespace gradus::trace
