#include "sanitize/stacks.h"

#include <cxxabi.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/symbols.h"

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

struct Walk {
    RawStack* stack;
    bool inside = true;      // still in the library
    uintptr_t wait_for = 0;  // skip until this frame
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
    if (before == 0) --pc;  // of the call, not of what comes after it
    if (own.holds(pc)) {    // below a callback lies the library again: what called it is chance
        if (walk.inside) return _URC_NO_REASON;
        return _URC_END_OF_STACK;
    }
    walk.inside = false;
    if (walk.stack->count == RawStack::kMost) return _URC_END_OF_STACK;
    walk.stack->pc[walk.stack->count++] = pc;
    return _URC_NO_REASON;
}

std::string readable(const char* name) {
    if (name == nullptr) return {};
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                            &std::free);
    std::string text = status == 0 && plain ? plain.get() : name;
    // without the arguments, which fill lines and say nothing here; other brackets are part of the name
    size_t at = text.rfind(')');
    if (at == std::string::npos) return text;
    for (int open = 1; open > 0 && at > 0;) {
        --at;
        open += text[at] == ')' ? 1 : text[at] == '(' ? -1 : 0;
    }
    if (at > 0) text.resize(at);
    return text;
}

void add_frame(void* to, const Place& place) {
    Frame frame{place.line > 0 ? place.file : "", readable(place.function), place.line};
    if (frame.file.empty() && frame.function.empty()) {
        frame.function = place.file;
        frame.function.erase(0, frame.function.rfind('/') + 1);
    }
    static_cast<std::vector<Frame>*>(to)->push_back(std::move(frame));
}

std::vector<Frame> resolve(uintptr_t pc) {
    std::vector<Frame> frames;  // several where functions were inlined
    find_places(pc, add_frame, &frames);
    if (frames.empty()) frames.push_back({"", "?", 0});
    return frames;
}

}  // namespace

void capture(RawStack& stack) noexcept {
    stack.count = 0;
    Walk walk{&stack};
    _Unwind_Backtrace(step, &walk);
}

void capture_from(uintptr_t interrupted, RawStack& stack) noexcept {
    stack.count = 0;
    Walk walk{&stack, false, interrupted};
    _Unwind_Backtrace(step, &walk);
    if (stack.count > 0) return;
    stack.pc[0] = interrupted;  // the unwinder did not get past the signal
    stack.count = 1;
}

Site Stacks::keep(const RawStack& stack) {
    if (stack.count == 0) return 0;
    std::vector<uintptr_t> pc(stack.pc.begin(), stack.pc.begin() + stack.count);
    const auto [it, fresh] = known_.try_emplace(pc, static_cast<Site>(kept_.size() + 1));
    if (fresh) kept_.push_back({std::move(pc), {}, false});
    return it->second;
}

const std::vector<Frame>& Stacks::frames(Site site) {
    if (site == 0) return none_;
    Kept& kept = kept_[site - 1];
    if (kept.resolved) return kept.frames;
    kept.resolved = true;
    for (const uintptr_t pc : kept.pc) {
        const auto [it, fresh] = resolved_.try_emplace(pc);
        if (fresh) it->second = resolve(pc);
        const std::string& function = it->second.back().function;
        if (function == "__libc_start_call_main" || function == "start_thread") break;  // below the program
        kept.frames.insert(kept.frames.end(), it->second.begin(), it->second.end());
        if (kept.frames.back().function == "main") break;
    }
    return kept.frames;
}

std::string place(const Frame& frame) {
    if (frame.file.empty()) return frame.function;
    return frame.file.substr(frame.file.rfind('/') + 1) + ":" + std::to_string(frame.line);
}

std::string stack_text(const std::vector<Frame>& frames) {
    std::string text;
    for (const Frame& frame : frames) {
        if (!text.empty()) text += ", ";
        text += place(frame);
        if (!frame.file.empty() && !frame.function.empty()) text += " " + frame.function;
    }
    return text.empty() ? "somewhere unknown" : text;
}

}  // namespace gradus::sanitize
