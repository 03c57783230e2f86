#include <dlfcn.h>
#include <unistd.h>

#include <stdexcept>

#include "hccl/gloo_module.h"
#include "hccl/shared.h"

namespace gradus::hccl {
namespace {

// Beside this library, wherever that is, or in a folder there, where distributions keep what nobody links.
std::string module_path() {
    const char* const name = "libgradus_gloo.so";
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&module_path), &info) == 0) return name;
    std::string folder = info.dli_fname;
    folder.resize(folder.rfind('/') + 1);  // to nothing where there is none
    const std::string below = folder + "gradus/" + name;
    return access(below.c_str(), F_OK) == 0 ? below : folder + name;
}

}  // namespace

Result<std::unique_ptr<Transport>> open_gloo(Link& link, const std::string& ip, uint32_t rank, uint32_t ranks,
                                             Clock::time_point deadline) {
    void* const module = dlopen(module_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    auto* const open = module != nullptr ? reinterpret_cast<OpenGloo>(dlsym(module, kOpenGlooName)) : nullptr;
    if (open == nullptr) {
        const char* const why = dlerror();
        return Status(HCCL_E_NOT_SUPPORT,
                      concat("ranks on several machines need Gloo: install libgloo-dev (Debian) and build again; ",
                             why != nullptr ? why : "libgradus_gloo.so has no such function"));
    }
    const auto checked = [](const Status& status) {
        if (!status.ok()) throw std::runtime_error(status.message().c_str());
    };
    const auto proof = random_key();
    if (!proof.ok()) return proof.status();
    const GlooMeeting meeting{rank,
                              ranks,
                              ip,
                              deadline,
                              *proof,
                              [&](const std::string& key, const std::string& value) { checked(link.put(key, value)); },
                              [&](const std::string& key) {
                                  std::vector<std::string> values;
                                  checked(link.get({key}, values, deadline, "an address did not come: of rank "));
                                  return values[0];
                              },
                              [&link](uint32_t lost) { return link.why_lost(lost); }};
    try {
        return open(meeting);
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& error) {
        return Status(HCCL_E_TCP_CONNECT, concat("Gloo at ", ip, ": ", error.what()));
    }
}

}  // namespace gradus::hccl
