// Live handles. A handle is a number that is never used twice and never an address, so that a stale, foreign or
// mistaken one (an event for a stream, a variable's address for its value) is simply not found.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "base/observer.h"

namespace gradus {

enum class HandleKind : uint64_t {
    context = 1,
    stream,
    event,
    tensor,
    scalar,
    int_array,
    float_array,
    bool_array,
    tensor_list,
    scalar_list,
    executor,
    data_buffer,
    communicator
};

template <typename T, HandleKind kKind>
class Registry {
    using Objects = std::unordered_map<uint64_t, std::shared_ptr<T>>;

  public:
    // The one registry of its kind.
    static Registry& instance() { return the_one_; }

    void* add(std::shared_ptr<T> object) {
        // its place is made without the lock: an object that finds none dies, and may want the lock for that
        Objects place;
        auto node = place.extract(place.emplace(0, std::move(object)).first);
        const Lock lock = hold();
        node.key() = ++last_;
        objects_.insert(std::move(node));
        observe([this](Observer& o) { o.on_create(kKind, to_handle(last_)); });
        return to_handle(last_);
    }

    std::shared_ptr<T> find(const void* handle) const {
        const Lock lock = hold();
        const auto it = objects_.find(to_key(handle));
        if (it == objects_.end()) return tell_unknown(handle), nullptr;
        return it->second;
    }

    // Removes it: whoever still holds the object keeps it alive.
    std::shared_ptr<T> take(const void* handle) {
        const Lock lock = hold();
        const auto it = objects_.find(to_key(handle));
        if (it == objects_.end()) return tell_unknown(handle), nullptr;
        return take(it);
    }

    // The same for any one that fits; nullptr when none does.
    template <typename Fits>
    std::shared_ptr<T> take_if(const Fits& fits) {
        const Lock lock = hold();
        for (auto it = objects_.begin(); it != objects_.end(); ++it)
            if (fits(*it->second)) return take(it);
        return nullptr;
    }

    // The handle stands for another object from now on; false when it is not alive.
    bool replace(const void* handle, std::shared_ptr<T> object) {
        const Lock lock = hold();
        const auto it = objects_.find(to_key(handle));
        if (it == objects_.end()) return false;
        it->second.swap(object);
        return true;
    }

    std::vector<std::pair<void*, std::shared_ptr<T>>> entries() const {
        const Lock lock = hold();
        std::vector<std::pair<void*, std::shared_ptr<T>>> entries;
        entries.reserve(objects_.size());
        for (const auto& [key, object] : objects_) entries.emplace_back(to_handle(key), object);
        return entries;
    }

  private:
    // x86-64 and AArch64 have no user address with these top bits: dereferencing a handle faults at once.
    static constexpr uint64_t kTag = 0x5AULL << 56 | static_cast<uint64_t>(kKind) << 48;
    static constexpr int kAlign = 4;

    static void* to_handle(uint64_t key) { return reinterpret_cast<void*>(kTag | key << kAlign); }  // NOLINT
    static uint64_t to_key(const void* handle) {
        const uint64_t bits = reinterpret_cast<uintptr_t>(handle);
        return (bits & ~((1ULL << 48) - 1)) == kTag && bits % (1 << kAlign) == 0 ? (bits ^ kTag) >> kAlign : 0;
    }

    static void tell_unknown(const void* handle) {
        observe([handle](Observer& o) { o.on_unknown(kKind, handle); });
    }
    std::shared_ptr<T> take(typename Objects::iterator it) {
        std::shared_ptr<T> object = std::move(it->second);
        observe([it](Observer& o) { o.on_destroy(kKind, to_handle(it->first)); });
        objects_.erase(it);
        return object;
    }

    Objects objects_;
    uint64_t last_ = 0;

    static Registry& the_one_;
};

// Made at load; never destroyed, because streams may still work while the process exits.
template <typename T, HandleKind kKind>
Registry<T, kKind>& Registry<T, kKind>::the_one_ = *new Registry;

static_assert(sizeof(void*) == 8, "handles need 64 bits");

}  // namespace gradus
