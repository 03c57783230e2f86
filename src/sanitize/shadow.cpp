#include "sanitize/shadow.h"

#include <algorithm>

namespace gradus::sanitize {

void Ranges::add(size_t begin, size_t end) {
    if (begin >= end || all_) return;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second >= begin) --it;
    while (it != ranges_.end() && it->first <= end) {
        begin = std::min(begin, it->first);
        end = std::max(end, it->second);
        it = ranges_.erase(it);
    }
    ranges_[begin] = end;
    if (ranges_.size() > kMost) {
        all_ = true;
        ranges_.clear();
    }
}

void Ranges::remove(size_t begin, size_t end) {
    if (begin >= end || all_) return;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second > begin) --it;
    while (it != ranges_.end() && it->first < end) {
        const auto [from, to] = *it;
        it = ranges_.erase(it);
        if (from < begin) ranges_[from] = begin;
        if (to > end) ranges_[end] = to;
    }
}

std::optional<std::pair<size_t, size_t>> Ranges::first_gap(size_t begin, size_t end) const {
    if (all_) return std::nullopt;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second > begin) begin = std::prev(it)->second;
    if (begin >= end) return std::nullopt;
    return std::pair(begin, it == ranges_.end() ? end : std::min(end, it->first));
}

Memory& Shadow::allocate(const AllocationInfo& info, Site site, const char* function) {
    Memory& memory = live_[info.address];
    memory = {.info = info, .allocated = site, .allocated_by = function, .since = moment()};
    by_id_[info.id] = &memory;
    return memory;
}

Memory* Shadow::release(uint64_t allocation, Site site, const char* function) {
    const auto it = by_id_.find(allocation);
    if (it == by_id_.end()) return nullptr;
    Memory& memory = *it->second;
    const uint64_t now = moment();
    Memory& freed = freed_[now];
    freed = std::move(memory);
    freed.written = {};
    freed.seen = {};
    freed.freed = site;
    freed.freed_by = function;
    freed.until = now;
    live_.erase(freed.info.address);
    by_id_.erase(it);
    cover(freed.info.address, freed.info.address + freed.info.footprint, now);
    if (freed_.size() > kFreedMost) forget_oldest();
    return &freed;
}

// What was freed there before, as far as it lies under the new part, is not found any more.
void Shadow::cover(const std::byte* begin, const std::byte* end, uint64_t moment) {
    auto it = freed_at_.upper_bound(begin);
    if (it != freed_at_.begin() && std::prev(it)->second.end > begin) --it;
    while (it != freed_at_.end() && it->first < end) {
        const auto [from, part] = *it;
        it = freed_at_.erase(it);
        if (from < begin) freed_at_[from] = {begin, part.moment};
        if (part.end > end) freed_at_[end] = part;
    }
    freed_at_[begin] = {end, moment};
}

void Shadow::forget_oldest() {
    const auto& [moment, oldest] = *freed_.begin();
    const std::byte* const end = oldest.info.address + oldest.info.footprint;
    for (auto it = freed_at_.lower_bound(oldest.info.address); it != freed_at_.end() && it->first < end;)
        it = it->second.moment == moment ? freed_at_.erase(it) : std::next(it);
    freed_.erase(freed_.begin());
}

Memory* Shadow::find(const void* address) {
    auto it = live_.upper_bound(static_cast<const std::byte*>(address));
    if (it == live_.begin()) return nullptr;
    Memory& memory = std::prev(it)->second;
    return address < memory.info.address + memory.info.footprint ? &memory : nullptr;
}

const Memory* Shadow::find_freed(const void* address) const {
    const auto it = freed_at_.upper_bound(static_cast<const std::byte*>(address));
    if (it == freed_at_.begin() || std::prev(it)->second.end <= address) return nullptr;
    return &freed_.at(std::prev(it)->second.moment);
}

Memory* Shadow::by_id(uint64_t id) {
    const auto it = by_id_.find(id);
    return it == by_id_.end() ? nullptr : it->second;
}

std::vector<Shadow::Run> Shadow::runs(const Access& access, const Memory& memory, size_t most) {
    const TensorView& view = access.view;
    if (view.empty()) return {};
    const int64_t item = dtype_size(view.dtype);
    int64_t length = item;  // of what lies together: the innermost dims without gaps
    int inner = view.rank;
    while (inner > 0 && (view.of(inner - 1) == 1 || view.step(inner - 1) * item == length)) length *= view.of(--inner);
    size_t count = 1;
    for (int d = 0; d < inner; ++d)
        if (__builtin_mul_overflow(count, static_cast<size_t>(view.of(d)), &count) || count > most) return {};
    const int64_t base = access.address - memory.info.address + view.offset * item;
    std::vector<Run> runs;
    runs.reserve(count);
    std::array<int64_t, kMaxRank> index{};
    for (size_t n = 0; n < count; ++n) {
        int64_t at = base;
        for (int d = 0; d < inner; ++d) at += index[static_cast<size_t>(d)] * view.step(d) * item;
        runs.push_back({static_cast<size_t>(at), static_cast<size_t>(at + length)});
        for (int d = inner - 1; d >= 0 && ++index[static_cast<size_t>(d)] == view.of(d); --d)
            index[static_cast<size_t>(d)] = 0;
    }
    return runs;
}

// Without a look at its gaps: true is certain.
bool Shadow::all_written(const Access& access, const Memory& memory) {
    if (access.view.empty()) return true;
    const TensorView::Extent extent = access.view.extent();
    const int64_t base = access.address - memory.info.address;
    if (!memory.written.first_gap(static_cast<size_t>(base + extent.begin), static_cast<size_t>(base + extent.end)))
        return true;
    return std::any_of(memory.seen.begin(), memory.seen.end(), [&](const Memory::Seen& seen) {
        return seen.address == access.address && seen.view == access.view;
    });
}

void Shadow::remember_written(const Access& access, Memory& memory) {
    if (memory.seen.size() == Memory::kSeenMost) memory.seen.erase(memory.seen.begin());
    memory.seen.push_back({access.address, access.view});
}

void Shadow::write(const Access& access, Memory& memory) {
    if (all_written(access, memory)) return;
    const std::vector<Run> list = runs(access, memory, Ranges::kMost);
    if (list.empty()) {  // too many to tell apart: all between counts as written
        const TensorView::Extent extent = access.view.extent();
        const int64_t base = access.address - memory.info.address;
        memory.written.add(static_cast<size_t>(base + extent.begin), static_cast<size_t>(base + extent.end));
    }
    for (const Run& run : list) memory.written.add(run.begin, run.end);
    if (list.size() > 1) remember_written(access, memory);
}

std::optional<std::pair<size_t, size_t>> Shadow::unwritten(const Access& access, Memory& memory) const {
    if (all_written(access, memory)) return std::nullopt;
    const std::vector<Run> list = runs(access, memory, Ranges::kMost);
    for (const Run& run : list)
        if (const auto gap = memory.written.first_gap(run.begin, run.end)) return gap;
    if (!list.empty()) remember_written(access, memory);
    return std::nullopt;
}

bool Shadow::some_written(const Access& access, const Memory& memory) {
    const TensorView::Extent extent = access.view.extent();
    const int64_t base = access.address - memory.info.address;
    const std::pair whole(static_cast<size_t>(base + extent.begin), static_cast<size_t>(base + extent.end));
    return memory.written.first_gap(whole.first, whole.second) != whole;
}

void Shadow::carry_over(const Access& from, const Memory& source, const Access& to, Memory& target) {
    write(to, target);
    if (all_written(from, source)) return;
    const std::vector<Run> in = runs(from, source, Ranges::kMost), out = runs(to, target, Ranges::kMost);
    // rows of a copy are as many and as long on both sides, unless one side has no gaps between them
    size_t o = 0, used = 0;
    std::vector<Run> gaps;
    for (const Run& run : in)
        for (size_t at = run.begin; at < run.end && o < out.size();) {
            const size_t length = std::min(run.end - at, out[o].end - out[o].begin - used);
            for (size_t begin = at;;) {
                const auto gap = source.written.first_gap(begin, at + length);
                if (!gap) break;
                gaps.push_back({out[o].begin + used + (gap->first - at), out[o].begin + used + (gap->second - at)});
                begin = gap->second;
            }
            at += length;
            if ((used += length) == out[o].end - out[o].begin) ++o, used = 0;
        }
    if (!gaps.empty()) target.seen.clear();
    for (const Run& gap : gaps) target.written.remove(gap.begin, gap.end);
}

}  // namespace gradus::sanitize
