// What NsaSelectedAttention and its gradient take, refuse and promise besides their values.
#include "aclnnop/aclnn_nsa_selected_attention.h"
#include "aclnnop/aclnn_nsa_selected_attention_grad.h"
#include "ops/nsa_selected_attention/test_problem.h"

namespace gradus::testing {
namespace {

auto shape(const char* name, const Shape& s) {
    return [=](Call& c) {
        c.tensor(name).values = Array(c.tensor(name).values.type, s);
        c.tensor(name).layout = dense(s);
    };
}
auto type(const char* name, aclDataType t) {
    return [=](Call& c) { c.tensor(name).type = t; };
}
auto integer(const char* name, int64_t value) {
    return [=](Call& c) { c.integer(name, value); };
}
auto lengths(const Ints& query, const Ints& key) {
    return [=](Call& c) { c.integers("actualSeqQLenOptional", query).integers("actualSeqKvLenOptional", key); };
}

Problem problem(Sizes s = {}) {
    static Random random("contract");
    return {s, random};
}

// 9 rows of 2 heads, 64 keys of 1 head, D and Dv 128, 3 blocks of 16.
std::vector<Refusal> both_refuse() {
    return {{"layout BSND", [](Call& c) { c.words("inputLayout", "BSND"); }, "inputLayout: BSND, expected TND"},
            {"layout tnd", [](Call& c) { c.words("inputLayout", "tnd"); }, "inputLayout: tnd"},
            {"layout TND ", [](Call& c) { c.words("inputLayout", "TND "); }, "inputLayout: TND "},
            {"heads", integer("headNum", 1), "headNum: 1, expected 2"},
            {"mode 1", integer("sparseMode", 1), "sparseMode: 1, expected 0 or 2"},
            {"mode 3", integer("sparseMode", 3), "sparseMode: 3"},
            {"mode -1", integer("sparseMode", -1), "sparseMode: -1"},
            {"size 0", integer("selectedBlockSize", 0), "selectedBlockSize: 0"},
            {"size 8", integer("selectedBlockSize", 8), "selectedBlockSize: 8"},
            {"size 24", integer("selectedBlockSize", 24), "selectedBlockSize: 24, expected a multiple of 16"},
            {"size 144", integer("selectedBlockSize", 144), "selectedBlockSize: 144"},
            {"count 0", integer("selectedBlockCount", 0), "selectedBlockCount: 0, expected 1 to 128"},
            {"count 129", integer("selectedBlockCount", 129), "selectedBlockCount: 129"},
            {"count not of topk", integer("selectedBlockCount", 2), "topkIndices: shape [9, 1, 3], expected [9, 1, 2]"},
            {"query of rank 2", shape("query", {9, 256}), "query: rank 2"},
            {"query of rank 4", shape("query", {1, 9, 2, 128}), "query: rank 4"},
            {"key of rank 4", shape("key", {1, 64, 1, 128}), "key: rank 4"},
            {"value of rank 2", shape("value", {64, 128}), "value: rank 2"},
            {"query f32", type("query", ACL_FLOAT), "query: dtype f32, expected f16 or bf16"},
            {"key of another dtype", type("key", ACL_FLOAT16), "key: dtype f16, expected bf16 as query"},
            {"value of another dtype", type("value", ACL_FLOAT16), "value: dtype f16, expected bf16 as query"},
            {"topk int64", type("topkIndices", ACL_INT64), "topkIndices: dtype int64, expected int32"},
            {"topk of rank 2", shape("topkIndices", {9, 3}), "topkIndices: rank 2"},
            {"topk of other rows", shape("topkIndices", {8, 1, 3}), "topkIndices: shape [8, 1, 3]"},
            {"key heads 3", shape("key", {64, 3, 128}), "query: size 2 of dim 1, expected a multiple of 3"},
            {"D of query 0", shape("query", {9, 2, 0}), "query: size 0 of dim 2, expected 1 or more"},
            {"Dv of value 0", shape("value", {64, 1, 0}), "value: size 0 of dim 2, expected 1 or more"},
            {"heads 0",
             [](Call& c) {
                 shape("query", {9, 0, 128})(c);
                 c.integer("headNum", 0);
             },
             "query: size 0 of dim 1, expected a multiple of 1"},
            {"key heads 0", shape("key", {64, 0, 128}), "key: size 0 of dim 1"},
            {"D of key", shape("key", {64, 1, 192}), "key: shape [64, 1, 192], expected [64, 1, 128]"},
            {"keys of value", shape("value", {63, 1, 128}), "value: shape [63, 1, 128], expected [64, 1, 128]"},
            {"heads of value", shape("value", {64, 2, 128}), "value: shape [64, 2, 128]"},
            {"Dv above D", shape("value", {64, 1, 192}), "value: size 192 of dim 2, expected at most 128"},
            {"mask of rank 3", shape("attenMaskOptional", {2, 3, 1}), "attenMaskOptional: rank 3"},
            {"mask f32", type("attenMaskOptional", ACL_FLOAT), "attenMaskOptional: dtype f32"},
            {"lengths of other counts", lengths({4, 9}, {64}), "actualSeqKvLenOptional: 1 batches, expected 2"},
            {"one array alone",
             [](Call& c) {
                 c.integers("actualSeqQLenOptional", {4, 9});
             },
             "actualSeqKvLenOptional: 1 batches"},
            {"queries end early", lengths({8}, {64}), "actualSeqQLenOptional: ends at 8, expected 9"},
            {"keys end late", lengths({9}, {65}), "actualSeqKvLenOptional: ends at 65, expected 64"},
            {"queries fall", lengths({10, 9}, {48, 64}), "actualSeqQLenOptional: length 9 of entry 1"},
            {"negative", lengths({-1, 9}, {48, 64}), "actualSeqQLenOptional: length -1 of entry 0"},
            {"keys fall", lengths({4, 9}, {80, 64}), "actualSeqKvLenOptional: length 64 of entry 1"},
            {"no batches", lengths({}, {}), "actualSeqQLenOptional: ends at 0, expected 9"},
            // limits
            {"empty batch of queries", lengths({0, 9}, {16 * 3, 64}),
             "actualSeqQLenOptional: a batch of length 0, expected 1 to 131072 (a limit"},
            {"keys too few", lengths({4, 9}, {48, 64}),
             "actualSeqKvLenOptional: a batch of length 16, expected a multiple of 16 and at least 48 (a limit"}};
}

TEST(NsaSelectedAttention, Refusals) {
    const auto good = [] { return problem().forward(); };
    expect_refusals(good, both_refuse());
    expect_refusals(good, {{"max too short", shape("softmaxMaxOut", {9, 2, 1}),
                            "softmaxMaxOut: shape [9, 2, 1], expected [9, 2, 8]"},
                           {"sum f16", type("softmaxSumOut", ACL_FLOAT16), "softmaxSumOut: dtype f16, expected f32"},
                           {"out of another D", shape("attentionOut", {9, 2, 192}), "attentionOut: shape [9, 2, 192]"},
                           {"out of another dtype", type("attentionOut", ACL_FLOAT16),
                            "attentionOut: dtype f16, expected bf16 as query"}});
    expect_common_refusals(good, {.optional_tensors = {"attenMaskOptional"}});
}

TEST(NsaSelectedAttentionGrad, Refusals) {
    const auto good = [] { return problem().grad(); };
    expect_refusals(good, both_refuse());
    expect_refusals(
        good, {{"max too short", shape("softmaxMax", {9, 2, 1}), "softmaxMax: shape [9, 2, 1], expected [9, 2, 8]"},
               {"sum of other heads", shape("softmaxSum", {9, 1, 8}), "softmaxSum: shape [9, 1, 8]"},
               {"out of another D", shape("attentionOut", {9, 2, 192}), "attentionOut: shape [9, 2, 192]"},
               {"out grad of another dtype", type("attentionOutGrad", ACL_FLOAT16), "attentionOutGrad: dtype f16"},
               {"dq", shape("dqOut", {9, 2, 192}), "dqOut: shape [9, 2, 192]"},
               {"dk", shape("dkOut", {64, 2, 128}), "dkOut: shape [64, 2, 128]"},
               {"dv", shape("dvOut", {65, 1, 128}), "dvOut: shape [65, 1, 128]"},
               {"dv f16", type("dvOut", ACL_FLOAT16), "dvOut: dtype f16, expected bf16 as query"}});
    expect_common_refusals(good, {.optional_tensors = {"attenMaskOptional", "attentionOut"}});
}

// Every limit by itself, and that it can be lifted.
TEST(NsaSelectedAttention, Limits) {
    const std::pair<Sizes, const char*> rows[] = {
        {{.depth = 64, .value_depth = 64}, "query: size 64 of dim 2, expected 128 or 192"},
        {{.depth = 128, .value_depth = 64}, "value: size 64 of dim 2, expected 128 or 192"},
        {{.group = 33}, "query: heads to a head of key 33, expected 1 to 32"},
        {{.key_heads = 129, .group = 1}, "query: size of dim 1 129, expected 1 to 128"},
        {{.key_lengths = {40}, .count = 1}, "key: a batch of length 40, expected a multiple of 16"},
        {{.key_lengths = {32}}, "key: a batch of length 32, expected a multiple of 16 and at least 48"},
        {{.query_lengths = {0}}, "query: size of dim 0 0, expected 1 to"},
        {{.key_lengths = {0}}, "key: size of dim 0 0, expected 1 to"},
        {{.query_lengths = {131073}, .key_lengths = {48}, .group = 1},
         "query: a batch of length 131073, expected 1 to 131072"}};
    for (const auto& [sizes, message] : rows) {
        const bool large = sizes.rows() > 1000;
        Problem p = problem(large ? Sizes{} : sizes);
        for (Call call : {p.forward(), p.grad()}) {
            if (large)
                for (Call::Tensor& t : call.tensors)  // the shape alone
                    if (t.values.shape[0] == 9)
                        shape(t.name.c_str(), {131073, t.values.shape[1], t.values.shape[2]})(call);
            const Call::Answer answer = call.ask();
            EXPECT_EQ(answer.code, 161002) << message;
            EXPECT_NE(answer.message.find(message), std::string::npos) << answer.message;
            EXPECT_NE(answer.message.find("GRADUS_LIMITS=off"), std::string::npos) << answer.message;
            const Option off("limits", "off");
            EXPECT_EQ(call.ask().code, 0) << message;
        }
    }
}

// Of the shape alone, too: what is too long for a test to compute.
TEST(NsaSelectedAttention, LimitsOfLengths) {
    constexpr int64_t kBatches = (2 << 20) + 1, kKeys = (1 << 17) + 16;
    const auto many_batches = [](Call& c) { lengths(Ints(kBatches, 9), Ints(kBatches, 64))(c); };
    const auto long_batch = [](Call& c) {
        for (Call::Tensor& t : c.tensors)
            if (t.values.shape[0] == 64) shape(t.name.c_str(), {kKeys, t.values.shape[1], t.values.shape[2]})(c);
        lengths({9}, {kKeys})(c);
    };
    Problem p = problem();
    for (Call call : {p.forward(), p.grad()}) {
        Call batches = call, keys = call;
        many_batches(batches), long_batch(keys);
        for (const auto& [which, message] :
             {std::pair(&batches, "actualSeqQLenOptional: batches 2097153, expected 1 to 2097152"),
              std::pair(&keys, "actualSeqKvLenOptional: a batch of length 131088, expected 1 to 131072")}) {
            const Call::Answer answer = which->ask();
            EXPECT_EQ(answer.code, 161002) << message;
            EXPECT_NE(answer.message.find(message), std::string::npos) << answer.message;
        }
    }
}

// No rows: dK and dV are zeros. No keys: nothing is seen.
TEST(NsaSelectedAttention, Empty) {
    const Option off("limits", "off");
    for (const char* precision : {"fast", "golden"})
        for (const Sizes& s : std::vector<Sizes>{{.query_lengths = {0}},
                                                 {.key_lengths = {0}},
                                                 {.query_lengths = {0}, .key_lengths = {0}},
                                                 {.query_lengths = {0, 4}, .key_lengths = {20, 0}}}) {
            const Option way("precision", precision);
            const Problem p = problem(s);
            for (Call call : {p.forward(), p.grad()}) {
                const Call::Results got = call.run();
                EXPECT_EQ(got.size(), 3u);
                for (const auto& [name, array] : got)
                    for (int64_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.at(i), 0) << name;
            }
        }
}

TEST(NsaSelectedAttention, SameBits) {
    for (const aclDataType t : kTypes) {
        Problem p = problem({.type = t,
                             .query_lengths = {61, 1, 30},
                             .key_lengths = {192, 96, 96},
                             .key_heads = 2,
                             .group = 3,
                             .size = 32});
        expect_same_bits([&] { return p.forward(); });
        p.take(p.forward().run());
        expect_same_bits([&] { return p.grad(); });
        p.s.with_out = false;
        expect_same_bits([&] { return p.grad(); });
    }
}

// A batch alone has the bits that it has among others.
void expect_batches_alone(Problem p) {
    const Call::Results out = p.forward().run();
    p.take(out);
    const Call::Results grads = p.grad().run();
    Answer(p).expect_grad(grads);
    int64_t row = 0, key = 0;
    for (size_t b = 0; b < p.s.query_lengths.size(); ++b) {
        const int64_t rows = row + p.s.query_lengths[b], keys = key + p.s.key_lengths[b];
        Problem alone = p;
        alone.s.query_lengths = {p.s.query_lengths[b]}, alone.s.key_lengths = {p.s.key_lengths[b]};
        for (Array Problem::*member :
             {&Problem::query, &Problem::topk, &Problem::out, &Problem::out_grad, &Problem::max, &Problem::sum})
            alone.*member = slice(p.*member, row, rows);
        for (Array Problem::*member : {&Problem::key, &Problem::value}) alone.*member = slice(p.*member, key, keys);
        const Call::Results some = alone.forward().run(), some_grads = alone.grad().run();
        for (const auto& [name, array] : some)
            EXPECT_EQ(first_difference(array, slice(out.at(name), row, rows)), -1) << name;
        EXPECT_EQ(first_difference(some_grads.at("dqOut"), slice(grads.at("dqOut"), row, rows)), -1);
        for (const char* name : {"dkOut", "dvOut"})
            EXPECT_EQ(first_difference(some_grads.at(name), slice(grads.at(name), key, keys)), -1) << name;
        row = rows, key = keys;
    }
}

TEST(NsaSelectedAttention, BatchesAloneAreTheBatchesOfTheWhole) {
    for (const aclDataType t : kTypes)
        expect_batches_alone(problem(
            {.type = t, .query_lengths = {300, 1, 77}, .key_lengths = {64, 48, 96}, .key_heads = 2, .group = 3}));
}

// So many scores to a row that the gradient keeps those of 40 rows at a time.
TEST(NsaSelectedAttentionGrad, BatchesLongerThanAStage) {
    const Option off("limits", "off");
    Random random("stages");
    SCOPED_TRACE(random.repeat());
    expect_batches_alone(Problem({ACL_BF16, {15, 95, 20}, {48, 70, 32}, 1, 200, 2, 2, 16, 128, 2}, random));
}

TEST(NsaSelectedAttention, Products) {
    expect_products([] { return problem().forward(); }, {"Ascend910B"});
    expect_products([] { return problem().grad(); }, {"Ascend910B"});
}

TEST(NsaSelectedAttention, Executors) {
    const Sizes s{.query_lengths = {33}, .key_lengths = {64}, .mask = false};
    expect_executor_rules([s] {
        Call call = problem(s).forward();  // in C order, NULL
        Call::Tensor nothing;
        nothing.name = "attenMaskOptional", nothing.null = true;
        call.tensors.insert(call.tensors.begin() + 4, nothing);
        return call;
    });
    expect_executor_rules([s] {
        Problem p = problem(s);
        for (int64_t i = 0; i < p.sum.size(); ++i) p.sum.set(i, 40);
        Call call = p.grad();
        Call::Tensor nothing;
        nothing.name = "attenMaskOptional", nothing.null = true;
        call.tensors.insert(call.tensors.begin() + 8, nothing);
        return call;
    });
}

// Statistics of another function than the gradient's are told once in a process, to those who listen: in one of its
// own, since another test's may have been heard before.
TEST(NsaSelectedAttentionGrad, WarnsOnceWhenProbabilitiesDoNotAddUp) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Problem p = problem({.query_lengths = {33}, .mask = false});
    const auto lines = [&p](int64_t mode) {
        const Option log("log", "error");
        p.s.mode = mode;
        ::testing::internal::CaptureStderr();
        p.grad().run();
        return ::testing::internal::GetCapturedStderr();
    };
    p.take(p.forward().run());  // all keys: no mask
    const auto told = [&lines] { return lines(2).find("do not add up to 1") != std::string::npos; };
    EXPECT_EXIT(std::_Exit(lines(0).empty() && told() && lines(2).empty() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

// Both C functions, in their own orders; and a workspace of keys and rows, not of keys times rows.
TEST(NsaSelectedAttention, Workspace) {
    stream();
    char layout[] = "TND";
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const int64_t t : {4096, 65536}) {
            const Bare q(ACL_BF16, {t, 64, 192}), k(ACL_BF16, {t, 4, 192}), v(ACL_BF16, {t, 4, 128}),
                topk(ACL_INT32, {t, 4, 16});
            const Bare max(ACL_FLOAT, {t, 64, 8}), sum(ACL_FLOAT, {t, 64, 8}), out(ACL_BF16, {t, 64, 128}),
                dout(ACL_BF16, {t, 64, 128});
            const Bare dq(ACL_BF16, {t, 64, 192}), dk(ACL_BF16, {t, 4, 192}), dv(ACL_BF16, {t, 4, 128});
            uint64_t size = 0, none = 0;
            aclOpExecutor *executor = nullptr, *nobody = nullptr;
            const int64_t length = std::min<int64_t>(t, 131072);
            aclIntArray* lengths = aclCreateIntArray(&length, 1);
            ASSERT_EQ(aclnnNsaSelectedAttentionGetWorkspaceSize(q.tensor, k.tensor, v.tensor, topk.tensor, nullptr,
                                                                lengths, lengths, 0.07, 64, layout, 0, 64, 16,
                                                                max.tensor, sum.tensor, out.tensor, &size, &executor),
                      0)
                << take_message();
            EXPECT_EQ(aclnnNsaSelectedAttentionGetWorkspaceSize(q.tensor, k.tensor, v.tensor, topk.tensor, nullptr,
                                                                lengths, lengths, 0.07, 64, nullptr, 0, 64, 16,
                                                                max.tensor, sum.tensor, out.tensor, &none, &nobody),
                      161001)
                << "layout NULL";
            EXPECT_NE(take_message().find("inputLayout: NULL"), std::string::npos);
            // a head's keys and values in f32, and 16 MiB for the threads
            EXPECT_LT(static_cast<double>(size), 0x1p24 + static_cast<double>(t) * (192 + 128) * 4.0);
            EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
            ASSERT_EQ(
                aclnnNsaSelectedAttentionGradGetWorkspaceSize(
                    q.tensor, k.tensor, v.tensor, out.tensor, dout.tensor, max.tensor, sum.tensor, topk.tensor, lengths,
                    lengths, nullptr, 0.07, 64, 16, 64, layout, 0, dq.tensor, dk.tensor, dv.tensor, &size, &executor),
                0)
                << take_message();
            // a head's keys, values and their sums, who chose them, 64 MiB of P and dS, and 16 MiB for the threads
            EXPECT_LT(static_cast<double>(size),
                      0x5p24 + static_cast<double>(t) * ((2 * 192 + 128) * 4.0 + (192 + 128) * 8 + 16 * 8));
            EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
            EXPECT_EQ(aclDestroyIntArray(lengths), 0);
        }
    }
}

}  // namespace
}  // namespace gradus::testing
