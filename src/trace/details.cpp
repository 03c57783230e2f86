#include "trace/details.h"

#include <algorithm>
#include <cstring>

namespace gradus::trace {
namespace {

// Those of an operator, without its workspace. What a copy moves is in its bytes.
std::span<const Access> operands_of(const TaskInfo& task) {
    if (task.kind != TaskKind::launch) return {};
    std::span<const Access> all = task.accesses;
    const bool last = task.workspace > 0 && !all.empty() && std::strcmp(all.back().argument, "workspace") == 0;
    return all.first(all.size() - (last ? 1 : 0));
}

bool same(const Detail& detail, const TaskInfo& task, std::span<const Access> operands) {
    const auto equal = [](const Operand& a, const Access& b) {
        return a.name == b.argument && a.dtype == b.view.dtype && a.rank == b.view.rank && a.writes == b.writes &&
               std::equal(a.size, a.size + a.rank, b.view.size.begin());
    };
    return detail.path == task.path && detail.why == task.why && detail.workspace == task.workspace &&
           std::equal(detail.operands.begin(), detail.operands.end(), operands.begin(), operands.end(), equal);
}

uint64_t hash(const TaskInfo& task, std::span<const Access> operands) {
    uint64_t h = 0;
    const auto mix = [&h](uint64_t value) { h = (h ^ value) * 0x9E3779B97F4A7C15U, h ^= h >> 29; };
    mix(reinterpret_cast<uintptr_t>(task.path));
    for (const Access& access : operands) {
        mix(reinterpret_cast<uintptr_t>(access.argument) + static_cast<uint64_t>(access.view.dtype));
        for (int i = 0; i < access.view.rank; ++i) mix(static_cast<uint64_t>(access.view.of(i)));
    }
    return h;
}

}  // namespace

template <typename T>
T* Details::take(size_t count) noexcept {
    const size_t bytes = (count * sizeof(T) + 15) / 16 * 16;
    if (bytes > memory_.size() - used_) return nullptr;
    auto* const at = reinterpret_cast<T*>(&memory_[used_]);
    used_ += bytes;
    return at;
}

const Detail* Details::keep(const TaskInfo& task, std::span<const Access> operands) noexcept {
    auto* const detail = take<Detail>(1);
    auto* const kept = take<Operand>(operands.size());
    if (detail == nullptr || kept == nullptr) return nullptr;
    for (size_t i = 0; i < operands.size(); ++i) {
        const Access& access = operands[i];
        auto* const size = take<int64_t>(static_cast<size_t>(access.view.rank));
        if (size == nullptr) return nullptr;
        std::copy_n(access.view.size.begin(), access.view.rank, size);
        kept[i] = {access.argument, size, access.view.rank, access.view.dtype, access.writes};
    }
    *detail = {task.path, task.why, task.workspace, {kept, operands.size()}};
    return detail;
}

uint32_t Details::number_of(const TaskInfo& task) noexcept {
    const bool known_kind = task.kind == TaskKind::launch || task.kind == TaskKind::copy;
    if (!known_kind || slots_.size() == 0 || memory_.size() == 0) return 0;
    const std::span<const Access> operands = operands_of(task);
    for (size_t at = hash(task, operands) % kSlots;; at = (at + 1) % kSlots) {
        if (const Detail* known = slots_[at].load(std::memory_order_relaxed)) {
            if (same(*known, task, operands)) return static_cast<uint32_t>(at) + 1;
            continue;
        }
        const Detail* const fresh = kept_ < kSlots / 2 ? keep(task, operands) : nullptr;
        if (fresh == nullptr) return 0;
        ++kept_;
        slots_[at].store(fresh, std::memory_order_release);
        return static_cast<uint32_t>(at) + 1;
    }
}

const Detail* Details::find(uint32_t number) const noexcept {
    return number == 0 ? nullptr : slots_[number - 1].load(std::memory_order_acquire);
}

}  // namespace gradus::trace
