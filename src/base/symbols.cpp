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

bool from_debug_information(uintptr_t pc, TakePlace take, void* to) {
    backtrace_state* const symbols = state();
    if (symbols == nullptr) return false;
    struct Taker {
        TakePlace take;
        void* to;
        bool found;
    } taker{take, to, false};
    const auto ignore = [](void*, const char*, int) {};
    const auto line = [](void* into, uintptr_t, const char* file, int number, const char* function) {
        if (file == nullptr) return 0;
        auto& [take_it, its, found] = *static_cast<Taker*>(into);
        take_it(its, {file, number, function, 0});
        found = true;
        return 0;
    };
    backtrace_pcinfo(symbols, pc, line, ignore, &taker);
    if (taker.found) return true;
    const auto symbol = [](void* into, uintptr_t at, const char* name, uintptr_t begin, uintptr_t) {
        if (name == nullptr) return;
        auto& [take_it, its, found] = *static_cast<Taker*>(into);
        take_it(its, {nullptr, 0, name, at - begin});
        found = true;
    };
    backtrace_syminfo(symbols, pc, symbol, ignore, &taker);
    return taker.found;
}
#else
bool from_debug_information(uintptr_t, TakePlace, void*) { return false; }
#endif

std::string_view file_name(const char* path) {
    const char* const slash = std::strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

void append_place(void* to, const Place& place) {
    Text& text = *static_cast<Text*>(to);
    append(text, text.empty() ? "" : ", ");
    if (place.line > 0) {
        append(text, file_name(place.file), ":", place.line);
        if (place.function != nullptr) append(text, " ", place.function);
        return;
    }
    char digits[20];
    append(text, place.function != nullptr ? place.function : file_name(place.file), "+0x",
           std::string_view(digits, std::to_chars(digits, digits + sizeof digits, place.offset, 16).ptr));
}

}  // namespace

void find_places(uintptr_t pc, TakePlace take, void* to) noexcept {
    if (from_debug_information(pc, take, to)) return;
    // what the loader knows: an exported function, or the file
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(pc), &info) == 0 || info.dli_fname == nullptr) return;  // NOLINT
    const void* const base = info.dli_sname != nullptr ? info.dli_saddr : info.dli_fbase;
    take(to, {info.dli_fname, 0, info.dli_sname, pc - reinterpret_cast<uintptr_t>(base)});
}

Text place_of(const void* return_address) noexcept {
    Text text;
    // the call is before where it returns to
    if (return_address != nullptr) find_places(reinterpret_cast<uintptr_t>(return_address) - 1, append_place, &text);
    return text;
}

}  // namespace gradus
