#include "trace/install.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/config.h"
#include "base/last_words.h"
#include "base/lock.h"
#include "base/log.h"
#include "trace/paths.h"
#include "trace/recorder.h"
#include "trace/tables.h"

namespace gradus::trace {
namespace {

struct Tracer {
    Store store;
    Recorder recorder{store};
    Output output;
    FilePattern files;
    double memory_limit = 0;
    std::atomic<bool> writing = false;
    uint64_t written = 0;  // how much had been seen

    uint64_t seen() const {
        return store.calls.last() - store.calls.first() + store.tasks.last() - store.tasks.first() + 2 +
               store.calls.lost() + store.tasks.lost();
    }
    bool write_file(const char* path, void (*content)(Output&, const Scene&), const Scene& scene) noexcept;
    void write() noexcept;
};

constinit Tracer* tracer = nullptr;  // set at load; never destroyed, because the program may call until the very end

bool Tracer::write_file(const char* path, void (*content)(Output&, const Scene&), const Scene& scene) noexcept {
    bool written_whole = output.open(path);
    if (written_whole) {
        content(output, scene);
        written_whole = output.close();
    }
    if (!written_whole) log_line(concat("GRADUS_TRACE: cannot write '", path, "': ", std::strerror(errno)));
    return written_whole;
}

// From anywhere, a signal handler included: takes no lock and no memory but the system's.
void Tracer::write() noexcept {
    if (seen() == written || writing.exchange(true)) return;
    const int before = errno;
    written = seen();
    {
        Sites sites;
        const Snapshot snapshot(store);
        const auto process = static_cast<uint32_t>(getpid());
        const Scene scene{store, snapshot, sites, process, memory_limit};
        char path[PATH_MAX];
        if (files.timeline(process, path) && write_file(path, write_chrome, scene)) {
            if (files.table("op_summary_", process, path)) write_file(path, write_op_summary, scene);
            if (files.table("api_statistic_", process, path)) write_file(path, write_api_statistic, scene);
        }
    }
    errno = before;
    writing = false;
}

void write_now() { tracer->write(); }

[[maybe_unused]] const bool installed = [] {
    const char* const file = config_trace_file();
    if (file == nullptr) return false;
    auto* const made = new (std::nothrow) Tracer;
    if (made == nullptr || !made->store.open() || !made->files.set(file)) {
        log_line(concat("GRADUS_TRACE: cannot trace to '", file, "': ", std::strerror(errno)));
        return delete made, false;
    }
    made->memory_limit = config_trace_limit();
    tracer = made;
    after_fork_in_child([] {
        tracer->recorder.forget_all();
        tracer->files.set_child();
        tracer->written = tracer->seen();
        tracer->writing = false;
    });
    std::atexit(write_now);
    std::at_quick_exit(write_now);
    before_fatal_signals(write_now);
    install(tracer->recorder);
    return true;
}();

}  // namespace

void write_at_finalize() noexcept {
    if (tracer->seen() >= 2 * tracer->written) tracer->write();
}

}  // namespace gradus::trace
