// Devices, contexts, and which context is current on a thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "acl/acl_rt.h"
#include "base/registry.h"
#include "base/status.h"
#include "runtime/stream.h"

namespace gradus {

constexpr int kSysParams = 3;
using SysParams = std::array<std::optional<int64_t>, kSysParams>;  // by aclSysParamOpt; behind the process lock

class Context {
  public:
    Context(int device, bool is_default) : device_(device), is_default_(is_default) {}

    int device() const { return device_; }
    bool is_default() const { return is_default_; }
    Result<std::shared_ptr<Stream>> default_stream(void* own_handle);  // made by the first who asks
    SysParams sys_params;

  private:
    const int device_;
    const bool is_default_;
    std::shared_ptr<Stream> stream_;
};

using Contexts = Registry<Context, HandleKind::context>;

struct CurrentContext {
    aclrtContext handle;
    std::shared_ptr<Context> context;
};
// 107002: the thread has none, or it was destroyed since.
Result<CurrentContext> current_context();

Status check_device(const char* argument, int64_t device);  // 107001
Status set_device(int32_t device);
Status reset_device(int32_t device, bool force);  // force: whatever the count
Result<aclrtContext> create_context(int32_t device);
Status destroy_context(aclrtContext handle);
Status set_current_context(aclrtContext handle);

// find_stream, for what the device does only on streams of the current context (107003); with limits off, on any.
Result<std::shared_ptr<Stream>> find_stream_here(aclrtStream handle);
void tell_elsewhere(const void* handle, Elsewhere how);  // where limits are on

Result<aclrtStream> create_stream();
Status destroy_stream(aclrtStream handle, bool force);
Status synchronize_context(int32_t timeout_ms);  // all streams of the current context

}  // namespace gradus
