// Callbacks of a stream: on the stream's own thread (host functions), or on a thread of the program that has subscribed
// and calls aclrtProcessReport.
#pragma once

#include <cstdint>

#include "acl/acl_rt.h"
#include "base/status.h"

namespace gradus {

class Stream;
using UserFunction = void (*)(void*);

Status launch_host_function(aclrtStream stream, UserFunction f, void* argument);

// `thread` is a pthread_self(). A stream reports to one thread at most; a thread may serve many streams.
Status subscribe_report(uint64_t thread, aclrtStream stream);
Status unsubscribe_report(uint64_t thread, aclrtStream stream);  // lets the stream go on if it waits for a callback
Status launch_callback(aclrtStream stream, UserFunction f, void* argument, bool blocks);
Status process_report(int32_t timeout_ms);  // runs what is due on the calling thread

void forget_subscription(const Stream& stream);  // it is being destroyed; callbacks that are due stay due

}  // namespace gradus
