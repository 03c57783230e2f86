// FusedLinearOnlineMaxSum, FusedCrossEntropyLossWithMaxSum and FusedLinearCrossEntropyLossGrad against their formulas
// in f64, through the public C interface.
#include <cstdlib>

#include "test_problem.h"

namespace gradus::testing {
namespace {

TEST(FusedLinearOnlineMaxSum, KnownAnswer) {
    for (const aclDataType type : kTypes) {
        const Problem p(of(type, {3, 4}, Doubles(12, 1)), of(type, {5, 4}, Doubles(20, 1)),
                        of(ACL_INT32, {3}, {1, 1, 1}), 0, 2);
        const Call::Results got = p.stats().run();
        for (int64_t i = 0; i < 3; ++i) {
            EXPECT_EQ(got.at("logitsMaxLocalOut").at(i), 4);
            EXPECT_EQ(got.at("sumExpLogitsLocalOut").at(i), 5);
            EXPECT_EQ(got.at("predictedLogitsLocalOut").at(i), 0);
            EXPECT_EQ(got.at("maskedTargetOut").at(i), 1);
        }
        EXPECT_EQ(got.at("targetMaskOut").bytes[0], std::byte{0});
    }
}

TEST(FusedCrossEntropyLossWithMaxSum, KnownAnswer) {
    const Array half_one = of(ACL_FLOAT, {2}, {0.5, 1}), logits = of(ACL_FLOAT, {2, 2}, {1, 0.5, 0.5, 1});
    const Call::Results got = loss_call(half_one, half_one, half_one, &logits).run();
    EXPECT_NEAR(got.at("lossOut").at(0), -1.193147, 1e-6);
    EXPECT_NEAR(got.at("lossOut").at(1), -1, 1e-6);
    const double want[] = {3.297443, 2, 0.606531, 1};
    for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(got.at("softMaxOutOptional").at(i), want[i], 1e-6);
}

// Every dtype of the logits, any view, logits above the maximum, overflow and NaN included.
TEST(FusedCrossEntropyLossWithMaxSum, Values) {
    Random random("loss");
    for (const std::string& isa : instruction_sets())
        for (const char* precision : {"fast", "golden"})
            for (const aclDataType type : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16})
                for (const auto& [tokens, words] :
                     std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 33}, {40, 1500}}) {
                    const Option cap("max_isa", isa), way("precision", precision);
                    Array logits = random.normals(type, {tokens, words}, 8),
                          max = random.normals(ACL_FLOAT, {tokens}, 5);
                    const Array sum = random.filled(ACL_FLOAT, {tokens}, [&] { return random.uniform(0.5, 100); });
                    const Array predicted = random.normals(ACL_FLOAT, {tokens});
                    if (tokens == 3) logits.set(5, -std::nan("")), logits.set(40, -HUGE_VAL), max.set(2, -90);
                    Call call = loss_call(max, sum, predicted, &logits);
                    if (tokens > 1)
                        for (Call::Tensor& t : call.tensors) t.layout = random.layout(t.values.shape);
                    const Call::Results got = call.run();
                    const bool way_is_fast = std::string(precision) == "fast";
                    Doubles loss, loss_slack, softmax, slack;
                    for (int64_t i = 0; i < tokens; ++i) {
                        loss.push_back(std::log(sum.at(i)) - predicted.at(i));
                        loss_slack.push_back(kU * (std::fabs(std::log(sum.at(i))) + std::fabs(predicted.at(i))));
                        for (int64_t v = 0; v < words; ++v) {
                            const double d = logits.at(i * words + v) - max.at(i), e = std::exp(d) / sum.at(i);
                            // exp itself overflows; golden has room for it
                            softmax.push_back(std::exp(d) > 0x1p128 && way_is_fast ? HUGE_VAL : e);
                            slack.push_back((e > 0 ? e * (std::fabs(d) + 3) * kU : 0) + 0x1p-149 / sum.at(i) +
                                            0x1p-149);
                        }
                    }
                    SCOPED_TRACE(isa + " " + precision + " " + type_name(type) + " " + random.repeat());
                    EXPECT_EQ(judge(got.at("lossOut"), loss, loss_slack, Promise::summed), "");
                    EXPECT_EQ(judge(got.at("softMaxOutOptional"), softmax, slack, Promise::summed), "");
                }
    const Array one = of(ACL_FLOAT, {1}, {1});
    EXPECT_EQ(loss_call(one, one, one, nullptr).run().at("lossOut").at(0), -1) << "log 1 - 1, without logits";
}

// Rows of softmax that begin with a line, elsewhere, and rows shorter than one.
TEST(FusedCrossEntropyLossWithMaxSum, PastTheCache) {
    Random random("past");
    for (const auto& [type, words] :
         std::vector<std::pair<aclDataType, int64_t>>{{ACL_FLOAT, 577}, {ACL_BF16, 1600}, {ACL_FLOAT16, 7}}) {
        SCOPED_TRACE(std::string(type_name(type)) + " " + std::to_string(words));
        const int64_t tokens = 16384 / words + 1;
        const Array logits = random.normals(type, {tokens, words}, 8), max = random.normals(ACL_FLOAT, {tokens}, 5);
        const Array sum = random.filled(ACL_FLOAT, {tokens}, [&] { return random.uniform(0.5, 100); });
        expect_same_bits_past_cache([&] { return loss_call(max, sum, max, &logits); });
    }
}

// Sizes around every strip, block and k block, on every instruction set, all modes.
TEST(FusedLinearCrossEntropy, Sizes) {
    const Option off("limits", "off");
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        Random random("sizes");
        for (const auto& [tokens, words, hidden] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
                 {1, 1, 1},     {2, 3, 2},     {5, 15, 3},    {6, 16, 31},   {7, 17, 32},    {8, 31, 33},
                 {9, 33, 63},   {11, 63, 64},  {12, 65, 65},  {13, 95, 127}, {15, 96, 15},   {16, 97, 16},
                 {17, 127, 17}, {31, 128, 8},  {32, 129, 48}, {33, 191, 47}, {95, 192, 20},  {96, 193, 30},
                 {97, 200, 40}, {3, 383, 257}, {2, 385, 256}, {1, 255, 513}, {129, 130, 70}, {1, 1000, 191},
                 {4, 5, 200},   {193, 2, 193}, {100, 400, 96}})
            for (const aclDataType type : kTypes) {
                SCOPED_TRACE(isa + " " + type_name(type) + " " + text({tokens, words, hidden}) + " " + random.repeat());
                const Problem p = random_problem(random, type, tokens, words, hidden, random.pick<double>({0.5, 2}));
                const bool logits = random.chance(0.5);
                p.expect(p.stats(logits).run(), logits);
                const Array grad = random.normals(ACL_FLOAT, {tokens});
                Gradient(p, grad, false).expect();
                Gradient(p, grad, true).expect();
                if (HasFailure()) return;
            }
    }
}

// Several chunks and panels, in both orders, and more than one group of panels.
TEST(FusedLinearCrossEntropy, ChunksAndPanels) {
    const Option off("limits", "off");
    Random random("chunks");
    for (const auto& [tokens, words, hidden] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {2100, 150, 5}, {1030, 1700, 6}, {3, 13000, 9}, {1, 3 * 3072 + 5, 12}, {2, 200, 9000}})
        for (const aclDataType type : kTypes) {
            SCOPED_TRACE(std::string(type_name(type)) + " " + text({tokens, words, hidden}) + " " + random.repeat());
            const Problem p = random_problem(random, type, tokens, words, hidden);
            p.expect(p.stats().run());
            Gradient(p, random.normals(ACL_FLOAT, {tokens}), random.chance(0.5)).expect();
        }
}

// The vocabularies of real models, with few tokens and little hidden.
TEST(FusedLinearCrossEntropy, RealVocabularies) {
    Random random("real");
    for (const int64_t words : {151936, 262144})
        for (const aclDataType type : kTypes) {
            SCOPED_TRACE(std::string(type_name(type)) + " " + std::to_string(words) + " " + random.repeat());
            const Problem p = random_problem(random, type, 3, words, 8, 2);
            p.expect(p.stats().run());
            Gradient(p, random.normals(ACL_FLOAT, {3}), false).expect();
        }
}

TEST(FusedLinearCrossEntropy, Views) {
    const Option off("limits", "off");
    Random random("views");
    for (int i = 0; i < 40 * rounds(); ++i) {
        const Problem p = random_problem(random, random.pick<aclDataType>({ACL_FLOAT16, ACL_BF16}),
                                         random.between(1, 40), random.between(1, 260), random.between(1, 70));
        const Gradient g(p, random.normals(ACL_FLOAT, {p.tokens}), random.chance(0.5));
        Call stats = p.stats(true), grad = g.call();
        for (Call* call : {&stats, &grad})
            for (Call::Tensor& tensor : call->tensors) tensor.layout = random.layout(tensor.values.shape);
        SCOPED_TRACE("case " + std::to_string(i) + " " + random.repeat());
        p.expect(stats.run(), true);
        g.expect(grad.run());
    }
}

// Golden is the formula rounded once: no rounding of g.
TEST(FusedLinearCrossEntropy, Golden) {
    const Option golden("precision", "golden"), off("limits", "off");
    Random random("golden");
    for (const aclDataType type : kTypes)
        for (const bool given : {false, true}) {
            const Problem p = random_problem(random, type, 9, 130, 33);
            p.expect(p.stats(true).run(), true);
            const Gradient g(p, random.normals(ACL_FLOAT, {9}), given);
            const Call::Results got = g.call().run();
            int64_t differ = 0;
            for (const auto& [name, want] : {std::pair("inputGradOut", &g.dx), std::pair("weightGradOut", &g.dw)})
                for (int64_t i = 0; i < got.at(name).size(); ++i)
                    differ += got.at(name).at(i) != rounded((*want)[static_cast<size_t>(i)], type);
            EXPECT_LE(differ, 2) << type_name(type);
        }
}

// The whole pipeline over shards: R of them give the loss and the gradients of one. Reductions as a program would do
// them.
struct Pipeline {
    Doubles loss, dx, dw;
};
Pipeline pipeline(const Array& input, const Array& weight, const Array& target, const Array& grad,
                  const std::vector<int64_t>& bounds) {
    const int64_t tokens = input.shape[0], hidden = input.shape[1];
    const auto shards = static_cast<int64_t>(bounds.size()) - 1;
    std::vector<Call::Results> stats;
    for (int64_t r = 0; r < shards; ++r) {
        const auto k = static_cast<size_t>(r);
        const Problem p(input, slice(weight, bounds[k], bounds[k + 1]), target, bounds[k], bounds[k + 1]);
        stats.push_back(p.stats().run());
    }
    Array max(ACL_FLOAT, {tokens}), sum(ACL_FLOAT, {tokens}), predicted(ACL_FLOAT, {tokens});
    for (int64_t i = 0; i < tokens; ++i) {
        double m = -HUGE_VAL, s = 0, q = 0;
        for (const Call::Results& r : stats) m = std::max(m, r.at("logitsMaxLocalOut").at(i));
        for (const Call::Results& r : stats) {
            s += r.at("sumExpLogitsLocalOut").at(i) * std::exp(r.at("logitsMaxLocalOut").at(i) - m);
            const bool masked =
                (std::to_integer<int>(r.at("targetMaskOut").bytes[static_cast<size_t>(i / 8)]) >> i % 8 & 1) != 0;
            if (!masked) q = r.at("predictedLogitsLocalOut").at(i) + r.at("logitsMaxLocalOut").at(i) - m;
        }
        max.set(i, m), sum.set(i, s), predicted.set(i, q);
    }
    Pipeline result;
    const Array loss = loss_call(max, sum, predicted, nullptr).run().at("lossOut");
    for (int64_t i = 0; i < tokens; ++i) result.loss.push_back(loss.at(i));
    result.dx.assign(static_cast<size_t>(tokens * hidden), 0);
    for (int64_t r = 0; r < shards; ++r) {
        const auto k = static_cast<size_t>(r);
        const Array part = slice(weight, bounds[k], bounds[k + 1]);
        Call call("FusedLinearCrossEntropyLossGrad");
        call.in("grad", grad).in("input", input).in("weight", part).in("targetMask", stats[k].at("targetMaskOut"));
        call.in("maskedTarget", stats[k].at("maskedTargetOut")).real("labelSmoothing", 0);
        call.in("logitsMaxOptional", max).in("sumExpLogitsOptional", sum);
        const Call::Results got =
            call.out("inputGradOut", input.type, input.shape).out("weightGradOut", input.type, part.shape).run();
        for (size_t i = 0; i < result.dx.size(); ++i)
            result.dx[i] += got.at("inputGradOut").at(static_cast<int64_t>(i));
        for (int64_t i = 0; i < part.size(); ++i) result.dw.push_back(got.at("weightGradOut").at(i));
    }
    return result;
}

TEST(FusedLinearCrossEntropy, Shards) {
    const Option off("limits", "off");
    Random random("shards");
    const int64_t tokens = 37, words = 700, hidden = 50;
    for (const aclDataType type : kTypes) {
        Array target(ACL_INT64, {tokens});
        for (int64_t i = 0; i < tokens; ++i) target.set(i, static_cast<double>(random.between(0, words - 1)));
        const Problem whole(random.normals(type, {tokens, hidden}, 0.5), random.normals(type, {words, hidden}, 0.5),
                            target, 0, words);
        const Array grad = random.normals(ACL_FLOAT, {tokens});
        const Gradient g(whole, grad, false);
        for (const std::vector<int64_t>& bounds :
             std::vector<std::vector<int64_t>>{{0, 700}, {0, 350, 700}, {0, 130, 260, 567, 700}, {0, 1, 699, 700}}) {
            const Pipeline got = pipeline(whole.input, whole.weight, target, grad, bounds);
            const double shards = static_cast<double>(bounds.size() - 1);
            Doubles slack = g.dx_slack, loss_slack;
            for (size_t i = 0; i < got.dx.size(); ++i) {
                // each shard's inputGrad is rounded to 16 bits; its part of Σ|terms| is at most all of it
                const double terms = g.dx_slack[i] / half_relative(type);
                slack[i] += shards * half_relative(type) * terms + 1e-7;
                EXPECT_NEAR(got.dx[i], g.dx[i], slack[i]) << i;
            }
            for (size_t i = 0; i < got.dw.size(); ++i)
                EXPECT_NEAR(got.dw[i], g.dw[i], g.dw_slack[i] + ulp(g.dw[i], type)) << i;
            for (size_t i = 0; i < got.loss.size(); ++i) {
                const double want = std::log(whole.sum[i]) - whole.predicted[i];
                EXPECT_NEAR(got.loss[i], want,
                            whole.sum_slack[i] / whole.sum[i] + 2 * whole.predicted_slack[i] + 2 * whole.max_slack[i] +
                                8 * kU * (1 + std::fabs(want) + std::fabs(whole.max[i])))
                    << i;
            }
        }
    }
}

// The gradients are the derivative of the loss, through all three operators: central differences of fourth order.
TEST(FusedLinearCrossEntropy, FiniteDifferences) {
    const Option golden("precision", "golden"), off("limits", "off");
    Random random("differences");
    const int64_t tokens = 3, words = 11, hidden = 4;
    const auto grid = [&] { return static_cast<double>(random.between(-16, 16)) / 16; };  // steps of h are exact in f16
    const Array input = random.filled(ACL_FLOAT16, {tokens, hidden}, grid);
    const Array weight = random.filled(ACL_FLOAT16, {words, hidden}, grid);
    const Array target = of(ACL_INT32, {tokens}, {2, 7, 10}), grad = of(ACL_FLOAT, {tokens}, {1, -2, 0.5});
    const std::vector<int64_t> bounds = {0, 4, 11};
    const Pipeline at = pipeline(input, weight, target, grad, bounds);
    const double h = 0x1p-4;
    for (const bool of_input : {true, false}) {
        const Array& base = of_input ? input : weight;
        for (int64_t k = 0; k < base.size(); ++k) {
            double slope = 0;
            for (const auto& [step, factor] :
                 std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
                Array moved = base;
                moved.set(k, base.at(k) + step * h);
                const Pipeline there =
                    pipeline(of_input ? moved : input, of_input ? weight : moved, target, grad, bounds);
                for (int64_t i = 0; i < tokens; ++i)
                    slope += factor * grad.at(i) * there.loss[static_cast<size_t>(i)] / (12 * h);
            }
            const double got = (of_input ? at.dx : at.dw)[static_cast<size_t>(k)];
            // two shards rounded to f16, the loss to f32, truncation h⁴/30 of a fifth derivative of order 1
            EXPECT_NEAR(got, slope, 0x1p-10 * (1 + std::fabs(slope)) + 3.5 * (h * h * h * h / 30 + 20 * kU / h)) << k;
        }
    }
}

// NaN and infinities stay with their token in inputGrad and with their word in weightGrad's sums, as the formula has
// it.
TEST(FusedLinearCrossEntropy, SpecialValues) {
    const Option off("limits", "off");
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes)
            for (const double special : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
                SCOPED_TRACE(isa + " " + type_name(type) + " " + std::to_string(special));
                Array x = of(type, {9, 3}, Doubles(27, 0.5)), w = of(type, {200, 3}, Doubles(600, 0.25));
                x.set(13, special);
                const Problem p(x, w, of(ACL_INT32, {9}, {1, 2, 3, 4, 5, 6, 300, 8, 9}), 0, 200);
                const Call::Results got = p.stats(true).run();
                p.expect(got, true);
                const Call::Results grad = Gradient(p, of(ACL_FLOAT, {9}, Doubles(9, 1)), false).call().run();
                for (int64_t i = 0; i < 27; ++i) EXPECT_EQ(std::isnan(grad.at("inputGradOut").at(i)), i / 3 == 4) << i;
                // a word without a finite logit among many
                Array one = of(type, {1, 1}, {1}), many = of(type, {500, 1}, Doubles(500, 0.5));
                for (int64_t v = 0; v < 300; ++v) many.set(v, -HUGE_VAL);
                const Call::Results few = Problem(one, many, of(ACL_INT64, {1}, {499}), 0, 500).stats().run();
                EXPECT_EQ(few.at("logitsMaxLocalOut").at(0), 0.5);
                EXPECT_EQ(few.at("sumExpLogitsLocalOut").at(0), 200);
            }
    }
}

// What a mask hides is never used: NaN in the statistics' place of other tokens, targets outside, mask bits behind BT.
TEST(FusedLinearCrossEntropy, TargetsOutside) {
    const Option off("limits", "off");
    Random random("outside");
    for (const aclDataType index : {ACL_INT32, ACL_INT64}) {
        Problem p = random_problem(random, ACL_BF16, 13, 150, 20);
        p.masked_target = of(index, {13}, {-1, 150, 151, -2147483648.0, 2147483647, 0, 149, 5, 5, 5, 5, 5, 5});
        for (std::byte& b : p.mask.bytes) b = std::byte{0};
        p.mask.bytes[1] = std::byte{0xE2};  // token 9, and three bits that belong to nobody
        Gradient(p, random.normals(ACL_FLOAT, {13}), false).expect();
        Gradient(p, random.normals(ACL_FLOAT, {13}), true).expect();
        // the same mask, a byte a token
        const Gradient g(p, random.normals(ACL_FLOAT, {13}), true);
        const Call::Results want = g.call().run();
        Array bytes(ACL_BOOL, {13});
        for (int64_t i = 0; i < 13; ++i) bytes.bytes[static_cast<size_t>(i)] = std::byte{i == 9};
        Call call = g.call();
        call.tensor("targetMask").values = bytes;
        call.tensor("targetMask").layout = dense({13});
        const Call::Results got = call.run();
        for (const auto& [name, array] : want) EXPECT_EQ(first_difference(got.at(name), array), -1) << name;
    }
    // a target inside the range but behind the shard's rows reads nothing
    const Problem beyond(random.normals(ACL_BF16, {2, 4}), random.normals(ACL_BF16, {3, 4}), of(ACL_INT32, {2}, {2, 7}),
                         0, 10);
    beyond.expect(beyond.stats().run());
}

// The judge sees every planted fault, so the tests above can fail.
TEST(FusedLinearCrossEntropy, PlantedFaultsAreSeen) {
    const Option off("limits", "off");
    Random random("faults");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, 50, 200, 41);
        const Gradient g(p, of(ACL_FLOAT, {50}, Doubles(50, 1)), true);
        EXPECT_EQ(judge(of(type, p.input.shape, g.dx), g.dx, g.dx_slack, Promise::summed), "");
        for (const Fault fault : {Fault::sign, Fault::one_off, Fault::missing_tail, Fault::stale_row})
            for (const auto& [shape, want, slack] :
                 {std::tuple(p.input.shape, &g.dx, &g.dx_slack), std::tuple(p.weight.shape, &g.dw, &g.dw_slack)})
                EXPECT_NE(judge(plant(fault, type, shape, *want), *want, *slack, Promise::summed), "")
                    << fault_name(fault) << " in " << type_name(type);
        // mistakes of this family: a target not subtracted, a token's grad of its neighbour
        Problem other = p;
        other.mask.bytes[2] = static_cast<std::byte>(~std::to_integer<unsigned>(p.mask.bytes[2]));
        const Gradient wrong(other, g.grad, true);
        EXPECT_NE(judge(of(type, p.input.shape, wrong.dx), g.dx, g.dx_slack, Promise::summed), "");
    }
}

}  // namespace
}  // namespace gradus::testing
