// NsaSelectedAttention and its gradient against their formulas in f64, through the public C interface.
#include "ops/nsa_selected_attention/test_problem.h"

namespace gradus::testing {
namespace {

std::string name_of(const Sizes& s) {
    return std::string(type_name(s.type)) + " queries " + text(s.query_lengths) + " keys " + text(s.key_lengths) +
           " heads, group, D, Dv, size, count, mode, out " +
           text({s.key_heads, s.group, s.depth, s.value_depth, s.size, s.count, s.mode, s.with_out});
}

// What the device takes: sizes, counts, groups, D and Dv, on every instruction set and in golden.
TEST(NsaSelectedAttention, Values) {
    Random random("values");
    for (const std::string& isa : instruction_sets())
        for (const aclDataType type : kTypes)
            for (const Sizes& s :
                 std::vector<Sizes>{{type, {33}, {64}, 1, 1, 128, 128, 16, 3, 2},
                                    {type, {20, 1, 17}, {48, 96, 64}, 2, 2, 192, 128, 16, 3, 0},
                                    {type, {30}, {64}, 1, 5, 128, 128, 32, 2, 2, true, false},
                                    {type, {40}, {192}, 1, 16, 192, 128, 64, 3, 2},
                                    {type, {9, 5}, {128, 128}, 1, 32, 192, 192, 128, 1, 2, true, false},
                                    {type, {70}, {144}, 2, 4, 128, 128, 48, 3, 0, false}}) {
                const Option cap("max_isa", isa);
                SCOPED_TRACE(isa + " " + name_of(s) + " " + random.repeat());
                expect_both(Problem(s, random));
            }
}

TEST(NsaSelectedAttention, Golden) {
    const Option golden("precision", "golden"), off("limits", "off");
    Random random("golden");
    for (const aclDataType type : kTypes)
        for (const Sizes& s : std::vector<Sizes>{{type, {11}, {40}, 2, 3, 20, 12, 16, 4, 2},
                                                 {type, {3, 0, 6}, {17, 5, 33}, 1, 2, 8, 8, 16, 2, 0, true, false}}) {
            SCOPED_TRACE(name_of(s) + " " + random.repeat());
            expect_both(Problem(s, random));
        }
}

// Without limits: any D, any group, ragged blocks, batches of any length, none included; any view of every tensor.
// CANN's rule of shares is left out for very few columns alone: what the rounding of dS leaves in dQ is in proportion
// to scaleValue = 1/√D, and at D = 2 it was within its bound, but in 1.1 % of the elements beyond a quarter of the
// rule.
TEST(NsaSelectedAttention, Sweep) {
    const Option off("limits", "off");
    Random random("sweep");
    for (int round = 0; round < 40 * rounds(); ++round) {
        Sizes s;
        s.type = random.pick(std::vector<aclDataType>{ACL_FLOAT16, ACL_BF16});
        const int64_t batches = random.between(1, 3);
        s.query_lengths.clear(), s.key_lengths.clear();
        for (int64_t b = 0; b < batches; ++b) {
            s.query_lengths.push_back(random.chance(0.2) ? random.between(0, 1) : random.between(1, 40));
            s.key_lengths.push_back(random.chance(0.1) ? 0 : random.between(1, 150));
        }
        s.query_lengths[0] = std::max<int64_t>(1, s.query_lengths[0]);
        s.key_heads = random.between(1, 3), s.group = random.pick(Ints{1, 2, 3, 5, 7, 16, 33});
        s.depth = random.between(1, 70), s.value_depth = random.between(1, s.depth);
        s.size = 16 * random.between(1, 8), s.count = random.between(1, 12);
        s.mode = random.pick(Ints{0, 2}), s.mask = s.mode == 2 || random.chance(0.5), s.with_out = random.chance(0.6);
        const Option isa("max_isa", random.pick(instruction_sets()));
        SCOPED_TRACE(name_of(s) + " " + random.repeat());
        expect_both(Problem(s, random, random.uniform(0.3, 2)), random.chance(0.7) ? &random : nullptr, s.depth >= 16);
        if (HasFailure()) return;
    }
}

// Longer chains: a block that hundreds of rows choose, the same block many times in a row's list.
TEST(NsaSelectedAttention, ManyRowsOfOneBlock) {
    const Option off("limits", "off");
    Random random("many");
    for (const aclDataType type : kTypes) {
        Problem p({type, {700}, {64}, 1, 2, 24, 16, 32, 20, 2}, random);
        for (int64_t i = 0; i < p.topk.size(); ++i) p.topk.set(i, 0);
        SCOPED_TRACE(random.repeat());
        expect_both(p);
        for (int64_t i = 0; i < p.query.size(); ++i) p.query.set(i, 0.1);  // constants: where chains round one way
        for (int64_t i = 0; i < p.out_grad.size(); ++i) p.out_grad.set(i, 0.3);
        expect_both(p);
    }
}

// A row that sees nothing: zeros, and nothing that it holds gets anywhere; no more does a key that nobody sees.
TEST(NsaSelectedAttention, NothingLeaks) {
    const Option off("limits", "off");
    Random random("leak");
    const double nan = std::nan("");
    for (const char* precision : {"fast", "golden"})
        for (const aclDataType type : kTypes) {
            const Option way("precision", precision);
            Problem p({type, {20}, {64}, 1, 3, 16, 16, 16, 2, 2}, random);
            for (int64_t row = 0; row < 20;
                 ++row)  // row 5 sees block 0 in part, rows 3 and 7 nothing, block 2 is unused
                p.topk.set(2 * row, row == 3   ? -5
                                    : row == 7 ? 3
                                               : 0),
                    p.topk.set(2 * row + 1, row == 3 || row == 7 ? 9 : 1);
            const Call::Results clean = p.forward().run();
            Problem dirty = p;
            const auto spoil = [nan](Array& a, int64_t row) {
                const int64_t n = a.size() / a.shape[0];
                for (int64_t i = row * n; i < (row + 1) * n; ++i) a.set(i, i % 2 == 0 ? nan : HUGE_VAL);
            };
            for (int64_t key = 20; key < 64; ++key) spoil(dirty.key, key), spoil(dirty.value, key);
            for (const int64_t row : {3, 7}) spoil(dirty.query, row), spoil(dirty.out_grad, row);
            const Call::Results got = dirty.forward().run();
            for (const auto& [name, array] : clean) EXPECT_EQ(first_difference(got.at(name), array), -1) << name;
            for (const int64_t row : {3, 7})
                for (int64_t i = 0; i < 3 * 8; ++i) {
                    EXPECT_EQ(got.at("softmaxMaxOut").at(row * 24 + i), 0);
                    EXPECT_EQ(got.at("softmaxSumOut").at(row * 24 + i), 0);
                }
            p.take(clean), dirty.take(clean);
            spoil(dirty.out, 3);
            const Call::Results want = p.grad().run(), grads = dirty.grad().run();
            for (const auto& [name, array] : want) EXPECT_EQ(first_difference(grads.at(name), array), -1) << name;
            for (int64_t i = 20 * 16; i < 64 * 16; ++i) EXPECT_EQ(grads.at("dkOut").at(i) + grads.at("dvOut").at(i), 0);
            Problem negative = p;
            negative.scale = -p.scale;
            const Array dk = negative.grad().run().at("dkOut");
            for (int64_t i = 20 * 16; i < 64 * 16; ++i) EXPECT_FALSE(std::signbit(dk.at(i))) << i;
            // a late row must not reach keys behind its own index: key 16 is seen by rows 16 and later
            Problem late = p;
            spoil(late.out_grad, 10);
            const Call::Results some = late.grad().run();
            EXPECT_TRUE(std::isnan(some.at("dvOut").at(10 * 16)));
            for (int64_t key = 11; key < 20; ++key)
                EXPECT_EQ(some.at("dvOut").at(key * 16), want.at("dvOut").at(key * 16)) << key;
            // sum 0 never divides
            Problem none = p;
            for (int64_t i = 0; i < 8; ++i) none.sum.set(12 * 24 + i, 0);
            spoil(none.query, 12);
            for (int64_t i = 16; i < 48; ++i) none.query.set(12 * 48 + i, p.query.at(12 * 48 + i));
            const Call::Results zero = none.grad().run();
            for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(zero.at("dqOut").at(12 * 48 + i), 0);
            for (int64_t i = 0; i < zero.at("dkOut").size(); ++i) ASSERT_FALSE(std::isnan(zero.at("dkOut").at(i)));
        }
}

TEST(NsaSelectedAttention, SpecialValuesFollowTheFormula) {
    const Option off("limits", "off");
    Random random("special");
    for (const aclDataType type : kTypes) {
        Problem p({type, {6}, {32}, 1, 2, 8, 8, 16, 1, 0}, random);
        for (int64_t i = 0; i < 6; ++i) p.topk.set(i, static_cast<double>(i % 2));
        p.key.set(3 * 8, std::nan("")), p.query.set(5 * 16, HUGE_VAL), p.value.set(20 * 8 + 1, HUGE_VAL);
        p.key.set(16 * 8, 1);
        for (const char* precision : {"fast", "golden"}) {
            const Option way("precision", precision);
            const Call::Results got = p.forward().run();
            EXPECT_TRUE(is_the_nan(got.at("softmaxMaxOut"), 0) && is_the_nan(got.at("attentionOut"), 0));
            EXPECT_FALSE(std::isnan(got.at("attentionOut").at(16)));
            EXPECT_EQ(got.at("attentionOut").at(17), HUGE_VAL);
            EXPECT_TRUE(is_the_nan(got.at("softmaxSumOut"), 5 * 16));
            EXPECT_EQ(got.at("softmaxMaxOut").at(5 * 16), HUGE_VAL) << "infinite, and not NaN";
            EXPECT_FALSE(std::isnan(got.at("softmaxSumOut").at(5 * 16 + 8)));
        }
    }
}

// max and sum are taken as given: a sum that is too small or too large for its inverse makes the same P with the max
// that belongs to it, on every instruction set.
TEST(NsaSelectedAttentionGrad, SumsOfAnySize) {
    Random random("sums");
    for (const std::string& isa : instruction_sets())
        for (const aclDataType type : kTypes)
            for (const double power : {-125.0, -101.0, 101.0, 120.0})
                for (const bool with_out : {true, false}) {
                    const Option cap("max_isa", isa);
                    Problem p({type, {12}, {96}, 1, 2, 128, 128, 32, 3, 0, true, with_out}, random, 0.3);
                    p.take(p.forward().run());
                    for (int64_t i = 0; i < p.sum.size(); i += 16) {  // of the first head
                        p.sum.set(i, p.sum.at(i) * std::exp2(power));
                        p.max.set(i, p.max.at(i) - power * std::log(2.0));
                    }
                    p.sum.set(16, 0x1p-140), p.max.set(16, 200);  // exp is 0, and the inverse infinite: P is 0
                    SCOPED_TRACE(isa + " 2^" + std::to_string(power) + " " + random.repeat());
                    Answer(p).expect_grad(p.grad().run());
                }
}

// A forward without mask sees every key of its blocks, whatever sparseMode says; the gradient looks at sparseMode.
TEST(NsaSelectedAttention, WithoutMaskSparseModeIsNothing) {
    Random random("mask");
    Problem p({ACL_BF16, {20}, {64}, 1, 2, 128, 128, 16, 3, 2, false}, random), full = p;
    full.s.mode = 0;
    const Call::Results a = p.forward().run(), b = full.forward().run();
    for (const auto& [name, array] : a) EXPECT_EQ(first_difference(b.at(name), array), -1) << name;
    p.take(a);
    Answer(p).expect_grad(p.grad().run());
    Problem masked = p;
    masked.s.mask = true;
    const Call::Results without = p.grad().run(), with = masked.grad().run();
    for (const auto& [name, array] : without) EXPECT_EQ(first_difference(with.at(name), array), -1) << name;
}

TEST(NsaSelectedAttention, FiniteDifferences) {
    const Option golden("precision", "golden"), off("limits", "off");
    Random random("differences");
    Problem p({ACL_FLOAT16, {3, 4}, {20, 33}, 1, 2, 4, 3, 16, 3, 2}, random);
    const auto grid = [&](Array& a) {  // steps of h are exact in f16
        for (int64_t i = 0; i < a.size(); ++i) a.set(i, static_cast<double>(random.between(-16, 16)) / 16);
    };
    grid(p.query), grid(p.key), grid(p.value), grid(p.out_grad);
    p.take(p.forward().run());
    const Call::Results got = p.grad().run();
    const double h = 0x1p-3;
    const std::pair<Array Problem::*, const char*> inputs[] = {
        {&Problem::query, "dqOut"}, {&Problem::key, "dkOut"}, {&Problem::value, "dvOut"}};
    for (const auto& [member, name] : inputs)
        for (int64_t i = 0; i < (p.*member).size(); ++i) {
            double slope = 0, magnitude = 0;
            for (const auto& [step, factor] :
                 std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
                Problem moved = p;
                (moved.*member).set(i, (p.*member).at(i) + step * h);
                const Array out = moved.forward().run().at("attentionOut");
                for (int64_t o = 0; o < out.size(); ++o) {
                    const double change = out.at(o) - p.out.at(o);
                    slope += factor * p.out_grad.at(o) * change / (12 * h);
                    // a row that the input does not reach is rounded the same way
                    if (change != 0) magnitude += std::fabs(factor * p.out_grad.at(o) * out.at(o)) * 0x1p-11 / (12 * h);
                }
            }
            const double want = got.at(name).at(i);
            EXPECT_NEAR(want, slope, 2 * magnitude + 0x1p-9 * (1 + std::fabs(want))) << name << " " << i;
        }
}

TEST(NsaSelectedAttention, PlantedFaultsAreCaught) {
    Random random("faults");
    for (const aclDataType type : kTypes) {
        Problem p({type, {40}, {96}, 1, 4, 128, 128, 32, 2, 0}, random);
        for (int64_t i = 0; i < p.topk.size(); ++i)
            p.topk.set(i, static_cast<double>((i / 2 + i % 2) % 3));  // all blocks
        p.take(p.forward().run());
        const Answer::Gradients r = Answer(p).gradients();
        for (const Fault fault : {Fault::sign, Fault::one_off, Fault::missing_tail, Fault::stale_row}) {
            EXPECT_NE(judge(plant(fault, type, p.query.shape, r.dq.want), r.dq.want, r.dq.slack, Promise::summed), "")
                << fault_name(fault);
            EXPECT_NE(judge(plant(fault, type, p.value.shape, r.dv.want), r.dv.want, r.dv.slack, Promise::summed), "")
                << fault_name(fault);
        }
        // a row's share missing in dK: the race that scatters lose to
        Bounded dk = r.dk;
        Problem lost = p;
        for (int64_t i = 0; i < 4 * 128; ++i) lost.query.set(39 * 4 * 128 + i, 0);
        EXPECT_NE(judge(lost.grad().run().at("dkOut"), dk.want, dk.slack, Promise::summed), "");
    }
}

}  // namespace
}  // namespace gradus::testing
