// The stack of the calling thread, by the unwinder or by what it found before.
#include <link.h>
#include <unwind.h>

#include <algorithm>

#include "sanitize/stacks.h"

namespace gradus::sanitize {
namespace {

// Where this library lies. Found at load: asking the dynamic linker takes its lock, which a fork may leave taken.
struct Image {
    uintptr_t begin = UINTPTR_MAX, end = 0;
    bool holds(uintptr_t pc) const { return pc >= begin && pc < end; }
};

int look(dl_phdr_info* info, size_t, void* out) {
    Image image;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD) continue;
        image.begin = std::min<uintptr_t>(image.begin, info->dlpi_addr + part.p_vaddr);
        image.end = std::max<uintptr_t>(image.end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
    }
    if (!image.holds(reinterpret_cast<uintptr_t>(&look))) return 0;
    *static_cast<Image*>(out) = image;
    return 1;
}

const Image own = [] {
    Image image;
    dl_iterate_phdr(look, &image);
    return image;
}();

// A stack that was walked before. The unwinder takes microseconds, and programs call from the same places again: a
// frame's size follows from its place in the code, so where the first return address lies at the same place and all of
// them are what they were, so is the stack.
struct Known {
    const void *site = nullptr, *frame = nullptr;  // where the call returns to, and how deep it is
    Site kept = 0;
    size_t count = 0;  // frames; there may be one more return address, into this library
    size_t checks = 0;
    struct Return {
        const uintptr_t* at;
        uintptr_t to;
    };
    std::array<Return, RawStack::kMost + 1> returns{};

    bool is(const void* other_site, const void* other_frame) const {
        if (checks == 0 || site != other_site || frame != other_frame) return false;
        for (size_t i = 0; i < checks; ++i)  // outwards: each is there only if those before it are
            if (*returns[i].at != returns[i].to) return false;
        return true;
    }
    bool add(_Unwind_Context* context, uintptr_t pc) {
#if defined(__x86_64__)
        const auto* const at = reinterpret_cast<const uintptr_t*>(_Unwind_GetCFA(context)) - 1;  // NOLINT: a stack
        if (*at != pc) return false;
        returns[checks++] = {at, pc};
        return true;
#else
        static_cast<void>(context), static_cast<void>(pc);
        return false;  // elsewhere the unwinder does not tell where it found the return address
#endif
    }
};

// Of each thread: sets of a few that share a number, because a loop that calls from two places must not unwind both
// each time.
struct KnownSet {
    std::array<Known, 4> ways;
    unsigned oldest = 0;
};
constexpr size_t kSets = 16;
constinit thread_local std::array<KnownSet, kSets> known{};

KnownSet& set_of(const void* site, const void* frame) {
    const auto place = reinterpret_cast<uintptr_t>(site) ^ reinterpret_cast<uintptr_t>(frame) >> 4;
    return known[(place * 0x9e3779b97f4a7c15 >> 32) % kSets];
}

struct Walk {
    RawStack* stack;
    bool inside = true;      // still in the library
    uintptr_t wait_for = 0;  // skip until this frame
    Known* known = nullptr;  // to be filled in; nullptr: what was met cannot be recognised
};

_Unwind_Reason_Code step(_Unwind_Context* context, void* argument) {
    auto& walk = *static_cast<Walk*>(argument);
    int before = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    if (pc == 0) return _URC_NO_REASON;
    if (walk.wait_for != 0) {
        if (pc != walk.wait_for) return _URC_NO_REASON;
        walk.wait_for = 0;
        walk.inside = false;
    }
    const uintptr_t back = pc;
    if (before == 0) --pc;  // of the call, not of what comes after it
    if (walk.inside && own.holds(pc)) return _URC_NO_REASON;
    walk.inside = false;
    if (walk.stack->count == RawStack::kMost) return _URC_END_OF_STACK;
    if (walk.known != nullptr && (before != 0 || !walk.known->add(context, back))) walk.known = nullptr;
    if (own.holds(pc)) return _URC_END_OF_STACK;  // below a callback lies the library again: what called it is chance
    walk.stack->pc[walk.stack->count++] = pc;
    return _URC_NO_REASON;
}

}  // namespace

Site capture(RawStack& stack, const void* site) noexcept {
    const void* const frame = stack.frame = __builtin_frame_address(0);
    KnownSet& set = set_of(site, frame);
    for (const Known& here : set.ways)
        if (here.is(site, frame)) {
            stack.count = here.count;
            for (size_t i = 0; i < here.count; ++i) stack.pc[i] = here.returns[i].to - 1;
            return here.kept;
        }
    Known& here = set.ways[set.oldest++ % set.ways.size()];
    here.site = site;
    here.frame = frame;
    here.kept = 0;
    here.checks = 0;
    stack.count = 0;
    Walk walk{.stack = &stack, .known = &here};
    _Unwind_Backtrace(step, &walk);
    here.count = stack.count;
    if (walk.known == nullptr || here.returns[0].to != reinterpret_cast<uintptr_t>(site)) here.checks = 0;
    return 0;
}

void remember(const RawStack& stack, const void* site, Site kept) noexcept {
    for (Known& here : set_of(site, stack.frame).ways)
        if (here.is(site, stack.frame)) here.kept = kept;
}

void capture_from(uintptr_t interrupted, RawStack& stack) noexcept {
    stack.count = 0;
    Walk walk{.stack = &stack, .inside = false, .wait_for = interrupted};
    _Unwind_Backtrace(step, &walk);
    if (stack.count > 0) return;
    stack.pc[0] = interrupted;  // the unwinder did not get past the signal
    stack.count = 1;
}

}  // namespace gradus::sanitize
