// Every operator on every transport, against sums in f64 and blocks moved by hand; the same bits on all transports.
#include <cstdlib>
#include <cstring>

#include "gradus/gradus.h"
#include "numbers.h"
#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

bool is_long() { return std::getenv("GRADUS_TEST_LONG") != nullptr; }

std::vector<uint32_t> sizes() {  // of communicators
    if (is_long()) return {1, 2, 3, 5, 8};
    return {2, 3};
}

struct Without {  // the device's limits
    Without() { gradusSetOption("limits", "off"); }
    ~Without() { gradusSetOption("limits", "on"); }
};

class Operators : public ::testing::TestWithParam<const char*> {};

// ---- Reductions

void check_reductions(World& w, const Type& t, HcclReduceOp op, size_t count, bool in_place) {
    const uint32_t ranks = w.size();
    SCOPED_TRACE(std::string(t.name) + " op " + std::to_string(op) + " ranks " + std::to_string(ranks) + " count " +
                 std::to_string(count) + (in_place ? " in place" : ""));
    std::vector<Bytes> whole(ranks), first(ranks);
    for (uint32_t r = 0; r < ranks; ++r) {
        whole[r] = input(t, count * ranks, r, true);
        first[r] = slice(whole[r], 0, count * t.size);
    }
    const Bytes expected_whole = expected_reduction(whole, t, op), expected = slice(expected_whole, 0, count * t.size);
    const uint32_t root = ranks / 2;
    std::vector<Buffer> send, all, one, part, own;  // own: in place, each rank's result at its own block
    for (uint32_t r = 0; r < ranks; ++r) {
        send.emplace_back(whole[r]);
        all.emplace_back(in_place ? Buffer(first[r]) : Buffer(count * t.size));
        one.emplace_back(in_place ? Buffer(first[r]) : Buffer(count * t.size));
        part.emplace_back(in_place ? Buffer(whole[r]) : Buffer(count * t.size));
        own.emplace_back(whole[r]);
    }
    for (uint32_t r = 0; r < ranks; ++r) {
        unsigned char* const from = send[r].data();
        ASSERT_EQ(
            HcclAllReduce(in_place ? all[r].data() : from, all[r].data(), count, t.type, op, w.comms[r], w.streams[r]),
            0)
            << take_message();
        ASSERT_EQ(HcclReduce(in_place ? one[r].data() : from, one[r].data(), count, t.type, op, root, w.comms[r],
                             w.streams[r]),
                  0)
            << take_message();
        ASSERT_EQ(HcclReduceScatter(own[r].data(), own[r].data() + r * count * t.size, count, t.type, op, w.comms[r],
                                    w.streams[r]),
                  0)
            << take_message();
        ASSERT_EQ(HcclReduceScatter(in_place ? part[r].data() : from, part[r].data(), count, t.type, op, w.comms[r],
                                    w.streams[r]),
                  0)
            << take_message();
    }
    for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
    for (uint32_t r = 0; r < ranks; ++r) {
        EXPECT_EQ(all[r].read(), expected) << "all-reduce, rank " << r;
        EXPECT_EQ(one[r].read(), r == root  ? expected
                                 : in_place ? first[r]
                                            : Bytes(count * t.size, 0xEE))
            << "reduce, rank " << r;
        EXPECT_EQ(slice(part[r].read(), 0, count * t.size), slice(expected_whole, r * count * t.size, count * t.size))
            << "reduce-scatter, rank " << r;
        Bytes expected_own = whole[r];
        std::memcpy(expected_own.data() + r * count * t.size, expected_whole.data() + r * count * t.size,
                    count * t.size);
        EXPECT_EQ(own[r].read(), expected_own) << "reduce-scatter in place, rank " << r;
        EXPECT_EQ(send[r].read(), whole[r]) << "what was sent, rank " << r;
        if (in_place)
            EXPECT_EQ(slice(part[r].read(), count * t.size, whole[r].size() - count * t.size),
                      slice(whole[r], count * t.size, whole[r].size() - count * t.size));
    }
}

TEST_P(Operators, Reductions) {
    const Without limits;
    for (const uint32_t ranks : sizes()) {
        World w(ranks, GetParam());
        ASSERT_TRUE(w.made);
        for (const Type& t : kReduced)
            for (const HcclReduceOp op : {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN})
                for (const size_t count : {1, 3, 1000, 9973}) {
                    if (!is_long() && count != 1000 && t.type != HCCL_DATA_TYPE_BFP16 && t.type != HCCL_DATA_TYPE_FP32)
                        continue;
                    check_reductions(w, t, op, count, count % 2 == 1 && count > 1);
                    if (HasFailure()) return;
                }
    }
}

// Longer than a chunk of any transport, and than what one block of a loop takes.
TEST_P(Operators, LongReductions) {
    for (const uint32_t ranks : {2u, 3u}) {
        World w(ranks, GetParam());
        ASSERT_TRUE(w.made);
        for (const bool in_place : {false, true}) {
            check_reductions(w, kReduced[0], HCCL_REDUCE_SUM, (is_long() ? 3 << 20 : 300000) + 7, in_place);
            check_reductions(w, kReduced[1], HCCL_REDUCE_SUM, (is_long() ? 5 << 20 : 400000) + 1, in_place);
        }
    }
}

TEST_P(Operators, ReduceScatterWithCounts) {
    for (const uint32_t ranks : sizes()) {
        World w(ranks, GetParam());
        ASSERT_TRUE(w.made);
        const auto check = [&](const Type& t, HcclReduceOp op, uint64_t most, bool in_place) {
            SCOPED_TRACE(std::string(t.name) + " op " + std::to_string(op) + " ranks " + std::to_string(ranks) +
                         " up to " + std::to_string(most) + (in_place ? " in place" : ""));
            std::vector<uint64_t> counts(ranks), displacements(ranks);  // from the last to the first, with gaps
            uint64_t end = 3;
            for (uint32_t r = ranks; r-- > 0;) {
                counts[r] = r % 3 == 1 ? 0 : r % 3 == 0 ? most : 5;
                displacements[r] = end, end += counts[r] + 2;
            }
            std::vector<Bytes> whole;
            std::vector<Buffer> send, recv;
            for (uint32_t r = 0; r < ranks; ++r) {
                whole.push_back(input(t, end, r, true));
                send.emplace_back(whole[r]);
                recv.emplace_back(Buffer(counts[r] * t.size));
                unsigned char* const to = in_place ? send[r].data() + displacements[r] * t.size : recv[r].data();
                ASSERT_EQ(HcclReduceScatterV(send[r].data(), counts.data(), displacements.data(), to, counts[r], t.type,
                                             op, w.comms[r], w.streams[r]),
                          0)
                    << take_message();
            }
            for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
            const Bytes expected = expected_reduction(whole, t, op);
            for (uint32_t r = 0; r < ranks; ++r) {
                const size_t at = displacements[r] * t.size, n = counts[r] * t.size;
                Bytes expected_send = whole[r];
                if (in_place) std::memcpy(expected_send.data() + at, expected.data() + at, n);
                if (!in_place) EXPECT_EQ(recv[r].read(), slice(expected, at, n)) << r;
                EXPECT_EQ(send[r].read(), expected_send) << r;
            }
        };
        check(kReduced[0], HCCL_REDUCE_MAX, 200001, false);
        check(kReduced[1], HCCL_REDUCE_SUM, 200001, true);
        const Without limits;
        for (const Type& t : kReduced)
            for (const HcclReduceOp op : {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN}) {
                check(t, op, 1003, op == HCCL_REDUCE_MIN);
                if (HasFailure()) return;
            }
    }
}

// ---- Movements

TEST_P(Operators, Movements) {
    for (const uint32_t ranks : sizes()) {
        World w(ranks, GetParam());
        ASSERT_TRUE(w.made);
        std::vector<std::pair<Type, size_t>> cases;
        for (const size_t count : {1, 37, 200003}) cases.push_back({kOnlyMoved[0], count});
        for (const Type& t : kOnlyMoved) cases.push_back({t, 5});
        for (const Type& t : kReduced) cases.push_back({t, 5});
        for (const auto& [t, count] : cases) {
            SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count) + " " + t.name);
            const size_t n = count * t.size;
            const uint32_t root = ranks - 1;
            std::vector<Bytes> own, whole;
            std::vector<Buffer> send, sends, gather, gather_base, gather_own, cast, scattered, exchanged;
            for (uint32_t r = 0; r < ranks; ++r) {
                own.push_back(input(t, count, r, false));
                whole.push_back(input(t, count * ranks, r + 100, false));
                send.emplace_back(own[r]);
                sends.emplace_back(whole[r]);
                gather.emplace_back(n * ranks);
                gather_base.emplace_back(n * ranks), std::memcpy(gather_base[r].data(), own[r].data(), n);
                gather_own.emplace_back(n * ranks), std::memcpy(gather_own[r].data() + r * n, own[r].data(), n);
                cast.emplace_back(own[r]);
                scattered.emplace_back(n);
                exchanged.emplace_back(n * ranks);
            }
            for (uint32_t r = 0; r < ranks; ++r) {
                HcclComm c = w.comms[r];
                aclrtStream s = w.streams[r];
                ASSERT_EQ(HcclAllGather(send[r].data(), gather[r].data(), count, t.type, c, s), 0) << take_message();
                ASSERT_EQ(HcclAllGather(gather_base[r].data(), gather_base[r].data(), count, t.type, c, s), 0)
                    << take_message();
                ASSERT_EQ(HcclAllGather(gather_own[r].data() + r * n, gather_own[r].data(), count, t.type, c, s), 0)
                    << take_message();
                ASSERT_EQ(HcclBroadcast(cast[r].data(), count, t.type, root, c, s), 0) << take_message();
                ASSERT_EQ(
                    HcclScatter(r == root ? sends[r].data() : nullptr, scattered[r].data(), count, t.type, root, c, s),
                    0)
                    << take_message();
                ASSERT_EQ(HcclBarrier(c, s), 0);
                ASSERT_EQ(HcclAlltoAll(sends[r].data(), count, t.type, exchanged[r].data(), count, t.type, c, s), 0)
                    << take_message();
            }
            for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
            Bytes all;
            for (const Bytes& b : own) all.insert(all.end(), b.begin(), b.end());
            for (uint32_t r = 0; r < ranks; ++r) {
                EXPECT_EQ(gather[r].read(), all) << r;
                EXPECT_EQ(gather_base[r].read(), all) << r;
                EXPECT_EQ(gather_own[r].read(), all) << r;
                EXPECT_EQ(cast[r].read(), own[root]) << r;
                EXPECT_EQ(scattered[r].read(), slice(whole[root], r * n, n)) << r;
                for (uint32_t s = 0; s < ranks; ++s)
                    EXPECT_EQ(slice(exchanged[r].read(), s * n, n), slice(whole[s], r * n, n)) << s << " to " << r;
            }
        }
    }
}

// What rank s has for rank d: nothing, little, and here and there more than a chunk.
uint64_t count_between(uint32_t s, uint32_t d) {
    if ((s + 2 * d) % 7 == 4) return 400001 + s;
    return (3 * s + 5 * d + 3) % 4 * (s + 1);
}

TEST_P(Operators, MovementsWithCounts) {
    for (const uint32_t ranks : sizes()) {
        SCOPED_TRACE(ranks);
        World w(ranks, GetParam());
        ASSERT_TRUE(w.made);
        using Numbers = std::vector<uint64_t>;
        Numbers matrix, gather_counts(ranks), gather_at(ranks);
        std::vector<Numbers> out(ranks), at_out(ranks), in(ranks), at_in(ranks), at_dense(ranks);
        std::vector<Bytes> data(ranks);
        std::vector<Buffer> send, v, vc, gathered;
        uint64_t gathers = 1;
        for (uint32_t r = ranks; r-- > 0;) {
            gather_counts[r] = r % 3 == 1 ? 0 : 4 + r, gather_at[r] = gathers;
            gathers += gather_counts[r] + 2;
        }
        for (uint32_t r = 0; r < ranks; ++r) {
            uint64_t sent = 0, received = 0;
            for (uint32_t o = 0; o < ranks; ++o) {
                matrix.push_back(count_between(r, o));
                out[r].push_back(count_between(r, o)), at_out[r].push_back(sent), sent += out[r][o];
                in[r].push_back(count_between(o, r)), at_dense[r].push_back(received), received += in[r][o];
            }
            uint64_t place = received + 3 * ranks;  // the other way round, with a gap between
            for (uint32_t o = 0; o < ranks; ++o) place -= in[r][o] + 3, at_in[r].push_back(place + 3);
            data[r] = input(kReduced[4], sent + gather_counts[r], r, false);
            send.emplace_back(data[r]);
            v.emplace_back((received + 3 * ranks) * 2), vc.emplace_back(received * 2),
                gathered.emplace_back(2 * gathers);
        }
        for (uint32_t r = 0; r < ranks; ++r) {
            const auto type = HCCL_DATA_TYPE_INT16;
            ASSERT_EQ(HcclAlltoAllV(send[r].data(), out[r].data(), at_out[r].data(), type, v[r].data(), in[r].data(),
                                    at_in[r].data(), type, w.comms[r], w.streams[r]),
                      0)
                << take_message();
            ASSERT_EQ(HcclAlltoAllVC(send[r].data(), matrix.data(), type, vc[r].data(), type, w.comms[r], w.streams[r]),
                      0)
                << take_message();
            ASSERT_EQ(HcclAllGatherV(send[r].data(), gather_counts[r], gathered[r].data(), gather_counts.data(),
                                     gather_at.data(), type, w.comms[r], w.streams[r]),
                      0)
                << take_message();
        }
        for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
        for (uint32_t d = 0; d < ranks; ++d) {
            Bytes expected_v(v[d].read().size(), 0xEE), expected_vc, expected_gathered(2 * gathers, 0xEE);
            for (uint32_t s = 0; s < ranks; ++s) {
                const Bytes block = slice(data[s], at_out[s][d] * 2, out[s][d] * 2);
                std::copy(block.begin(), block.end(), expected_v.begin() + static_cast<long>(at_in[d][s] * 2));
                expected_vc.insert(expected_vc.end(), block.begin(), block.end());
                std::memcpy(expected_gathered.data() + gather_at[s] * 2, data[s].data(), gather_counts[s] * 2);
            }
            EXPECT_EQ(v[d].read(), expected_v) << d;
            EXPECT_EQ(vc[d].read(), expected_vc) << d;
            EXPECT_EQ(gathered[d].read(), expected_gathered) << d;
        }
    }
}

TEST_P(Operators, SendsAndReceives) {
    constexpr uint32_t kRanks = 3;
    World w(kRanks, GetParam());
    ASSERT_TRUE(w.made);
    for (const size_t count : {size_t{1}, size_t{100000}}) {
        const size_t n = count * 4;
        std::vector<Bytes> data;
        std::vector<Buffer> send, ring, grouped, plain;
        for (uint32_t r = 0; r < kRanks; ++r) {
            data.push_back(input(kReduced[0], count, r, false));
            send.emplace_back(data[r]), ring.emplace_back(n), grouped.emplace_back(2 * n), plain.emplace_back(n);
        }
        for (uint32_t r = 0; r < kRanks; ++r) {
            const uint32_t next = (r + 1) % kRanks, before = (r + 2) % kRanks;
            HcclSendRecvItem items[] = {{HCCL_SEND, send[r].data(), count, HCCL_DATA_TYPE_FP32, next},
                                        {HCCL_RECV, ring[r].data(), count, HCCL_DATA_TYPE_FP32, before}};
            ASSERT_EQ(HcclBatchSendRecv(items, 2, w.comms[r], w.streams[r]), 0) << take_message();
            ASSERT_EQ(HcclGroupStart(), 0);
            bool inside = false;
            ASSERT_EQ(HcclGroupStatusGet(&inside), 0);
            EXPECT_TRUE(inside);
            ASSERT_EQ(HcclSend(send[r].data(), count, HCCL_DATA_TYPE_FP32, next, w.comms[r], w.streams[r]), 0);
            ASSERT_EQ(HcclSend(send[r].data(), count, HCCL_DATA_TYPE_FP32, before, w.comms[r], w.streams[r]), 0);
            ASSERT_EQ(HcclRecv(grouped[r].data(), count, HCCL_DATA_TYPE_FP32, next, w.comms[r], w.streams[r]), 0);
            ASSERT_EQ(HcclRecv(grouped[r].data() + n, count, HCCL_DATA_TYPE_FP32, before, w.comms[r], w.streams[r]), 0);
            EXPECT_EQ(HcclAllReduce(send[r].data(), ring[r].data(), 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, w.comms[r],
                                    w.streams[r]),
                      HCCL_E_PARA);
            ASSERT_EQ(HcclGroupEnd(), 0) << take_message();
            if (r == 0) ASSERT_EQ(HcclSend(send[r].data(), count, HCCL_DATA_TYPE_FP32, 2, w.comms[r], w.streams[r]), 0);
            if (r == 2)
                ASSERT_EQ(HcclRecv(plain[r].data(), count, HCCL_DATA_TYPE_FP32, 0, w.comms[r], w.streams[r]), 0);
        }
        for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
        for (uint32_t r = 0; r < kRanks; ++r) {
            EXPECT_EQ(ring[r].read(), data[(r + 2) % kRanks]);
            EXPECT_EQ(slice(grouped[r].read(), 0, n), data[(r + 1) % kRanks]);
            EXPECT_EQ(slice(grouped[r].read(), n, n), data[(r + 2) % kRanks]);
        }
        EXPECT_EQ(plain[2].read(), data[0]);
    }
}

// A collective comes after what was before it on its stream, and before what follows.
TEST_P(Operators, InTheOrderOfTheStreams) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    constexpr size_t kBytes = 4 << 20;
    Buffer a(kBytes), b(kBytes);
    Buffer* const buffers[] = {&a, &b};
    for (int round = 1; round < 6; ++round)
        for (uint32_t r = 0; r < 2; ++r) {
            unsigned char* const x = buffers[r]->data();
            ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(r)), 0);
            ASSERT_EQ(aclrtMemsetAsync(x, kBytes, round, kBytes, w.streams[r]), 0);
            ASSERT_EQ(HcclAllReduce(x, x, kBytes, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, w.comms[r], w.streams[r]), 0)
                << take_message();
            ASSERT_EQ(HcclAllReduce(x, x, kBytes, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, w.comms[r], w.streams[r]), 0);
        }
    for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
    for (Buffer* x : buffers) EXPECT_EQ(x->read(), Bytes(kBytes, 20));
}

INSTANTIATE_TEST_SUITE_P(Over, Operators, ::testing::ValuesIn(transports()),
                         [](const auto& over) { return std::string(over.param); });

}  // namespace
}  // namespace gradus::testing
