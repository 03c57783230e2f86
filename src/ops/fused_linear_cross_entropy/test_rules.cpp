// The rules of the three operators: refusals, empty tensors, bits, executors, products, workspace.
#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "test_problem.h"

namespace gradus::testing {
namespace {

Call stats_call(int64_t tokens = 9, int64_t words = 130, int64_t hidden = 20, aclDataType type = ACL_BF16) {
    Random random("stats");
    return random_problem(random, type, tokens, words, hidden).stats(true);
}

Call grad_call(bool given, int64_t tokens = 9, int64_t words = 130, int64_t hidden = 20, aclDataType type = ACL_BF16) {
    Random random("grad");
    const Problem p = random_problem(random, type, tokens, words, hidden);
    return Gradient(p, random.normals(ACL_FLOAT, {tokens}), given).call();
}

Call loss_call(int64_t tokens = 9, int64_t words = 130) {
    Random random("loss");
    Call call("FusedCrossEntropyLossWithMaxSum");
    call.in("logitsMax", random.normals(ACL_FLOAT, {tokens}));
    call.in("sumExpLogits", random.filled(ACL_FLOAT, {tokens}, [&] { return random.uniform(1, 50); }));
    call.in("predictedLogits", random.normals(ACL_FLOAT, {tokens})).real("labelSmoothing", 0);
    call.in("vocabParallelLogitsOptional", random.normals(ACL_BF16, {tokens, words}));
    return call.out("lossOut", ACL_FLOAT, {tokens}).out("softMaxOutOptional", ACL_FLOAT, {tokens, words});
}

auto shape(const char* name, const Shape& s) {
    return [=](Call& c) {
        c.tensor(name).values = Array(c.tensor(name).values.type, s);
        c.tensor(name).layout = dense(s);
    };
}
auto type(const char* name, aclDataType t) {
    return [=](Call& c) { c.tensor(name).type = t; };
}
auto null(const char* name) {
    return [=](Call& c) { c.tensor(name).null = true; };
}

TEST(FusedLinearOnlineMaxSum, Refusals) {
    const auto good = [] { return stats_call(); };
    expect_refusals(
        good, {{"input of rank 3", shape("input", {1, 9, 20}), "input: rank 3"},
               {"weight of another H", shape("weight", {130, 21}), "weight: shape [130, 21], expected [130, 20]"},
               {"weight of another dtype", type("weight", ACL_FLOAT16), "weight: dtype f16, expected bf16 as input"},
               {"no words", shape("weight", {0, 20}), "weight: shape [0, 20], expected at least one row"},
               {"target too long", shape("target", {10}), "target: shape [10], expected [9]"},
               {"target f32", type("target", ACL_FLOAT), "target: dtype f32, expected int32 or int64"},
               {"max too short", shape("logitsMaxLocalOut", {8}), "logitsMaxLocalOut: shape [8], expected [9]"},
               {"sum of rank 2", shape("sumExpLogitsLocalOut", {9, 1}), "sumExpLogitsLocalOut: rank 2"},
               {"predicted f16", type("predictedLogitsLocalOut", ACL_FLOAT16), "predictedLogitsLocalOut: dtype f16"},
               {"mask too long", shape("targetMaskOut", {3}), "targetMaskOut: shape [3], expected [2]"},
               {"mask a byte a token", shape("targetMaskOut", {9}), "targetMaskOut: shape [9], expected [2]"},
               {"mask bool", type("targetMaskOut", ACL_BOOL), "targetMaskOut: dtype bool, expected uint8"},
               {"masked target of another dtype",
                [](Call& c) {
                    Call::Tensor& t = c.tensor("maskedTargetOut");
                    t.type = t.values.type == ACL_INT32 ? ACL_INT64 : ACL_INT32;
                    t.storage_dims = {100};
                },
                "maskedTargetOut: dtype int"},
               {"logits of another dtype", type("vocabParallelLogitsOutOptional", ACL_FLOAT16),
                "vocabParallelLogitsOutOptional: dtype f16, expected bf16 as input"},
               {"logits of another shape", shape("vocabParallelLogitsOutOptional", {9, 131}),
                "vocabParallelLogitsOutOptional: shape [9, 131], expected [9, 130]"},
               {"start negative", [](Call& c) { c.integer("vocabStartIndex", -1); }, "vocabStartIndex: -1"},
               {"end before start", [](Call& c) { c.integer("vocabStartIndex", 7).integer("vocabEndIndex", 6); },
                "vocabEndIndex: 6, expected vocabStartIndex 7 or more"}});
    expect_common_refusals(good, {.strict_formats = true, .optional_tensors = {"vocabParallelLogitsOutOptional"}});
    Call wide = stats_call(1, 1, 65535);
    const Call::Answer answer = wide.ask();
    EXPECT_EQ(answer.code, 161002);
    EXPECT_NE(answer.message.find("input: size 65535 of dim 1, expected 65534"), std::string::npos) << answer.message;
    EXPECT_NE(answer.message.find("GRADUS_LIMITS=off"), std::string::npos) << answer.message;
    EXPECT_EQ(stats_call(1, 1, 65534).ask().code, 0);
    const Option off("limits", "off");
    EXPECT_EQ(stats_call(1, 1, 65535).ask().code, 0);
}

TEST(FusedCrossEntropyLossWithMaxSum, Refusals) {
    const auto good = [] { return loss_call(); };
    expect_refusals(
        good,
        {{"smoothing", [](Call& c) { c.real("labelSmoothing", 0.5); }, "labelSmoothing: 0.5"},
         {"smoothing NaN", [](Call& c) { c.real("labelSmoothing", std::nan("")); }, "labelSmoothing: "},
         {"logits without softmax", null("softMaxOutOptional"), "softMaxOutOptional: NULL", 161001},
         {"softmax without logits", null("vocabParallelLogitsOptional"), "vocabParallelLogitsOptional: NULL", 161001},
         {"that null before a wrong dtype",
          [](Call& c) { c.tensor("softMaxOutOptional").null = true, c.tensor("logitsMax").type = ACL_DOUBLE; },
          "softMaxOutOptional: NULL", 161001},
         {"sum too long", shape("sumExpLogits", {10}), "sumExpLogits: shape [10], expected [9]"},
         {"predicted of rank 2", shape("predictedLogits", {9, 1}), "predictedLogits: rank 2"},
         {"loss f16", type("lossOut", ACL_FLOAT16), "lossOut: dtype f16, expected f32"},
         {"logits of other tokens", shape("vocabParallelLogitsOptional", {8, 130}),
          "vocabParallelLogitsOptional: shape [8, 130], expected [9, 130]"},
         {"softmax of another shape", shape("softMaxOutOptional", {9, 131}),
          "softMaxOutOptional: shape [9, 131], expected [9, 130]"},
         {"softmax bf16", type("softMaxOutOptional", ACL_BF16), "softMaxOutOptional: dtype bf16, expected f32"}});
    expect_common_refusals(
        good, {.strict_formats = true, .optional_tensors = {"vocabParallelLogitsOptional", "softMaxOutOptional"}});
    // input and weight are taken and not used, whatever their shapes
    Call call = loss_call();
    const Call::Results want = call.run();
    Call more = loss_call();
    more.in("inputOptional", Array(ACL_BF16, {2, 3, 4})).in("weightOptional", Array(ACL_BF16, {5}));
    EXPECT_EQ(first_difference(more.run().at("lossOut"), want.at("lossOut")), -1);
}

TEST(FusedLinearCrossEntropyLossGrad, Refusals) {
    for (const bool given : {false, true}) {
        const auto good = [given] { return grad_call(given); };
        expect_refusals(
            good,
            {{"smoothing", [](Call& c) { c.real("labelSmoothing", 0.1); }, "labelSmoothing: 0.1"},
             {"grad too long", shape("grad", {10}), "grad: shape [10], expected [9]"},
             {"grad f16", type("grad", ACL_FLOAT16), "grad: dtype f16, expected f32"},
             {"input f32", type("input", ACL_FLOAT), "input: dtype f32, expected f16 or bf16"},
             {"input of rank 1", shape("input", {9}), "input: rank 1"},
             {"weight of another H", shape("weight", {130, 21}), "weight: shape [130, 21], expected [130, 20]"},
             {"weight of another dtype", type("weight", ACL_FLOAT16), "weight: dtype f16, expected bf16 as input"},
             {"mask too short", shape("targetMask", {1}), "targetMask: shape [1], expected a bit for each of 9"},
             {"mask of rank 2", shape("targetMask", {1, 2}), "targetMask: rank 2"},
             {"mask int32", type("targetMask", ACL_INT32), "targetMask: dtype int32"},
             {"mask bool", type("targetMask", ACL_BOOL), "targetMask: dtype bool, expected uint8 (a limit"},
             {"masked target too short", shape("maskedTarget", {8}), "maskedTarget: shape [8], expected [9]"},
             {"inputGrad of another shape", shape("inputGradOut", {9, 21}), "inputGradOut: shape [9, 21]"},
             {"inputGrad of another dtype", type("inputGradOut", ACL_FLOAT16),
              "inputGradOut: dtype f16, expected bf16 as input"},
             {"weightGrad as the document has it", shape("weightGradOut", {130, 9}),
              "weightGradOut: shape [130, 9], expected [130, 20]"},
             {"weightGrad of another dtype", type("weightGradOut", ACL_FLOAT16), "weightGradOut: dtype f16"},
             {"127 words",
              [](Call& c) {
                  shape("weight", {127, 20})(c), shape("weightGradOut", {127, 20})(c);
                  for (Call::Tensor& t : c.tensors)
                      if (t.name == "softmaxOptional") shape("softmaxOptional", {9, 127})(c);
              },
              "weight: size 127 of dim 0, expected 0 or at least 128 (a limit"}});
        std::vector<std::string> optional = {"logitsMaxOptional", "sumExpLogitsOptional", "softmaxOptional"};
        expect_common_refusals(good, {.strict_formats = true, .optional_tensors = optional});
    }
    {
        const Option off("limits", "off");
        expect_refusals([] { return grad_call(false); },
                        {{"mask bool of another length",
                          [](Call& c) { shape("targetMask", {8})(c), type("targetMask", ACL_BOOL)(c); },
                          "targetMask: shape [8], expected [9]"}});
    }
    expect_refusals([] { return grad_call(true); },
                    {{"softmax of another shape", shape("softmaxOptional", {9, 131}),
                      "softmaxOptional: shape [9, 131], expected [9, 130]"},
                     {"nothing", null("softmaxOptional"), "logitsMaxOptional: NULL", 161001}});
    expect_refusals([] { return grad_call(false); },
                    {{"max alone", null("sumExpLogitsOptional"), "sumExpLogitsOptional: NULL", 161001},
                     {"sum alone", null("logitsMaxOptional"), "logitsMaxOptional: NULL", 161001},
                     {"max too long", shape("logitsMaxOptional", {10}), "logitsMaxOptional: shape [10], expected [9]"},
                     {"sum of rank 2", shape("sumExpLogitsOptional", {9, 1}), "sumExpLogitsOptional: rank 2"}});
    // with softmax, the statistics are not looked at; a longer mask will do
    const Call::Results want = grad_call(true).run();
    Call more = grad_call(true);
    more.in("logitsMaxOptional", Array(ACL_FLOAT, {3}));
    more.in("sumExpLogitsOptional", Array(ACL_FLOAT, {2, 1, 1, 1, 1, 1, 1, 2}));
    Array longer(ACL_UINT8, {9});
    std::copy_n(more.tensor("targetMask").values.bytes.begin(), 2, longer.bytes.begin());
    more.tensor("targetMask").values = longer;
    more.tensor("targetMask").layout = dense({9});
    const Call::Results got = more.run();
    for (const auto& [name, array] : want) EXPECT_EQ(first_difference(got.at(name), array), -1) << name;
}

TEST(FusedLinearCrossEntropy, Empty) {
    for (const auto& [tokens, words, hidden] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {0, 130, 20}, {9, 0, 20}, {9, 130, 0}, {0, 0, 20}, {0, 0, 0}})
        for (const bool given : {false, true})
            for (const char* precision : {"fast", "golden"}) {
                const Option way("precision", precision);
                Call call = grad_call(given, tokens, words, hidden);
                call.max_workspace = 0;
                const Call::Results got = call.run();
                for (const auto& [name, array] : got)
                    for (int64_t i = 0; i < array.size(); ++i) EXPECT_EQ(array.at(i), 0) << name;
                EXPECT_EQ(got.size(), 2u);
            }
    Call none = stats_call(0);
    none.max_workspace = 0;
    EXPECT_EQ(none.run().size(), 6u);
    for (const char* precision : {"fast", "golden"}) {
        const Option way("precision", precision);
        const Call::Results flat = stats_call(9, 130, 0).run();
        for (int64_t i = 0; i < 9; ++i) {
            EXPECT_EQ(flat.at("logitsMaxLocalOut").at(i), 0);
            EXPECT_EQ(flat.at("sumExpLogitsLocalOut").at(i), 130);
        }
    }
    EXPECT_EQ(loss_call(0, 5).run().size(), 2u);
    EXPECT_EQ(loss_call(5, 0).run().size(), 2u);
}

TEST(FusedLinearCrossEntropy, SameBits) {
    for (const aclDataType t : kTypes) {
        expect_same_bits([t] { return stats_call(201, 420, 70, t); });
        expect_same_bits([t] { return grad_call(false, 201, 420, 70, t); });
        expect_same_bits([t] { return grad_call(true, 201, 420, 70, t); });
    }
    expect_same_bits([] { return grad_call(false, 1030, 200, 5); });
    expect_same_bits([] { return loss_call(40, 3000); });
}

// A token alone has the bits that it has among others.
TEST(FusedLinearCrossEntropy, TokensAloneAreTheTokensOfTheWhole) {
    const Option off("limits", "off");
    Random random("alone");
    for (const aclDataType t : kTypes)
        for (const bool given : {false, true})
            for (const auto& [tokens, words, hidden] :
                 std::vector<std::tuple<int64_t, int64_t, int64_t>>{{230, 800, 37}, {1500, 300, 6}, {5, 13000, 8}}) {
                const Problem p = random_problem(random, t, tokens, words, hidden);
                const Gradient g(p, random.normals(ACL_FLOAT, {tokens}), given);
                const Call::Results stats = p.stats().run(), grads = g.call().run();
                for (const auto& [begin, end] :
                     std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {3, 5}, {tokens - 1, tokens}}) {
                    Problem part(slice(p.input, begin, end), p.weight, slice(p.target, begin, end), p.start, p.end);
                    Gradient alone(part, slice(g.grad, begin, end), given);
                    alone.max = slice(g.max, begin, end), alone.sum = slice(g.sum, begin, end);
                    if (given) alone.softmax = slice(g.softmax, begin, end);
                    const Call::Results some = part.stats().run();
                    for (const char* name : {"logitsMaxLocalOut", "sumExpLogitsLocalOut", "predictedLogitsLocalOut"})
                        EXPECT_EQ(first_difference(some.at(name), slice(stats.at(name), begin, end)), -1) << name;
                    EXPECT_EQ(first_difference(alone.call().run().at("inputGradOut"),
                                               slice(grads.at("inputGradOut"), begin, end)),
                              -1);
                }
            }
}

TEST(FusedLinearCrossEntropy, Products) {
    const std::vector<std::string> supported = {"Ascend910B", "Ascend910_93"};
    expect_products([] { return stats_call(); }, supported);
    expect_products([] { return loss_call(); }, supported);
    expect_products([] { return grad_call(false); }, supported);
}

// Problems that differ in their values alone.
Problem alike(Random& random, aclDataType t) {
    const Array target = random.filled(ACL_INT64, {33}, [&] { return static_cast<double>(random.between(0, 200)); });
    return {random.normals(t, {33, 20}, 0.5), random.normals(t, {140, 20}, 0.5), target, 20, 160};
}

TEST(FusedLinearCrossEntropy, Executors) {
    const auto random = std::make_shared<Random>("executors");
    expect_executor_rules([random] { return alike(*random, ACL_BF16).stats(); });
    expect_executor_rules([random] {
        const Problem p = alike(*random, ACL_FLOAT16);
        return Gradient(p, random->normals(ACL_FLOAT, {33}), false).call();
    });
    expect_executor_rules([random] {
        Call call = loss_call(33, 65);
        call.tensor("predictedLogits").values = random->normals(ACL_FLOAT, {33});
        call.tensor("vocabParallelLogitsOptional").values = random->normals(ACL_BF16, {33, 65});
        for (const char* name : {"weightOptional", "inputOptional"}) {  // in C order, NULL
            Call::Tensor nothing;
            nothing.name = name;
            nothing.null = true;
            call.tensors.insert(call.tensors.begin() + 3, nothing);
        }
        return call;
    });
}

// Nothing of size BT·V: less than 64 MiB beyond BT·H + V·H floats, at real sizes and at extreme ones, on every path.
TEST(FusedLinearCrossEntropy, Workspace) {
    stream();
    for (const std::string& isa : instruction_sets())
        for (const char* threads : {"1", "2", "64"})
            for (const aclDataType t : kTypes)
                for (const auto& [tokens, words, hidden] :
                     std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1024, 16032, 4096},
                                                                        {512, 151936, 896},
                                                                        {1024, 50257, 768},
                                                                        {1024, 32000, 2304},
                                                                        {1, 262144, 8192},
                                                                        {65536, 128, 4096},
                                                                        {65536, 151936, 4096},
                                                                        {32768, 8192, 4096},
                                                                        {200000, 20000, 512},
                                                                        {128, 128, 65534},
                                                                        {1, 128, 65534},
                                                                        {4096, 262144, 65534},
                                                                        {8, 128, 1}}) {
                    const Option cap("max_isa", isa), count("num_threads", threads);
                    const Bare grad(ACL_FLOAT, {tokens}), input(t, {tokens, hidden}), weight(t, {words, hidden});
                    const Bare mask(ACL_UINT8, {(tokens + 7) / 8}), target(ACL_INT32, {tokens});
                    const Bare max(ACL_FLOAT, {tokens}), sum(ACL_FLOAT, {tokens}), picked(ACL_FLOAT, {tokens});
                    const Bare input_grad(t, {tokens, hidden}), weight_grad(t, {words, hidden});
                    uint64_t size = 0;
                    aclOpExecutor* executor = nullptr;
                    ASSERT_EQ(aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(
                                  grad.tensor, input.tensor, weight.tensor, mask.tensor, target.tensor, 0, max.tensor,
                                  sum.tensor, nullptr, input_grad.tensor, weight_grad.tensor, &size, &executor),
                              0)
                        << take_message();
                    EXPECT_LT(static_cast<double>(size), 0x1p26 + 4.0 * static_cast<double>((tokens + words) * hidden))
                        << isa << " " << threads << " " << text({tokens, words, hidden});
                    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
                    const Bare masked(ACL_INT32, {tokens}), bits(ACL_UINT8, {(tokens + 7) / 8});
                    ASSERT_EQ(aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(
                                  input.tensor, weight.tensor, target.tensor, 0, words, max.tensor, sum.tensor,
                                  picked.tensor, bits.tensor, masked.tensor, nullptr, &size, &executor),
                              0)
                        << take_message();
                    EXPECT_LT(static_cast<double>(size), 0x1p26 + 4.0 * static_cast<double>((tokens + words) * hidden));
                    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
                }
}

}  // namespace
}  // namespace gradus::testing
