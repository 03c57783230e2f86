#include "runtime/foreign.h"

#include <link.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "acl/acl_base.h"

namespace gradus {
namespace {

struct Search {
    uintptr_t own_code = reinterpret_cast<uintptr_t>(&foreign_cann);
    unsigned long long loaded = 0;  // how many objects were ever loaded
    std::string own;
    std::vector<std::string> suspects;
};

bool has_cann_name(const char* path) {
    const char* const slash = std::strrchr(path, '/');
    const char* const file = slash != nullptr ? slash + 1 : path;
    for (const char* name : {"libascendcl.so", "libacl_rt.so", "libnnopbase.so"})
        if (std::strncmp(file, name, std::strlen(name)) == 0) return true;
    return false;
}

bool holds(const dl_phdr_info& object, uintptr_t address) {
    for (int i = 0; i < object.dlpi_phnum; ++i) {
        const auto& segment = object.dlpi_phdr[i];
        const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz) return true;
    }
    return false;
}

int visit(dl_phdr_info* object, size_t, void* argument) {
    auto& search = *static_cast<Search*>(argument);
    search.loaded = object->dlpi_adds;
    if (holds(*object, search.own_code))
        search.own = object->dlpi_name;
    else if (has_cann_name(object->dlpi_name))
        search.suspects.emplace_back(object->dlpi_name);
    return 0;
}

int count_loaded(dl_phdr_info* object, size_t, void* argument) {
    *static_cast<unsigned long long*>(argument) = object->dlpi_adds;
    return 1;
}

std::string real_folder(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
    const std::string whole = real ? real.get() : path;
    return whole.substr(0, whole.rfind('/') + 1);
}

}  // namespace

bool foreign_cann(std::string& path) {
    // aclrtSetDevice may be called a thousand times a second; look only when something was loaded since
    static std::atomic<unsigned long long> clean_at{0};
    unsigned long long loaded = 0;
    dl_iterate_phdr(count_loaded, &loaded);
    if (loaded != 0 && loaded == clean_at) return false;
    Search search;
    dl_iterate_phdr(visit, &search);
    for (const std::string& suspect : search.suspects)
        if (real_folder(suspect) != real_folder(search.own)) return path = suspect, true;  // stubs lie beside us
    clean_at = search.loaded;
    return false;
}

Status check_no_foreign_cann() {
    std::string path;
    if (!foreign_cann(path)) return {};
    return {ACL_ERROR_INTERNAL_ERROR,
            concat("a CANN library is loaded in this process (", path,
                   "); Gradus stands in for CANN and cannot share a process with it: start with one of the two only")};
}

}  // namespace gradus
