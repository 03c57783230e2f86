// The LM head with its vocabulary over ranks, as programs do it: three operators, three all-reduces, and the host's
// arithmetic between them. However many ranks there are, the answers are those of the whole vocabulary in f64.
#include <cmath>
#include <cstring>

#include "numbers.h"
#include "ranks.h"
#include "src/ops/fused_linear_cross_entropy/test_problem.h"

namespace gradus::testing {
namespace {

using Floats = std::vector<float>;

// Sums up what every rank has, over the communicators; the same bits must come back on all of them.
Bytes all_reduce(World& world, const std::vector<Bytes>& parts, HcclDataType type, size_t item, HcclReduceOp op) {
    std::vector<Buffer> buffers;
    for (const Bytes& part : parts) buffers.emplace_back(part);
    for (size_t r = 0; r < parts.size(); ++r)
        EXPECT_EQ(HcclAllReduce(buffers[r].data(), buffers[r].data(), parts[r].size() / item, type, op, world.comms[r],
                                world.streams[r]),
                  HCCL_SUCCESS)
            << take_message();
    for (const int code : world.synchronize()) EXPECT_EQ(code, 0) << take_message();
    const Bytes result = buffers[0].read();
    for (const Buffer& buffer : buffers) EXPECT_EQ(buffer.read(), result);
    return result;
}

Floats all_reduce(World& world, const std::vector<Floats>& parts, HcclReduceOp op) {
    std::vector<Bytes> bytes;
    for (const Floats& part : parts) {
        bytes.emplace_back(part.size() * sizeof(float));
        std::memcpy(bytes.back().data(), part.data(), bytes.back().size());
    }
    const Bytes result = all_reduce(world, bytes, HCCL_DATA_TYPE_FP32, sizeof(float), op);
    Floats floats(parts[0].size());
    std::memcpy(floats.data(), result.data(), result.size());
    return floats;
}

Floats floats_of(const Array& a) {
    Floats floats;
    for (int64_t i = 0; i < a.size(); ++i) floats.push_back(static_cast<float>(a.at(i)));
    return floats;
}

Array array_of(const Floats& floats) {
    Array array(ACL_FLOAT, {static_cast<int64_t>(floats.size())});
    std::memcpy(array.bytes.data(), floats.data(), array.bytes.size());
    return array;
}

struct Head {
    Array loss, input_grad;
    std::vector<Array> weight_grads;  // by rank
};

// `cuts`: where the ranks' words begin, and the end.
Head run_head(World& world, const Problem& whole, const std::vector<int64_t>& cuts, const Array& grad) {
    const size_t ranks = world.size(), tokens = static_cast<size_t>(whole.tokens);
    std::vector<Call::Results> stats;
    std::vector<Floats> maxima;
    for (size_t r = 0; r < ranks; ++r) {
        Call call("FusedLinearOnlineMaxSum");
        call.in("input", whole.input).in("weight", slice(whole.weight, cuts[r], cuts[r + 1]));
        call.in("target", whole.target).integer("vocabStartIndex", cuts[r]).integer("vocabEndIndex", cuts[r + 1]);
        for (const char* name : {"logitsMaxLocalOut", "sumExpLogitsLocalOut", "predictedLogitsLocalOut"})
            call.out(name, ACL_FLOAT, {whole.tokens});
        call.out("targetMaskOut", ACL_UINT8, whole.mask.shape);
        call.out("maskedTargetOut", whole.target.type, {whole.tokens});
        stats.push_back(call.run());
        maxima.push_back(floats_of(stats.back().at("logitsMaxLocalOut")));
    }
    const Floats max = all_reduce(world, maxima, HCCL_REDUCE_MAX);

    std::vector<Floats> sums(ranks, Floats(2 * tokens));
    for (size_t r = 0; r < ranks; ++r) {
        const Floats sum = floats_of(stats[r].at("sumExpLogitsLocalOut"));
        const Floats predicted = floats_of(stats[r].at("predictedLogitsLocalOut"));
        for (size_t i = 0; i < tokens; ++i) {
            const float down = maxima[r][i] - max[i];
            const auto byte = std::to_integer<unsigned>(stats[r].at("targetMaskOut").bytes[i / 8]);
            const bool owned = (byte >> i % 8 & 1) == 0;
            sums[r][i] = sum[i] * std::exp(down);
            sums[r][tokens + i] = owned ? predicted[i] + down : 0;
        }
    }
    const Floats both = all_reduce(world, sums, HCCL_REDUCE_SUM);
    const Array all_max = array_of(max), all_sum = array_of({both.begin(), both.begin() + whole.tokens}),
                all_predicted = array_of({both.begin() + whole.tokens, both.end()});

    Head head{loss_call(all_max, all_sum, all_predicted, nullptr).run().at("lossOut"), whole.input, {}};
    std::vector<Bytes> input_grads;
    for (size_t r = 0; r < ranks; ++r) {
        Call call("FusedLinearCrossEntropyLossGrad");
        call.in("grad", grad).in("input", whole.input).in("weight", slice(whole.weight, cuts[r], cuts[r + 1]));
        call.in("targetMask", stats[r].at("targetMaskOut")).in("maskedTarget", stats[r].at("maskedTargetOut"));
        call.real("labelSmoothing", 0).in("logitsMaxOptional", all_max).in("sumExpLogitsOptional", all_sum);
        call.out("inputGradOut", whole.input.type, whole.input.shape);
        call.out("weightGradOut", whole.input.type, {cuts[r + 1] - cuts[r], whole.hidden});
        const Call::Results got = call.run();
        const auto* const bytes = reinterpret_cast<const unsigned char*>(got.at("inputGradOut").bytes.data());
        input_grads.emplace_back(bytes, bytes + got.at("inputGradOut").bytes.size());
        head.weight_grads.push_back(got.at("weightGradOut"));
    }
    const auto type = whole.input.type == ACL_BF16 ? HCCL_DATA_TYPE_BFP16 : HCCL_DATA_TYPE_FP16;
    const Bytes input_grad = all_reduce(world, input_grads, type, 2, HCCL_REDUCE_SUM);
    std::memcpy(head.input_grad.bytes.data(), input_grad.data(), input_grad.size());
    return head;
}

// What the ranks add to the error of one: the host's arithmetic, and for inputGrad a rounding to 16 bits on each.
void expect_head(const Head& got, const Problem& whole, const Gradient& gradient, const std::vector<int64_t>& cuts) {
    const size_t ranks = cuts.size() - 1;
    const double moved = (static_cast<double>(ranks) + 24) * kU;  // |down| below 16, exp, product, and the sums
    Doubles loss, loss_slack, dx_slack = gradient.dx_slack, dw_slack = gradient.dw_slack;
    std::vector<Doubles> parts(ranks, Doubles(gradient.dx.size()));
    for (int64_t i = 0; i < whole.tokens; ++i) {
        const auto at = static_cast<size_t>(i);
        const double by_sum = whole.sum_slack[at] / whole.sum[at] + moved;
        loss.push_back(std::log(whole.sum[at]) - whole.predicted[at]);
        loss_slack.push_back(by_sum + whole.predicted_slack[at] + moved * (1 + std::fabs(loss.back())));
        const double by_statistics = by_sum + whole.max_slack[at];
        for (size_t r = 0; r < ranks; ++r)
            for (int64_t v = cuts[r]; v < cuts[r + 1]; ++v) {
                const double s = std::exp(whole.logits[at2(i, whole.words, v)] - whole.max[at]) / whole.sum[at];
                const double g = (s - (v == whole.hit(i) ? 1 : 0)) * gradient.grad.at(i);
                const double slack = s * by_statistics * std::fabs(gradient.grad.at(i));
                for (int64_t h = 0; h < whole.hidden; ++h) {
                    const size_t ih = at2(i, whole.hidden, h), vh = at2(v, whole.hidden, h);
                    const double w = whole.weight.at(v * whole.hidden + h), x = whole.input.at(i * whole.hidden + h);
                    parts[r][ih] += g * w;
                    dx_slack[ih] += slack * std::fabs(w);
                    dw_slack[vh] += slack * std::fabs(x);
                }
            }
    }
    const double relative = half_relative(whole.input.type), absolute = half_absolute(whole.input.type);
    for (const Doubles& part : parts)
        for (size_t i = 0; i < part.size(); ++i)
            dx_slack[i] += (std::fabs(part[i]) + gradient.dx_slack[i]) * relative + absolute;

    EXPECT_EQ(judge(got.loss, loss, loss_slack, Promise::summed), "") << "loss";
    EXPECT_EQ(judge(got.input_grad, gradient.dx, dx_slack, Promise::summed), "") << "inputGrad";
    for (size_t r = 0; r < ranks; ++r) {
        const auto rows = [&](const Doubles& all) {
            return Doubles(all.begin() + cuts[r] * whole.hidden, all.begin() + cuts[r + 1] * whole.hidden);
        };
        EXPECT_EQ(judge(got.weight_grads[r], rows(gradient.dw), rows(dw_slack), Promise::summed), "")
            << "weightGrad of rank " << r;
    }
}

class VocabularyParallel : public ::testing::TestWithParam<const char*> {};

// Parts of different size, the smallest that the device takes among them, one that nobody asks for, and tokens whose
// target is nowhere.
TEST_P(VocabularyParallel, AnyNumberOfRanks) {
    const std::vector<int64_t> ends[] = {
        {1505}, {777, 1505}, {128, 900, 1505}, {128, 256, 456, 587, 843, 972, 1356, 1505}};
    Random random("head");
    for (const aclDataType type : {ACL_BF16, ACL_FLOAT16}) {
        const int64_t tokens = 21, words = 1505, hidden = 48;
        Array target(ACL_INT64, {tokens}), grad = random.normals(ACL_FLOAT, {tokens}, 0.05);
        for (int64_t i = 0; i < tokens; ++i) {
            target.set(i, static_cast<double>(i % 2 == 0 ? random.between(0, 127) : random.between(972, words - 1)));
            if (i % 9 == 4) target.set(i, -100), grad.set(i, 0);
        }
        const Problem whole(random.normals(type, {tokens, hidden}, 0.6), random.normals(type, {words, hidden}, 0.6),
                            target, 0, words);
        const Gradient gradient(whole, grad, false);
        for (const std::vector<int64_t>& last : ends) {
            SCOPED_TRACE(std::string(type_name(type)) + " over " + std::to_string(last.size()) + ", " +
                         random.repeat());
            World world(static_cast<uint32_t>(last.size()), GetParam());
            ASSERT_TRUE(world.made && aclrtSetDevice(0) == 0);
            std::vector<int64_t> cuts = {0};
            cuts.insert(cuts.end(), last.begin(), last.end());
            expect_head(run_head(world, whole, cuts, grad), whole, gradient, cuts);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Over, VocabularyParallel, ::testing::ValuesIn(transports()),
                         [](const auto& given) { return std::string(given.param); });

}  // namespace
}  // namespace gradus::testing
