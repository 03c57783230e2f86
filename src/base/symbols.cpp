#include "base/symbols.h"

#include <dlfcn.h>

#include <atomic>
#include <charconv>
#include <cstring>

#ifdef GRADUS_BACKTRACE
#include <backtrace.h>
#endif

namespace gradus {
namespace {

std::string_view file_name(const char* path) {
    const char* const slash = std::strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

void append_offset(Text& text, uintptr_t offset) {
    char digits[20];
    append(text, "+0x", std::string_view(digits, std::to_chars(digits, digits + sizeof digits, offset, 16).ptr));
}

// What the loader knows: an exported function, or the file.
Text from_loader(const void* address) {
    Text text;
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return text;
    const void* const base = info.dli_sname != nullptr ? info.dli_saddr : info.dli_fbase;
    append(text, info.dli_sname != nullptr ? info.dli_sname : file_name(info.dli_fname));
    append_offset(text, reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(base));
    return text;
}

#ifdef GRADUS_BACKTRACE
// Made by the first who asks; a second one that lost the race stays unused.
constinit std::atomic<backtrace_state*> known_state = nullptr;

backtrace_state* state() {
    backtrace_state* state = known_state.load(std::memory_order_acquire);
    if (state != nullptr) return state;
    backtrace_state* const made = backtrace_create_state(
        nullptr, 1, [](void*, const char*, int) {}, nullptr);
    return known_state.compare_exchange_strong(state, made) ? made : state;
}

Text from_debug_information(const void* address) {
    Text text;
    backtrace_state* const symbols = state();
    if (symbols == nullptr) return text;
    const auto frame = [](void* into, uintptr_t, const char* file, int line, const char* function) {
        Text& places = *static_cast<Text*>(into);
        if (file == nullptr) return 0;
        append(places, places.empty() ? "" : ", ", file_name(file), ":", line);
        if (function != nullptr) append(places, " ", function);
        return 0;
    };
    const auto ignore = [](void*, const char*, int) {};
    const uintptr_t call = reinterpret_cast<uintptr_t>(address) - 1;  // the call is before where it returns to
    backtrace_pcinfo(symbols, call, frame, ignore, &text);
    if (!text.empty()) return text;
    const auto symbol = [](void* into, uintptr_t pc, const char* name, uintptr_t value, uintptr_t) {
        if (name == nullptr) return;
        append(*static_cast<Text*>(into), name);
        append_offset(*static_cast<Text*>(into), pc - value);
    };
    backtrace_syminfo(symbols, call, symbol, ignore, &text);
    return text;
}
#else
Text from_debug_information(const void*) { return {}; }
#endif

}  // namespace

Text place_of(const void* return_address) noexcept {
    if (return_address == nullptr) return {};
    Text text = from_debug_information(return_address);
    return text.empty() ? from_loader(return_address) : text;
}

}  // namespace gradus
