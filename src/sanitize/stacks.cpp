#include "sanitize/stacks.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "base/symbols.h"

namespace gradus::sanitize {
namespace {

std::string readable(const char* name) {
    if (name == nullptr) return {};
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                            &std::free);
    if (status != 0 || !plain) return name;  // no arguments in it: main, or a lambda's operator()
    std::string text = plain.get();
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

size_t RawStack::Hash::operator()(const RawStack& stack) const noexcept {
    size_t hash = stack.count;
    for (size_t i = 0; i < stack.count; ++i) hash = (hash ^ stack.pc[i]) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
}

Site Stacks::keep(const RawStack& stack) {
    if (stack.count == 0) return 0;
    const auto [it, fresh] = known_.try_emplace(stack, static_cast<Site>(kept_.size() + 1));
    if (fresh) kept_.push_back({it->first, {}, false});
    return it->second;
}

const std::vector<Frame>& Stacks::frames(Site site) {
    if (site == 0) return none_;
    Kept& kept = kept_[site - 1];
    if (kept.resolved) return kept.frames;
    kept.resolved = true;
    for (size_t i = 0; i < kept.stack.count; ++i) {
        const uintptr_t pc = kept.stack.pc[i];
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
