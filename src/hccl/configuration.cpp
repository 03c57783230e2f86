// HcclCommConfig, of any release.
#include <cstring>

#include "hccl/api.h"

namespace gradus::hccl {
namespace {

// Programs are compiled with shorter and longer ones: a field is there where it lies inside the size that they say, and
// their version has it.
class Configuration {
  public:
    explicit Configuration(const HcclCommConfig& config) : bytes_(reinterpret_cast<const char*>(&config)) {
        std::memcpy(&size_, bytes_, sizeof size_);
        std::memcpy(&magic_, bytes_ + 8, sizeof magic_);
        std::memcpy(&version_, bytes_ + 12, sizeof version_);
    }
    bool prepared() const {
        return magic_ == HCCL_COMM_CONFIG_MAGIC_WORD && version_ > 0 && size_ >= HCCL_COMM_CONFIG_INFO_BYTES &&
               size_ <= 1 << 16;
    }
    template <typename T>
    void read(size_t offset, uint32_t since, T& field) const {
        if (version_ >= since && size_ >= offset + sizeof field) std::memcpy(&field, bytes_ + offset, sizeof field);
    }

  private:
    const char* bytes_;
    uint64_t size_ = 0;
    uint32_t magic_ = 0, version_ = 0;
};

}  // namespace

Result<Wishes> read_wishes(const HcclCommConfig* config) {
    Wishes wishes;
    if (config == nullptr) return wishes;
    const Configuration fields(*config);
    if (!fields.prepared()) return Status(HCCL_E_PARA, "config: was not prepared by HcclCommConfigInit");
    uint32_t deterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
    fields.read(offsetof(HcclCommConfig, hcclDeterministic), 1, deterministic);
    if (deterministic > 2 && deterministic != HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET)
        return Status(HCCL_E_PARA, concat("config: hcclDeterministic is ", deterministic, ", expected 0, 1 or 2"));
    char name[COMM_NAME_MAX_LENGTH] = {};
    fields.read(offsetof(HcclCommConfig, hcclCommName), 2, name);
    const size_t length = strnlen(name, sizeof name);
    if (length == sizeof name)
        return Status(HCCL_E_PARA, concat("config: hcclCommName has no end, expected at most ",
                                          COMM_NAME_MAX_LENGTH - 1, " characters"));
    wishes.name.assign(name, length);
    fields.read(offsetof(HcclCommConfig, hcclExecTimeOut), 8, wishes.exec_timeout_s);
    if (wishes.exec_timeout_s < -1)
        return Status(HCCL_E_PARA, concat("config: hcclExecTimeOut is ", wishes.exec_timeout_s,
                                          ", expected seconds, 0 (never) or -1 (as HCCL_EXEC_TIMEOUT says)"));
    return wishes;
}

}  // namespace gradus::hccl
