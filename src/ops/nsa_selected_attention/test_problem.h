// Attention over selected blocks with its answers in f64, and how far f32 sums and P and dS in 16 bits may be from
// them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "testing/battery.h"
#include "testing/judge.h"

namespace gradus::testing {

inline constexpr aclDataType kTypes[] = {ACL_FLOAT16, ACL_BF16};

using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

// What a 16-bit rounding of P or dS costs: relative, and absolute among the subnormals.
inline double half_relative(aclDataType type) { return type == ACL_FLOAT16 ? 0x1p-11 : 0x1p-8; }
inline double half_absolute(aclDataType type) { return type == ACL_FLOAT16 ? 0x1p-25 : 0x1p-134; }

struct Sizes {
    aclDataType type = ACL_BF16;
    Ints query_lengths = {9}, key_lengths = {64};
    int64_t key_heads = 1, group = 2, depth = 128, value_depth = 128, size = 16, count = 3, mode = 2;
    bool mask = true, with_out = true;

    static int64_t total(const Ints& lengths) {
        int64_t sum = 0;
        for (const int64_t n : lengths) sum += n;
        return sum;
    }
    int64_t rows() const { return total(query_lengths); }
    int64_t keys() const { return total(key_lengths); }
    int64_t heads() const { return key_heads * group; }
};

inline Ints cumulative(const Ints& lengths) {
    Ints ends;
    for (const int64_t n : lengths) ends.push_back((ends.empty() ? 0 : ends.back()) + n);
    return ends;
}

inline Doubles values_of(const Array& array) {
    Doubles values(static_cast<size_t>(array.size()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = array.at(static_cast<int64_t>(i));
    return values;
}

struct Problem {
    Sizes s;
    double scale;
    Array query, key, value, topk, out, out_grad, max, sum;

    Problem(const Sizes& sizes, Random& random, double amplitude = 1)
        : s(sizes),
          scale(1 / std::sqrt(static_cast<double>(s.depth))),
          query(random.normals(s.type, {s.rows(), s.heads(), s.depth}, amplitude)),
          key(random.normals(s.type, {s.keys(), s.key_heads, s.depth}, amplitude)),
          value(random.normals(s.type, {s.keys(), s.key_heads, s.value_depth})),
          topk(ACL_INT32, {s.rows(), s.key_heads, s.count}),
          out(s.type, {s.rows(), s.heads(), s.value_depth}),
          out_grad(random.normals(s.type, {s.rows(), s.heads(), s.value_depth})),
          max(ACL_FLOAT, {s.rows(), s.heads(), 8}),
          sum(ACL_FLOAT, {s.rows(), s.heads(), 8}) {
        // blocks in any order, some twice, the first one by most rows, the last one by none, a few outside of the batch
        for (int64_t i = 0; i < topk.size(); ++i) {
            const auto blocks =
                static_cast<int64_t>((s.key_lengths[batch_of(i / (s.key_heads * s.count))] + s.size - 1) / s.size);
            int64_t b = random.between(0, std::max<int64_t>(0, blocks - 2));
            if (i % s.count == s.count - 1 && random.chance(0.8)) b = 0;
            if (random.chance(0.05)) b = random.pick(Ints{-1, blocks, 1 << 30, -2147483647, 0x7fffffff});
            topk.set(i, static_cast<double>(b));
        }
    }

    size_t batch_of(int64_t row) const {
        const Ints ends = cumulative(s.query_lengths);
        return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
    }

    // Keys that a row sees, in the order of its list.
    Ints keys_of(int64_t row, int64_t key_head, bool causal) const {
        const size_t b = batch_of(row);
        const Ints queries = cumulative(s.query_lengths), ends = cumulative(s.key_lengths);
        const int64_t first = ends[b] - s.key_lengths[b], at = row - (queries[b] - s.query_lengths[b]);
        Ints keys;
        for (int64_t c = 0; c < s.count; ++c)
            for (int64_t r = 0; r < s.size; ++r) {
                const int64_t j =
                    static_cast<int64_t>(topk.at((row * s.key_heads + key_head) * s.count + c)) * s.size + r;
                if (j >= 0 && j < s.key_lengths[b] && (!causal || j <= at)) keys.push_back(first + j);
            }
        return keys;
    }

    Call& common(Call& call, bool lengths_last) const {
        if (s.mask) call.in("attenMaskOptional", Array(ACL_BOOL, {2, 3}));
        if (!lengths_last || s.query_lengths.size() > 1) {
            call.integers("actualSeqQLenOptional", cumulative(s.query_lengths));
            call.integers("actualSeqKvLenOptional", cumulative(s.key_lengths));
        }
        call.real("scaleValue", scale).integer("headNum", s.heads()).words("inputLayout", "TND");
        return call.integer("sparseMode", s.mode)
            .integer("selectedBlockSize", s.size)
            .integer("selectedBlockCount", s.count);
    }
    Call forward() const {
        Call call("NsaSelectedAttention");
        call.in("query", query).in("key", key).in("value", value).in("topkIndices", topk);
        common(call, true);
        return call.out("softmaxMaxOut", ACL_FLOAT, max.shape)
            .out("softmaxSumOut", ACL_FLOAT, sum.shape)
            .out("attentionOut", s.type, out.shape);
    }
    Call grad() const {
        Call call("NsaSelectedAttentionGrad");
        call.in("query", query).in("key", key).in("value", value);
        if (s.with_out) call.in("attentionOut", out);
        call.in("attentionOutGrad", out_grad).in("softmaxMax", max).in("softmaxSum", sum).in("topkIndices", topk);
        common(call, true);
        return call.out("dqOut", s.type, query.shape).out("dkOut", s.type, key.shape).out("dvOut", s.type, value.shape);
    }
    // Statistics and output as the forward hands them over, and whether they are what they should be.
    void take(const Call::Results& got) {
        ASSERT_TRUE(got.count("attentionOut"));
        max = got.at("softmaxMaxOut"), sum = got.at("softmaxSumOut"), out = got.at("attentionOut");
    }
};

struct Bounded {
    Doubles want, slack;
    explicit Bounded(const Array& like) : want(static_cast<size_t>(like.size())), slack(want) {}
    void add(size_t i, double term, double error) { want[i] += term, slack[i] += error; }
    void expect(const Array& got, const char* name, bool rules = true) const {
        EXPECT_EQ(judge(got, want, slack, Promise::summed), "") << name;
        if (rules && got.type != ACL_FLOAT) EXPECT_EQ(judge_by_cann(got, want, Promise::summed), "") << name;
    }
};

// The answers. Scores first: S with the error of its sum, and of its factor in f32.
struct Answer {
    const Problem& p;
    Doubles q, k, v, o, g;
    explicit Answer(const Problem& problem)
        : p(problem),
          q(values_of(p.query)),
          k(values_of(p.key)),
          v(values_of(p.value)),
          o(values_of(p.out)),
          g(values_of(p.out_grad)) {}

    struct Dot {
        double value, slack;
    };
    Dot dot(const Doubles& a, int64_t i, const Doubles& b, int64_t j, int64_t n) const {
        double s = 0, t = 0;
        for (int64_t d = 0; d < n; ++d) {
            const double term = a[static_cast<size_t>(i * n + d)] * b[static_cast<size_t>(j * n + d)];
            s += term, t += std::fabs(term);
        }
        return {s, sum_factor(static_cast<double>(n)) * t};
    }
    Dot score(int64_t row_head, int64_t key) const {
        const Dot d = dot(q, row_head, k, key, p.s.depth);
        return {d.value * p.scale, (d.slack + 2 * kU * std::fabs(d.value)) * std::fabs(p.scale)};
    }

    void expect_forward(const Call::Results& got, bool rules = true) const {
        ASSERT_TRUE(got.count("attentionOut"));
        const Sizes& s = p.s;
        Bounded max(p.max), sum(p.sum), out(p.out);
        for (int64_t row = 0; row < s.rows(); ++row)
            for (int64_t head = 0; head < s.heads(); ++head) {
                const int64_t at = row * s.heads() + head, kh = head / s.group;
                const Ints keys = p.keys_of(row, kh, s.mode == 2 && s.mask);
                std::vector<Dot> scores;
                double top = -HUGE_VAL, top_slack = 0, total = 0, total_slack = 0;
                for (const int64_t key : keys) {
                    scores.push_back(score(at, key * s.key_heads + kh));
                    top = std::max(top, scores.back().value), top_slack = std::max(top_slack, scores.back().slack);
                }
                const double n = std::max<double>(1, static_cast<double>(keys.size()));
                for (Dot& x : scores) {
                    const double d = x.value - top;
                    x.slack = std::expm1(x.slack + top_slack) + kU * std::fabs(d) + 2 * kU, x.value = std::exp(d);
                    x.slack *= x.value;
                    total += x.value, total_slack += x.slack;
                }
                total_slack += sum_factor(n) * total;
                for (size_t c = 0; c < 8; ++c)
                    max.add(static_cast<size_t>(at) * 8 + c, keys.empty() ? 0 : top, top_slack),
                        sum.add(static_cast<size_t>(at) * 8 + c, total, total_slack);
                for (size_t i = 0; i < keys.size(); ++i) {
                    const double prob = scores[i].value / total;
                    double slack = (scores[i].slack + prob * total_slack) / total + 2 * kU * prob;
                    slack += (prob + slack) * half_relative(s.type) + half_absolute(s.type) + sum_factor(n) * prob;
                    for (int64_t d = 0; d < s.value_depth; ++d) {
                        const double x = v[static_cast<size_t>((keys[i] * s.key_heads + kh) * s.value_depth + d)];
                        out.add(static_cast<size_t>(at * s.value_depth + d), prob * x, slack * std::fabs(x));
                    }
                }
            }
        max.expect(got.at("softmaxMaxOut"), "max"), sum.expect(got.at("softmaxSumOut"), "sum");
        out.expect(got.at("attentionOut"), "out", rules);
    }

    struct Gradients {
        Bounded dq, dk, dv;
    };
    Gradients gradients() const {
        const Sizes& s = p.s;
        Gradients r{Bounded(p.query), Bounded(p.key), Bounded(p.value)};
        const double by_rows = sum_factor(static_cast<double>(s.rows() * s.group * s.count));
        for (int64_t row = 0; row < s.rows(); ++row)
            for (int64_t head = 0; head < s.heads(); ++head) {
                const int64_t at = row * s.heads() + head, kh = head / s.group;
                const double max = p.max.at(at * 8), sum = p.sum.at(at * 8);
                if (sum == 0) continue;
                const Ints keys = p.keys_of(row, kh, s.mode == 2);
                std::vector<Dot> ps, dps;
                Dot delta{0, 0};
                const double by_keys = sum_factor(std::max<double>(1, static_cast<double>(keys.size())));
                for (const int64_t key : keys) {
                    const Dot x = score(at, key * s.key_heads + kh);
                    const double prob = std::exp(x.value - max) / sum;
                    // exp within an ulp, 1/sum and their product
                    ps.push_back({prob, prob * (std::expm1(x.slack) + kU * std::fabs(x.value - max) + 4 * kU)});
                    dps.push_back(dot(g, at, v, key * s.key_heads + kh, s.value_depth));
                    delta.value += prob * dps.back().value;
                    delta.slack += ps.back().slack * std::fabs(dps.back().value) + prob * dps.back().slack +
                                   by_keys * prob * std::fabs(dps.back().value);
                }
                if (s.with_out) delta = dot(g, at, o, at, s.value_depth);
                for (size_t i = 0; i < keys.size(); ++i) {
                    const double prob = ps[i].value, d = dps[i].value - delta.value, ds = prob * d;
                    double ds_slack = ps[i].slack * std::fabs(d) + (prob + ps[i].slack) * (dps[i].slack + delta.slack) +
                                      3 * kU * std::fabs(ds);
                    ds_slack += (std::fabs(ds) + ds_slack) * half_relative(s.type) + half_absolute(s.type);
                    const double p_slack =
                        ps[i].slack + (prob + ps[i].slack) * half_relative(s.type) + half_absolute(s.type);
                    const int64_t key = keys[i] * s.key_heads + kh;
                    for (int64_t c = 0; c < s.depth; ++c) {
                        const auto iq = static_cast<size_t>(at * s.depth + c),
                                   ik = static_cast<size_t>(key * s.depth + c);
                        r.dq.add(iq, p.scale * ds * k[ik],
                                 p.scale * (ds_slack + by_keys * std::fabs(ds)) * std::fabs(k[ik]));
                        r.dk.add(ik, p.scale * ds * q[iq],
                                 p.scale * (ds_slack + by_rows * std::fabs(ds)) * std::fabs(q[iq]));
                    }
                    for (int64_t c = 0; c < s.value_depth; ++c) {
                        const double x = g[static_cast<size_t>(at * s.value_depth + c)];
                        r.dv.add(static_cast<size_t>(key * s.value_depth + c), prob * x,
                                 (p_slack + by_rows * prob) * std::fabs(x));
                    }
                }
            }
        return r;
    }
    void expect_grad(const Call::Results& got, bool rules = true) const {
        ASSERT_TRUE(got.count("dvOut"));
        const Gradients r = gradients();
        r.dq.expect(got.at("dqOut"), "dq", rules), r.dk.expect(got.at("dkOut"), "dk", rules),
            r.dv.expect(got.at("dvOut"), "dv", rules);
    }
};

// Forward and gradient in a row, as a model runs them.
inline void expect_both(Problem p, Random* layouts = nullptr, bool rules = true) {
    Call forward = p.forward();
    if (layouts != nullptr)
        for (Call::Tensor& t : forward.tensors) t.layout = layouts->layout(t.values.shape);
    const Call::Results got = forward.run();
    Answer(p).expect_forward(got, rules);
    p.take(got);
    Call grad = p.grad();
    if (layouts != nullptr)
        for (Call::Tensor& t : grad.tensors) t.layout = layouts->layout(t.values.shape);
    Answer(p).expect_grad(grad.run(), rules);
}

}  // namespace gradus::testing
