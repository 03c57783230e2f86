// The host's own hands on memory: device memory, which it may not touch at all, and pinned memory with a copy in
// flight. The program's addresses of such pages are closed, the library works in its own mapping of them, and a fault
// tells who touched what; then the page is opened and the program goes on.
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>

#include "base/lock.h"
#include "runtime/memory.h"
#include "sanitize/here.h"
#include "sanitize/install.h"
#include "sanitize/teller.h"

namespace gradus::sanitize {
namespace {

// 4 KiB everywhere but on some AArch64; asking is allowed to a handler of signals.
size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

constinit struct sigaction next_handler {};  // the program's, or what was there before; behind the process lock

#if defined(__aarch64__)
// Whether a load or store is a store, by its classes: bits 29 to 27.
bool is_store(uint32_t instruction) {
    const auto bits = [=](int low, uint32_t mask) { return instruction >> low & mask; };
    if ((instruction & 0xFFFFFFE0) == 0xD50B7420) return true;  // DC ZVA, of which memset is made
    constexpr uint32_t kExclusiveOrStructure = 1, kPair = 5, kRegister = 7;
    if (bits(27, 7) == kExclusiveOrStructure || bits(27, 7) == kPair) return bits(22, 1) == 0;
    if (bits(27, 7) != kRegister) return false;
    const bool simd = bits(26, 1) != 0, atomic = !simd && bits(21, 1) != 0 && bits(10, 3) == 0;
    return atomic || bits(22, 3) == 0 || (simd && bits(22, 3) == 2);
}
#endif

bool is_write(const ucontext_t& context) {
#if defined(__x86_64__)
    return (context.uc_mcontext.gregs[REG_ERR] & 2) != 0;
#elif defined(__aarch64__)
    // the records behind the registers end with one of size 0
    const auto* head = reinterpret_cast<const _aarch64_ctx*>(context.uc_mcontext.__reserved);
    while (head->size != 0 && head->magic != ESR_MAGIC)
        head = reinterpret_cast<const _aarch64_ctx*>(reinterpret_cast<const char*>(head) + head->size);
    if (head->size != 0) return (reinterpret_cast<const esr_context*>(head)->esr >> 6 & 1) != 0;
    return is_store(*reinterpret_cast<const uint32_t*>(context.uc_mcontext.pc));  // qemu-user leaves the record out
#else
    return false;
#endif
}

uintptr_t interrupted_at(const ucontext_t& context) {
#if defined(__x86_64__)
    return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return context.uc_mcontext.pc;
#else
    return 0;
#endif
}

void pass_on(int signal, siginfo_t* info, void* context) {
    if ((next_handler.sa_flags & SA_SIGINFO) != 0 && next_handler.sa_sigaction != nullptr)
        return next_handler.sa_sigaction(signal, info, context);
    const bool sent = info->si_code <= 0;  // by raise or kill: no instruction faults again
    if (next_handler.sa_handler == SIG_IGN && sent) return;
    if (next_handler.sa_handler != SIG_DFL && next_handler.sa_handler != SIG_IGN)
        return next_handler.sa_handler(signal);
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, nullptr);
    if (sent) raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* given) {
    const auto& context = *static_cast<ucontext_t*>(given);
    const bool ours = info->si_code == SEGV_ACCERR &&
                      the_sanitizer()->on_touch(info->si_addr, is_write(context), interrupted_at(context));
    if (!ours) pass_on(signal, info, given);
}

}  // namespace

// A program may bring its own handler at any time, which then comes after ours.
void Sanitizer::watch_signals() {
    if (!options_.memcheck) return;
    struct sigaction now {};
    if (sigaction(SIGSEGV, nullptr, &now) != 0) return;
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) return;
    next_handler = now;
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &ours, nullptr);
}

// Asking the kernel takes half a microsecond, a quarter of a tiny call: at some of the calls, and, while a program
// begins, at those after which it looks at results.
void Sanitizer::look_at_handlers(const char* function, unsigned calls_before) {
    constexpr unsigned kEvery = 16, kBeginning = 1000;
    const bool beginning = calls_before < kBeginning && std::string_view(function).starts_with("aclrtSynchronize");
    if (calls_before % kEvery != kEvery - 1 && !beginning) return;
    const Lock lock = hold();
    watch_signals();
}

// In the handler, which may have a few KiB of stack only: what is found is left for tell_touches.
bool Sanitizer::on_touch(const void* address, bool write, uintptr_t interrupted) {
    Lock lock(process_lock(), std::defer_lock);
    for (int tries = 0; !lock.try_lock(); ++tries) {
        if (tries > 1000) return false;  // the thread that faults may hold it itself
        usleep(1000);
    }
    Memory* const live = shadow_.find(address);
    const bool freed = live == nullptr;
    const Memory* const memory = freed ? shadow_.find_freed(address) : live;
    if (memory == nullptr || (freed && !is_quarantined(address))) return false;
    const size_t unit = page_size();
    auto* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) / unit * unit);  // NOLINT
    if (mprotect(page, unit, PROT_READ | PROT_WRITE) != 0) return false;
    if (!freed) live->written.add_all();  // what the host writes into open pages, nobody sees

    const bool inside = calls.inside();  // a call of the interface does it for the program
    if ((inside && findings_.reported != calls.innermost().findings) || touch_count_ == touches_.size()) return true;
    Touch& touch = touches_[touch_count_++];
    touch.address = static_cast<const std::byte*>(address);
    touch.allocation = memory->info.id;
    touch.write = write;
    touch.freed = freed;
    if (inside)
        touch.stack = calls.innermost().stack;
    else
        capture_from(interrupted, touch.stack);
    const bool pinned = !freed && memory->info.kind != MemoryKind::device;
    const Kept* const user = pinned ? order_.user_of(memory->info.id) : nullptr;
    touch.user = user != nullptr ? user->task : Asked{};
    touch.argument = user != nullptr ? user->access.argument : nullptr;
    touch.user_writes = user != nullptr && user->access.writes;
    some_touched_ = true;
    lock.unlock();
    wish_for_touches();
    return true;
}

void Sanitizer::tell_touches() {
    const Lock lock = hold();
    for (size_t i = 0; i < touch_count_; ++i) tell_touch(touches_[i]);
    touch_count_ = 0;
    some_touched_ = false;
}

void Sanitizer::tell_touch(const Touch& touch) {
    const Memory* memory = shadow_.by_id(touch.allocation);
    if (memory == nullptr) memory = shadow_.find_freed(touch.address);
    if (memory == nullptr) return;
    const auto offset = static_cast<size_t>(touch.address - memory->info.address);
    const bool device = memory->info.kind == MemoryKind::device;
    Finding finding{
        touch.freed ? "use-after-free"
        : device    ? "host-touches-device"
                    : "host-touches-inflight",
        Level::error,
        touch.write ? "write" : "read",
        {{std::string("the host ") + (touch.write ? "writes" : "reads") + " byte " + std::to_string(offset) + " of " +
              name(*memory) +
              (touch.freed ? ", which is freed"
               : device    ? ", which is device memory"
                           : ", which a copy in flight uses"),
          findings_.stacks.keep(touch.stack)}},
        device ? "aclrtMemcpy to host memory, and look at that" : "aclrtSynchronizeStream before the host touches it",
        {{"bytes", std::to_string(offset)}, {"access", touch.write ? "write" : "read"}}};
    if (touch.freed) finding.parts.push_back({std::string(memory->freed_by) + " freed it", memory->freed});
    if (touch.argument != nullptr) {
        finding.parts.push_back({std::string(touch.user.function) + ", copy " + std::to_string(touch.user.ticket) +
                                     " on stream " + std::to_string(touch.user.stream) +
                                     (touch.user_writes ? ", writes it" : ", reads it"),
                                 touch.user.site});
        finding.keys.emplace_back("argument", touch.argument);
    }
    finding.parts.push_back(part_of(*memory));
    report(finding);
}

// Pages of pinned memory whose every byte copies read are read only, those they write are closed, until the host knows
// of their end. A page that holds other bytes too stays open: they are the program's.
void Sanitizer::protect(const Kept& kept, bool in_flight) {
    const Memory* const memory = shadow_.by_id(kept.allocation);
    if (memory == nullptr || !options_.memcheck) return;
    std::vector<InFlight>& list = in_flight_[kept.allocation];
    if (in_flight) {
        for (const Shadow::Run& run : Shadow::runs(kept.access, *memory, 1024))
            list.push_back({kept.task.ticket, run.begin, run.end, kept.access.writes});
    } else {
        std::erase_if(list, [&](const InFlight& one) { return one.ticket == kept.task.ticket; });
    }
    apply_protection(*memory);
    if (list.empty()) in_flight_.erase(kept.allocation);
}

void Sanitizer::apply_protection(const Memory& memory) const {
    auto* const base = const_cast<std::byte*>(memory.info.address);  // NOLINT: its pages change, not its bytes
    const size_t unit = page_size();
    mprotect(base, memory.info.footprint, PROT_READ | PROT_WRITE);
    const auto it = in_flight_.find(memory.info.id);
    if (it == in_flight_.end()) return;
    for (const bool closed : {false, true}) {
        Ranges used;  // several copies may fill a page together; one that some of them read is read only
        for (const InFlight& one : it->second)
            if (one.writes || !closed) used.add(one.begin, one.end);
        for (const auto& [first, last] : used.list()) {
            const size_t begin = (first + unit - 1) / unit * unit;
            const size_t end = last >= memory.info.size ? memory.info.footprint : last / unit * unit;
            if (begin < end) mprotect(base + begin, end - begin, closed ? PROT_NONE : PROT_READ);
        }
    }
}

}  // namespace gradus::sanitize
