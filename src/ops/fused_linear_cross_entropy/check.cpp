#include "base/check.h"

#include <iterator>

#include "ops/fused_linear_cross_entropy/plan.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

constexpr int64_t kMostHidden = 65534, kLeastVocabulary = 128;

// A shape as a list of sizes.
template <typename... Sizes>
Status expect_sizes(const char* argument, const TensorView& view, Sizes... sizes) {
    const int64_t wanted[] = {sizes...};
    GRADUS_TRY(expect_rank(argument, view, static_cast<int>(std::size(wanted)), static_cast<int>(std::size(wanted))));
    return expect_shape(argument, view, wanted);
}

// input: [BT, H], weight: [V, H], one dtype
Status check_operands(const TensorView& input, const TensorView& weight) {
    GRADUS_TRY(expect_rank("input", input, 2, 2));
    GRADUS_TRY(expect_rank("weight", weight, 2, 2));
    GRADUS_TRY(expect_same_dtype("weight", weight, "input", input));
    return expect_sizes("weight", weight, weight.of(0), input.of(1));
}

Status expect_no_smoothing(double smoothing) {
    if (smoothing == 0) return {};
    return invalid("labelSmoothing", std::to_string(smoothing), ", expected 0");
}

}  // namespace

Status check_stats(const Call& call) {
    using namespace stats;
    const TensorView &input = call.view(kInput), &weight = call.view(kWeight), &target = call.view(kTarget);
    GRADUS_TRY(check_operands(input, weight));
    const int64_t tokens = input.of(0), vocabulary = weight.of(0);
    if (vocabulary < 1) return invalid("weight", "shape ", shape_text(weight), ", expected at least one row");
    GRADUS_TRY(expect_sizes("target", target, tokens));
    const int64_t start = call.integer(kStart), end = call.integer(kEnd);
    if (start < 0) return invalid("vocabStartIndex", start, ", expected 0 or more");
    if (end < start) return invalid("vocabEndIndex", end, ", expected vocabStartIndex ", start, " or more");
    GRADUS_TRY(expect_sizes("logitsMaxLocalOut", call.view(kMax), tokens));
    GRADUS_TRY(expect_sizes("sumExpLogitsLocalOut", call.view(kSum), tokens));
    GRADUS_TRY(expect_sizes("predictedLogitsLocalOut", call.view(kPredicted), tokens));
    GRADUS_TRY(expect_sizes("targetMaskOut", call.view(kTargetMask), tokens / 8 + (tokens % 8 != 0)));
    GRADUS_TRY(expect_same_dtype("maskedTargetOut", call.view(kMaskedTarget), "target", target));
    GRADUS_TRY(expect_sizes("maskedTargetOut", call.view(kMaskedTarget), tokens));
    if (call.given(kLogits)) {
        GRADUS_TRY(expect_result_dtype("vocabParallelLogitsOutOptional", call.view(kLogits), "input", input));
        GRADUS_TRY(expect_sizes("vocabParallelLogitsOutOptional", call.view(kLogits), tokens, vocabulary));
    }
    if (call.config.limits && input.of(1) > kMostHidden)
        return beyond_limit("input", "size ", input.of(1), " of dim 1, expected ", kMostHidden, " or less");
    return {};
}

int missing_for_loss(std::span<const Value> values) {
    const bool logits = values[loss::kLogits].tensor != nullptr, softmax = values[loss::kSoftmax].tensor != nullptr;
    if (logits == softmax) return -1;
    return logits ? loss::kSoftmax : loss::kLogits;
}

Status check_loss(const Call& call) {
    using namespace loss;
    GRADUS_TRY(expect_no_smoothing(call.real(kSmoothing)));
    const TensorView& max = call.view(kMax);
    GRADUS_TRY(expect_rank("logitsMax", max, 1, 1));
    const int64_t tokens = max.of(0);
    GRADUS_TRY(expect_sizes("sumExpLogits", call.view(kSum), tokens));
    GRADUS_TRY(expect_sizes("predictedLogits", call.view(kPredicted), tokens));
    GRADUS_TRY(expect_sizes("lossOut", call.view(kLoss), tokens));
    if (!call.given(kLogits)) return {};
    const TensorView& logits = call.view(kLogits);
    GRADUS_TRY(expect_rank("vocabParallelLogitsOptional", logits, 2, 2));
    GRADUS_TRY(expect_sizes("vocabParallelLogitsOptional", logits, tokens, logits.of(1)));
    return expect_sizes("softMaxOutOptional", call.view(kSoftmax), tokens, logits.of(1));
}

int missing_for_grad(std::span<const Value> values) {
    if (values[grad::kSoftmax].tensor != nullptr) return -1;
    if (values[grad::kMax].tensor == nullptr) return grad::kMax;
    return values[grad::kSum].tensor == nullptr ? grad::kSum : -1;
}

Status check_grad(const Call& call) {
    using namespace grad;
    const TensorView &input = call.view(kInput), &weight = call.view(kWeight), &mask = call.view(kTargetMask);
    GRADUS_TRY(expect_no_smoothing(call.real(kSmoothing)));
    GRADUS_TRY(check_operands(input, weight));
    const int64_t tokens = input.of(0), hidden = input.of(1), vocabulary = weight.of(0);
    GRADUS_TRY(expect_sizes("grad", call.view(kGrad), tokens));
    GRADUS_TRY(expect_rank("targetMask", mask, 1, 1));
    if (mask.dtype == DType::boolean) {
        if (call.config.limits) return beyond_limit("targetMask", "dtype bool, expected uint8");
        GRADUS_TRY(expect_sizes("targetMask", mask, tokens));
    } else if (mask.of(0) < tokens / 8 + (tokens % 8 != 0)) {
        return invalid("targetMask", "shape ", shape_text(mask), ", expected a bit for each of ", tokens, " tokens");
    }
    GRADUS_TRY(expect_sizes("maskedTarget", call.view(kMaskedTarget), tokens));
    if (call.given(kSoftmax)) {  // the statistics are not looked at
        GRADUS_TRY(expect_sizes("softmaxOptional", call.view(kSoftmax), tokens, vocabulary));
    } else {
        GRADUS_TRY(expect_sizes("logitsMaxOptional", call.view(kMax), tokens));
        GRADUS_TRY(expect_sizes("sumExpLogitsOptional", call.view(kSum), tokens));
    }
    GRADUS_TRY(expect_result_dtype("inputGradOut", call.view(kInputGrad), "input", input));
    GRADUS_TRY(expect_sizes("inputGradOut", call.view(kInputGrad), tokens, hidden));
    GRADUS_TRY(expect_result_dtype("weightGradOut", call.view(kWeightGrad), "input", input));
    GRADUS_TRY(expect_sizes("weightGradOut", call.view(kWeightGrad), vocabulary, hidden));
    if (call.config.limits && vocabulary > 0 && vocabulary < kLeastVocabulary)
        return beyond_limit("weight", "size ", vocabulary, " of dim 0, expected 0 or at least ", kLeastVocabulary);
    return {};
}

Status check_with_grad(const Call& call) {
    using namespace with_grad;
    if (call.config.precision > Precision::golden)
        return invalid("precision", precision_name(call.config.precision),
                       ", expected fast or golden; the two operators it stands for take it");
    const TensorView &input = call.view(kInput), &weight = call.view(kWeight);
    GRADUS_TRY(check_operands(input, weight));
    const int64_t tokens = input.of(0), hidden = input.of(1), vocabulary = weight.of(0);
    if (vocabulary < 1) return invalid("weight", "shape ", shape_text(weight), ", expected at least one row");
    GRADUS_TRY(expect_sizes("grad", call.view(kGrad), tokens));
    GRADUS_TRY(expect_sizes("target", call.view(kTarget), tokens));
    GRADUS_TRY(expect_sizes("logitsMaxOut", call.view(kMax), tokens));
    GRADUS_TRY(expect_sizes("sumExpLogitsOut", call.view(kSum), tokens));
    GRADUS_TRY(expect_sizes("predictedLogitsOut", call.view(kPredicted), tokens));
    GRADUS_TRY(expect_result_dtype("inputGradOut", call.view(kInputGrad), "input", input));
    GRADUS_TRY(expect_sizes("inputGradOut", call.view(kInputGrad), tokens, hidden));
    GRADUS_TRY(expect_result_dtype("weightGradOut", call.view(kWeightGrad), "input", input));
    return expect_sizes("weightGradOut", call.view(kWeightGrad), vocabulary, hidden);
}

}  // namespace gradus::fused_linear_cross_entropy
