#include "hccl/collective.h"

#include <algorithm>
#include <cstring>

#include "hccl/types.h"

namespace gradus::hccl {
namespace {

// One rank's words, read back.
struct Words {
    Terms terms;
    const std::byte* lists;
    uint32_t ranks;

    Words(const std::byte* all, uint32_t rank, uint32_t count) : ranks(count) {
        const std::byte* const at = all + rank * Agreement::size(count);
        std::memcpy(&terms, at, sizeof terms);
        lists = at + sizeof terms;
    }
    uint64_t out(uint32_t to) const { return number(to); }
    uint64_t in(uint32_t from) const { return number(ranks + from); }
    bool reduces() const { return terms.kind >= Kind::all_reduce && terms.kind <= Kind::reduce_scatter_v; }

  private:
    uint64_t number(uint32_t i) const {
        uint64_t value;
        std::memcpy(&value, lists + i * sizeof value, sizeof value);
        return value;
    }
};

template <typename... Parts>
Status differ(const Words& words, const Parts&... parts) {
    return {HCCL_E_PARA, concat(function_of(words.terms.kind), ": ranks disagree: ", parts...)};
}

Status check_terms(const Words& mine, uint32_t rank, const Words& first) {
    const Terms &a = mine.terms, &b = first.terms;
    if (a.kind != b.kind)
        return differ(first, "rank ", rank, " called ", function_of(a.kind), ", rank 0 ", function_of(b.kind));
    if (a.sequence != b.sequence)
        return differ(first, "call ", a.sequence, " of rank ", rank, " meets call ", b.sequence, " of rank 0");
    if (a.type != b.type)
        return differ(first, "dataType ", name_of(a.type), " on rank ", rank, ", ", name_of(b.type), " on rank 0");
    if (a.count != b.count) return differ(first, "count ", a.count, " on rank ", rank, ", ", b.count, " on rank 0");
    if (a.op != b.op) return differ(first, "op ", name_of(a.op), " on rank ", rank, ", ", name_of(b.op), " on rank 0");
    if (a.root != b.root) return differ(first, "root ", a.root, " on rank ", rank, ", ", b.root, " on rank 0");
    return {};
}

// What one sends is what the other expects.
Status check_blocks(const std::byte* all, uint32_t ranks, const Words& first) {
    for (uint32_t s = 0; s < ranks; ++s) {
        const Words sender(all, s, ranks);
        for (uint32_t d = 0; d < ranks; ++d) {
            const uint64_t expected = first.reduces() ? first.out(d) : Words(all, d, ranks).in(s);
            if (sender.out(d) == expected) continue;
            if (first.reduces())
                return differ(first, "rank ", s, " has ", sender.out(d), " bytes for rank ", d, ", rank 0 ", expected);
            return differ(first, "rank ", s, " sends ", sender.out(d), " bytes to rank ", d, ", which expects ",
                          expected);
        }
    }
    return {};
}

}  // namespace

const char* function_of(Kind kind) {
    constexpr const char* kNames[] = {"HcclBarrier",        "HcclAllReduce", "HcclReduce",    "HcclReduceScatter",
                                      "HcclReduceScatterV", "HcclBroadcast", "HcclScatter",   "HcclAllGather",
                                      "HcclAllGatherV",     "HcclAlltoAll",  "HcclAlltoAllV", "HcclAlltoAllVC"};
    return kind <= Kind::all_to_all_vc ? kNames[static_cast<size_t>(kind)] : "an unknown operator";
}

void Collective::settle(uint32_t rank) noexcept {
    const bool gathers = terms.kind == Kind::all_gather || terms.kind == Kind::all_gather_v;
    if (!gathers || send != recv || in[rank].offset == 0) return;
    std::memmove(recv + in[rank].offset, send, in[rank].bytes);
    send = recv + in[rank].offset;
}

Text describe(uint64_t bytes, uint32_t type) {
    const auto t = static_cast<HcclDataType>(type);
    return concat(bytes / std::max<size_t>(size_of(t), 1), " × ", name_of(t));
}

Status members_differ(uint64_t number, uint32_t rank_a, std::span<const uint32_t> a, uint32_t rank_b,
                      std::span<const uint32_t> b) {
    const auto listed = [](std::span<const uint32_t> ids) {
        Text list;
        for (const uint32_t id : ids) append(list, list.empty() ? "" : ", ", id);
        return list;
    };
    return {HCCL_E_PARA, concat("rankIds: ranks disagree about subCommId ", number, ": ", listed(a), " on rank ",
                                rank_a, "; ", listed(b), " on rank ", rank_b)};
}

bool have_common(std::span<const uint32_t> a, std::span<const uint32_t> b) {
    return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

void Agreement::write(const Collective& collective, uint32_t ranks, std::byte* to) noexcept {
    std::memcpy(to, &collective.terms, sizeof(Terms));
    to += sizeof(Terms);
    for (const std::vector<Block>* list : {&collective.out, &collective.in})
        for (uint32_t i = 0; i < ranks; ++i, to += sizeof(uint64_t)) {
            const uint64_t bytes = i < list->size() ? (*list)[i].bytes : 0;
            std::memcpy(to, &bytes, sizeof bytes);
        }
}

Status Agreement::check(const std::byte* all, uint32_t ranks) {
    const Words first(all, 0, ranks);
    for (uint32_t r = 1; r < ranks; ++r) GRADUS_TRY(check_terms(Words(all, r, ranks), r, first));
    return check_blocks(all, ranks, first);
}

uint64_t Agreement::largest_block(const std::byte* all, uint32_t ranks) {
    uint64_t most = 0;
    for (uint32_t s = 0; s < ranks; ++s)
        for (uint32_t d = 0; d < ranks; ++d) most = std::max(most, Words(all, s, ranks).out(d));
    return most;
}

}  // namespace gradus::hccl
