// What tools sweep and measure.
#include "ops/scaled_masked_softmax/bench.h"

#include "ops/scaled_masked_softmax/golden.h"

namespace gradus::scaled_masked_softmax {
namespace {

// Rows of less than a vector, of one and its neighbours, and the longest; masks of all heads or of all batches alike.
constexpr const char* kSweep[] = {"B=1 H=1 S=1 N=1 mask=[1,1,1,1]",
                                  "B=2 H=3 S=4 N=7 mask=[2,1,4,7] scale=0.5",
                                  "B=1 H=2 S=16 N=16 mask=[1,1,16,16]",
                                  "B=2 H=2 S=5 N=33 mask=[1,2,5,33] scale=-1.5",
                                  "B=3 H=1 S=17 N=64 mask=[3,1,17,64] scale=0.125",
                                  "B=1 H=4 S=9 N=65 mask=zeros[1,1,9,65]",
                                  "B=1 H=2 S=3 N=1000 mask=ones[1,1,3,1000]",
                                  "B=1 H=1 S=2 N=4096 mask=[1,1,2,4096] scale=0.25",
                                  "B=2 H=5 S=40 N=257 mask=[2,1,40,257]"};
// Attention scores as Megatron makes them; the heads of a batch share a mask.
constexpr BenchCase kBench[] = {
    {"1024 tokens", "B=4 H=32 S=1024 N=1024 mask=[4,1,1024,1024] scale=0.125"},
    {"2048 tokens, one of eight parts", "B=4 H=4 S=2048 N=2048 mask=[4,1,2048,2048] scale=0.125"},
    {"4096 tokens, one of eight parts", "B=1 H=4 S=4096 N=4096 mask=[1,1,4096,4096] scale=0.125"},
    {"512 tokens", "B=16 H=6 S=512 N=512 mask=[16,1,512,512] scale=0.125"}};
constexpr char kTiny[] = "B=1 H=2 S=4 N=16 mask=[1,1,4,16]";
constexpr Target kForwardTargets[] = {{"bf16", 0.70}, {"f16", 0.70}, {"f32", 0.85}};
constexpr Target kBackwardTargets[] = {{"bf16", 0.80}, {"f16", 0.80}, {"f32", 0.90}};

constexpr NamedMistake kForwardMistakes[] = {
    {"with the mask ignored", 0, "mask=zeros"},
    {"with the mask inverted", 0, "mask=not"},
    {"with the mask one column to the left", 0, "mask=next"},
    {"with the mask one column to the right", 0, "mask=previous"},
    {"without the scale", 0, "scale=1"},
    {"with the scale twice", 0, "scale=scale*scale"},
    {"divided by the scale", 0, "scale=1/scale"},
    {"without the division by the sum", kNotDivided},
    {"with the scale times #", 0, "scale=scale*#", "", 1},
    {"with # added to the sum", kAddedToSum},
    {"without a part of the sum", kPartOfSum, "", "N"},
};
constexpr NamedMistake kBackwardMistakes[] = {
    {"with the mask ignored", 0, "mask=zeros"},
    {"with the mask inverted", 0, "mask=not"},
    {"with the mask one column to the left", 0, "mask=next"},
    {"with the mask one column to the right", 0, "mask=previous"},
    {"without the scale", kNoScale},
    {"with the scale twice", 0, "scale=scale*scale"},
    {"divided by the scale", 0, "scale=1/scale"},
    {"without the sum(t)*y term", kNoSum},
    {"with t + sum(t)*y, not t - sum(t)*y", kPlusSum},
    {"with the sum over what is not masked", kUnmaskedSum},
    {"without the factor y", kNoFactor},
    {"with 1 for y", 0, "y=ones"},
    {"with # added to the sum", kAddedToSum},
    {"without a part of the sum", kPartOfSum, "", "N"},
};

}  // namespace

// The mask is not counted: every head but the first finds it in the cache.
constexpr Trials kForwardTrials = {.sweep = kSweep,
                                   .bench = kBench,
                                   .tiny = kTiny,
                                   .limit = {.reads = "x", .writes = "y", .strip = "size(x)", .flops = "6*size(x)"},
                                   .targets = kForwardTargets,
                                   .mistakes = kForwardMistakes};
constexpr Trials kBackwardTrials = {
    .sweep = kSweep,
    .bench = kBench,
    .tiny = kTiny,
    .limit = {.reads = "gradOutput y", .writes = "out", .strip = "size(y)", .flops = "5*size(y)"},
    .targets = kBackwardTargets,
    .mistakes = kBackwardMistakes};

}  // namespace gradus::scaled_masked_softmax
