// What tools sweep and measure.
#include "ops/fused_linear_cross_entropy/bench.h"

#include "ops/fused_linear_cross_entropy/golden.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

// Sizes off the tiles of 96 tokens and 192 words and off the strips of every path; shards that own a part of the
// targets.
constexpr const char* kStatsSweep[] = {"BT=1 V=1 H=1", "BT=7 V=33 H=17",
                                       "BT=16 V=128 H=64 target=index,high=300 vocabStartIndex=64 vocabEndIndex=192",
                                       "BT=33 V=200 H=65 vocabParallelLogitsOutOptional=auto", "BT=97 V=193 H=130"};
constexpr const char* kLossSweep[] = {"BT=1 V=1", "BT=9 V=33", "BT=16 V=1025",
                                      "BT=40 vocabParallelLogitsOptional=none softMaxOutOptional=none"};
constexpr const char* kGradSweep[] = {
    "BT=1 V=128 H=1",   "BT=9 V=131 H=17",   "BT=16 V=128 H=64 targetMask=full[2],value=165 maskedTarget=index,high=V",
    "BT=33 V=200 H=65", "BT=97 V=193 H=130", "BT=20 V=129 H=40 softmaxOptional=uniform,low=0,high=0.015625"};
constexpr BenchCase kBench[] = {{"Llama-3-8B, one of eight parts", "BT=1024 V=16032 H=4096"},
                                {"Qwen2.5-0.5B", "BT=512 V=151936 H=896"},
                                {"GPT-2", "BT=1024 V=50257 H=768"},
                                {"Gemma-2-2B, one of eight parts", "BT=1024 V=32000 H=2304"}};
constexpr BenchCase kLossBench[] = {{"Llama-3-8B, one of eight parts", "BT=1024 V=16032"},
                                    {"GPT-2", "BT=1024 V=50257"}};
// With AMX half of its peak is wanted: at that rate everything around the tiles shows.
constexpr Target kTargets[] = {{"bf16", 0.88}, {"f16", 0.80}, {"amx", 0.50}};
constexpr Target kLossTargets[] = {{"f32", 0.70}};

constexpr NamedMistake kStatsMistakes[] = {
    {"without the max in exp(logits - max)", kNoMaxInSum},
    {"without the max in predicted", kNoMaxInPredicted},
    {"with log(sum) for the sum", kLogOfSum},
    {"with max + log(sum) for the sum", kLogSumExp},
    {"with vocabEndIndex inclusive", 0, "vocabEndIndex=vocabEndIndex+1"},
    {"with vocabStartIndex ignored", 0, "vocabStartIndex=0 vocabEndIndex=vocabEndIndex-vocabStartIndex"},
    {"of the next target", 0, "target=plus1"},
    {"with logits times #", 0, "input=times#", "", 1},
    {"without a part of H in input*weight^T", kPartOfHidden, "", "H"},
    {"without a part of the vocabulary", kPartOfWords, "", "V"},
    {"without a part of the vocabulary in the sum alone", kPartOfSum, "", "V"},
};
constexpr NamedMistake kLossMistakes[] = {
    {"without log", kNoLog},
    {"without log(sumExpLogits), or the division by it", 0, "sumExpLogits=ones"},
    {"without predictedLogits", 0, "predictedLogits=zeros"},
    {"with + predictedLogits", 0, "predictedLogits=negated"},
    {"without logitsMax", 0, "logitsMax=zeros"},
    {"with sumExpLogits of the token before", 0, "sumExpLogits=row_before"},
    {"with sumExpLogits of the next token", 0, "sumExpLogits=row_after"},
    {"with logitsMax of the token before", 0, "logitsMax=row_before"},
    {"with logitsMax of the next token", 0, "logitsMax=row_after"},
    {"with predictedLogits of the token before", 0, "predictedLogits=row_before"},
    {"with predictedLogits of the next token", 0, "predictedLogits=row_after"},
    {"with # added to sumExpLogits", 0, "sumExpLogits=plus#"},
    {"with log(sumExpLogits) times #", kTimesLog, "", "", 1},
};
constexpr NamedMistake kGradMistakes[] = {
    {"without the target's -1", 0, "targetMask=all"},
    {"with targetMask ignored", 0, "targetMask=zeros"},
    {"with targetMask inverted", 0, "targetMask=not"},
    {"with the bits of targetMask in reverse order", 0, "targetMask=bits"},
    {"with the -1 one word after the target", 0, "maskedTarget=plus1"},
    {"with the -1 one word before the target", 0, "maskedTarget=plus-1"},
    {"without grad", 0, "grad=ones"},
    {"without logitsMax", 0, "logitsMaxOptional=zeros"},
    {"without the division by sumExpLogits", 0, "sumExpLogitsOptional=ones"},
    {"without the softmax: the target's -1 alone", 0, "softmaxOptional=zeros"},
    {"with -1 at the target, not softmax - 1", kTargetAlone},
    {"with sumExpLogits of the token before", 0, "sumExpLogitsOptional=row_before"},
    {"with sumExpLogits of the next token", 0, "sumExpLogitsOptional=row_after"},
    {"with logitsMax of the token before", 0, "logitsMaxOptional=row_before"},
    {"with logitsMax of the next token", 0, "logitsMaxOptional=row_after"},
    {"with grad of the token before", 0, "grad=row_before"},
    {"with grad of the next token", 0, "grad=row_after"},
    {"with the target of the token before", 0, "maskedTarget=row_before"},
    {"with the target of the next token", 0, "maskedTarget=row_after"},
    {"with # added to sumExpLogits", 0, "sumExpLogitsOptional=plus#"},
    {"with -# at the target, not -1", kTimesTarget, "", "", 1},
    {"without a part of H in input*weight^T", kPartOfHidden, "", "H"},
    {"without a part of the vocabulary in inputGrad", kPartOfWords, "", "V"},
    {"without a part of the tokens in weightGrad", kPartOfTokens, "", "BT"},
};

}  // namespace

constexpr Trials kStatsTrials = {.sweep = kStatsSweep,
                                 .bench = kBench,
                                 .tiny = "BT=4 V=128 H=16",
                                 .limit = {.flops = "2*BT*V*H"},
                                 .targets = kTargets,
                                 .mistakes = kStatsMistakes};
constexpr Trials kLossTrials = {.sweep = kLossSweep,
                                .bench = kLossBench,
                                .tiny = "BT=4 V=128",
                                .limit = {.reads = "vocabParallelLogitsOptional",
                                          .writes = "softMaxOutOptional",
                                          .strip = "size(softMaxOutOptional)",
                                          .flops = "3*size(softMaxOutOptional)"},
                                .targets = kLossTargets,
                                .mistakes = kLossMistakes};
constexpr Trials kGradTrials = {.sweep = kGradSweep,
                                .bench = kBench,
                                .tiny = "BT=4 V=128 H=16",
                                .limit = {.flops = "6*BT*V*H"},
                                .targets = kTargets,
                                .roundings = "g to the 16-bit type",
                                .mistakes = kGradMistakes};

}  // namespace gradus::fused_linear_cross_entropy
