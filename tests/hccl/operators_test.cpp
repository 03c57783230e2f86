// Every operator on every transport, against sums in f64 and blocks moved by hand; the same bits on all transports.
#include <cmath>
#include <cstring>
#include <map>

#include "gradus/gradus.h"
#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

using Bytes = std::vector<unsigned char>;

bool is_long() { return std::getenv("GRADUS_TEST_LONG") != nullptr; }

// ---- Numbers, independently of the library

struct Type {
    HcclDataType type;
    const char* name;
    size_t size;
    bool on_device;
};
constexpr Type kReduced[] = {{HCCL_DATA_TYPE_FP32, "fp32", 4, true},      {HCCL_DATA_TYPE_BFP16, "bfp16", 2, true},
                             {HCCL_DATA_TYPE_FP16, "fp16", 2, true},      {HCCL_DATA_TYPE_INT8, "int8", 1, true},
                             {HCCL_DATA_TYPE_INT16, "int16", 2, true},    {HCCL_DATA_TYPE_INT32, "int32", 4, true},
                             {HCCL_DATA_TYPE_INT64, "int64", 8, true},    {HCCL_DATA_TYPE_UINT8, "uint8", 1, false},
                             {HCCL_DATA_TYPE_UINT16, "uint16", 2, false}, {HCCL_DATA_TYPE_UINT32, "uint32", 4, false},
                             {HCCL_DATA_TYPE_UINT64, "uint64", 8, false}, {HCCL_DATA_TYPE_FP64, "fp64", 8, false}};

template <typename T>
T read_as(const unsigned char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

double half_value(uint16_t bits, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1),
              fraction = bits & ((1 << fraction_bits) - 1);
    double x;
    if (exponent == (1 << exponent_bits) - 1)
        x = fraction != 0 ? NAN : HUGE_VAL;
    else if (exponent == 0)
        x = std::ldexp(fraction, 1 - bias - fraction_bits);
    else
        x = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits >> 15 != 0 ? -x : x;
}

// To nearest even, by looking for it among all patterns' neighbours.
uint16_t half_bits(double x, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits;
    if (std::isnan(x))
        return static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits | 1 << (fraction_bits - 1));
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0,
                   infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
    const double magnitude = std::fabs(x);
    int low = 0, high = infinity;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (half_value(static_cast<uint16_t>(middle), exponent_bits) <= magnitude ? low : high) = middle;
    }
    const double below = half_value(static_cast<uint16_t>(low), exponent_bits);
    const double above = high == infinity ? std::ldexp(1.0, 1 << (exponent_bits - 1))
                                          : half_value(static_cast<uint16_t>(high), exponent_bits);
    const double tie = below / 2 + above / 2;
    const int nearest = magnitude < tie ? low : magnitude > tie ? high : low % 2 == 0 ? low : high;
    return static_cast<uint16_t>(sign | nearest);
}

// In rank order; f32 and 16-bit floats step by step in f32, as is promised.
double combine(double a, double b, HcclReduceOp op, bool in_f32) {
    double r = 0;
    if (op == HCCL_REDUCE_SUM) r = a + b;
    if (op == HCCL_REDUCE_PROD) r = a * b;
    if (op == HCCL_REDUCE_MAX) r = std::isnan(a) || std::isnan(b) ? NAN : a > b || (a == b && std::signbit(b)) ? a : b;
    if (op == HCCL_REDUCE_MIN) r = std::isnan(a) || std::isnan(b) ? NAN : a < b || (a == b && std::signbit(a)) ? a : b;
    return in_f32 ? static_cast<double>(static_cast<float>(r)) : r;
}

// Integers modulo 2^64; the low bytes are those of any width.
uint64_t combine(uint64_t a, uint64_t b, HcclReduceOp op, bool is_signed) {
    if (op == HCCL_REDUCE_SUM) return a + b;
    if (op == HCCL_REDUCE_PROD) return a * b;
    const bool less = is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
    return less == (op == HCCL_REDUCE_MIN) ? a : b;
}

uint64_t integer_at(const unsigned char* at, const Type& t) {
    switch (t.type) {
        case HCCL_DATA_TYPE_INT8:
            return static_cast<uint64_t>(read_as<int8_t>(at));
        case HCCL_DATA_TYPE_INT16:
            return static_cast<uint64_t>(read_as<int16_t>(at));
        case HCCL_DATA_TYPE_INT32:
            return static_cast<uint64_t>(read_as<int32_t>(at));
        case HCCL_DATA_TYPE_UINT8:
            return read_as<uint8_t>(at);
        case HCCL_DATA_TYPE_UINT16:
            return read_as<uint16_t>(at);
        case HCCL_DATA_TYPE_UINT32:
            return read_as<uint32_t>(at);
        default:
            return read_as<uint64_t>(at);
    }
}

Bytes expected_reduction(const std::vector<Bytes>& inputs, const Type& t, HcclReduceOp op) {
    Bytes result(inputs[0].size());
    for (size_t i = 0; i * t.size < result.size(); ++i) {
        const auto at = [&](size_t r) { return inputs[r].data() + i * t.size; };
        unsigned char* const to = result.data() + i * t.size;
        const bool f32 = t.type == HCCL_DATA_TYPE_FP32, f64 = t.type == HCCL_DATA_TYPE_FP64;
        const int half = t.type == HCCL_DATA_TYPE_FP16 ? 5 : t.type == HCCL_DATA_TYPE_BFP16 ? 8 : 0;
        if (f32 || f64 || half != 0) {
            const auto value = [&](size_t r) {
                return f32   ? static_cast<double>(read_as<float>(at(r)))
                       : f64 ? read_as<double>(at(r))
                             : half_value(read_as<uint16_t>(at(r)), half);
            };
            double total = value(0);
            for (size_t r = 1; r < inputs.size(); ++r) total = combine(total, value(r), op, !f64);
            if (std::isnan(total)) total = std::fabs(total);
            if (f32) {
                const float x = static_cast<float>(total);
                std::memcpy(to, &x, 4);
            } else if (f64) {
                std::memcpy(to, &total, 8);
            } else {
                const uint16_t x = half_bits(total, half);
                std::memcpy(to, &x, 2);
            }
        } else {
            const bool is_signed = t.type <= HCCL_DATA_TYPE_INT32 || t.type == HCCL_DATA_TYPE_INT64;
            uint64_t total = integer_at(at(0), t);
            for (size_t r = 1; r < inputs.size(); ++r) total = combine(total, integer_at(at(r), t), op, is_signed);
            std::memcpy(to, &total, t.size);
        }
    }
    return result;
}

// Floats of about 1 with zeros, infinities and NaNs among them; integers of all bits.
Bytes input(const Type& t, size_t count, uint32_t rank, bool special) {
    Bytes bytes(count * t.size);
    uint32_t state = 12345 + rank * 7919;
    const auto random = [&] { return state = state * 1664525u + 1013904223u; };
    for (size_t i = 0; i < count; ++i) {
        unsigned char* const to = bytes.data() + i * t.size;
        double x = static_cast<double>(static_cast<int32_t>(random())) / 1073741824.0;
        const uint32_t kind = random() >> 8 & 63;
        if (special && kind < 6)
            x = kind == 0   ? 0.0
                : kind == 1 ? -0.0
                : kind == 2 ? HUGE_VAL
                : kind == 3 ? -HUGE_VAL
                : kind == 4 ? NAN
                            : 1e-41;
        if (t.type == HCCL_DATA_TYPE_FP32) {
            const float f = static_cast<float>(x);
            std::memcpy(to, &f, 4);
        } else if (t.type == HCCL_DATA_TYPE_FP64) {
            std::memcpy(to, &x, 8);
        } else if (t.type == HCCL_DATA_TYPE_FP16 || t.type == HCCL_DATA_TYPE_BFP16) {
            const uint16_t h = half_bits(x, t.type == HCCL_DATA_TYPE_FP16 ? 5 : 8);
            std::memcpy(to, &h, 2);
        } else {
            for (size_t b = 0; b < t.size; ++b) to[b] = static_cast<unsigned char>(random() >> 16);
        }
    }
    return bytes;
}

Bytes slice(const Bytes& bytes, size_t begin, size_t count) {
    return {bytes.begin() + static_cast<long>(begin), bytes.begin() + static_cast<long>(begin + count)};
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
    std::vector<Buffer> send, all, one, part;
    for (uint32_t r = 0; r < ranks; ++r) {
        send.emplace_back(whole[r]);
        all.emplace_back(in_place ? Buffer(first[r]) : Buffer(count * t.size));
        one.emplace_back(in_place ? Buffer(first[r]) : Buffer(count * t.size));
        part.emplace_back(in_place ? Buffer(whole[r]) : Buffer(count * t.size));
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
        EXPECT_EQ(send[r].read(), whole[r]) << "what was sent, rank " << r;
        if (in_place)
            EXPECT_EQ(slice(part[r].read(), count * t.size, whole[r].size() - count * t.size),
                      slice(whole[r], count * t.size, whole[r].size() - count * t.size));
    }
}

TEST_P(Operators, Reductions) {
    const Without limits;
    std::vector<uint32_t> sizes = {2, 3};
    if (is_long()) sizes = {1, 2, 3, 5, 8};
    for (const uint32_t ranks : sizes) {
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
    const Type t = kReduced[0];
    World w(3, GetParam());
    ASSERT_TRUE(w.made);
    const uint64_t counts[] = {5, 0, 200001}, displacements[] = {200010, 0, 3};
    std::vector<Bytes> whole;
    std::vector<Buffer> send, recv;
    for (uint32_t r = 0; r < 3; ++r) {
        whole.push_back(input(t, 200020, r, false));
        send.emplace_back(whole[r]);
        recv.emplace_back(Buffer(counts[r] * 4));
        ASSERT_EQ(HcclReduceScatterV(send[r].data(), counts, displacements, recv[r].data(), counts[r], t.type,
                                     HCCL_REDUCE_MAX, w.comms[r], w.streams[r]),
                  0)
            << take_message();
    }
    for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
    const Bytes expected = expected_reduction(whole, t, HCCL_REDUCE_MAX);
    for (uint32_t r = 0; r < 3; ++r)
        EXPECT_EQ(recv[r].read(), slice(expected, displacements[r] * 4, counts[r] * 4)) << r;
}

// ---- Movements

TEST_P(Operators, Movements) {
    std::vector<uint32_t> sizes = {2, 3};
    if (is_long()) sizes = {1, 2, 3, 5, 8};
    for (const uint32_t ranks : sizes) {
        World w(ranks, GetParam());
        ASSERT_TRUE(w.made);
        for (const size_t count : {size_t{1}, size_t{37}, size_t{200003}}) {
            SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count));
            const Type t{HCCL_DATA_TYPE_INT128, "int128", 16, false};
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

TEST_P(Operators, MovementsWithCounts) {
    constexpr uint32_t kRanks = 3;
    World w(kRanks, GetParam());
    ASSERT_TRUE(w.made);
    // what rank s has for rank d, in int16: nothing, little, and more than a chunk
    const uint64_t matrix[kRanks][kRanks] = {{3, 0, 400001}, {7, 1, 2}, {0, 500000, 5}};
    std::vector<Bytes> data(kRanks);
    std::vector<Buffer> send, v, vc, gathered;
    uint64_t out[kRanks][kRanks], at_out[kRanks][kRanks], in[kRanks][kRanks], at_in[kRanks][kRanks],
        at_dense[kRanks][kRanks];
    for (uint32_t r = 0; r < kRanks; ++r) {
        uint64_t sent = 0, received = 0;
        for (uint32_t o = 0; o < kRanks; ++o) {
            out[r][o] = matrix[r][o], at_out[r][o] = sent, sent += matrix[r][o];
            in[r][o] = matrix[o][r], at_dense[r][o] = received, received += matrix[o][r];
        }
        uint64_t place = received + 9;  // the other way round, with a gap between
        for (uint32_t o = 0; o < kRanks; ++o) place -= in[r][o] + 3, at_in[r][o] = place + 3;
        data[r] = input({HCCL_DATA_TYPE_INT16, "", 2, true}, sent, r, false);
        send.emplace_back(data[r]);
        v.emplace_back((received + 9) * 2), vc.emplace_back(received * 2), gathered.emplace_back(2 * 30);
    }
    const uint64_t gather_counts[] = {4, 0, 9}, gather_at[] = {20, 0, 1};
    for (uint32_t r = 0; r < kRanks; ++r) {
        const auto type = HCCL_DATA_TYPE_INT16;
        ASSERT_EQ(HcclAlltoAllV(send[r].data(), out[r], at_out[r], type, v[r].data(), in[r], at_in[r], type, w.comms[r],
                                w.streams[r]),
                  0)
            << take_message();
        ASSERT_EQ(HcclAlltoAllVC(send[r].data(), matrix, type, vc[r].data(), type, w.comms[r], w.streams[r]), 0)
            << take_message();
        ASSERT_EQ(HcclAllGatherV(send[r].data(), gather_counts[r], gathered[r].data(), gather_counts, gather_at, type,
                                 w.comms[r], w.streams[r]),
                  0)
            << take_message();
    }
    for (const int code : w.synchronize()) ASSERT_EQ(code, 0) << take_message();
    for (uint32_t d = 0; d < kRanks; ++d)
        for (uint32_t s = 0; s < kRanks; ++s) {
            const Bytes block = slice(data[s], at_out[s][d] * 2, matrix[s][d] * 2);
            EXPECT_EQ(slice(v[d].read(), at_in[d][s] * 2, block.size()), block) << s << " to " << d;
            EXPECT_EQ(slice(vc[d].read(), at_dense[d][s] * 2, block.size()), block) << s << " to " << d;
            EXPECT_EQ(slice(gathered[d].read(), gather_at[s] * 2, gather_counts[s] * 2),
                      slice(data[s], 0, gather_counts[s] * 2));
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
