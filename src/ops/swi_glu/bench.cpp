// What tools sweep and measure.
#include "ops/swi_glu/bench.h"

#include "ops/swi_glu/golden.h"

namespace gradus::swi_glu {
namespace {

// Halves of less than a vector, of one and its neighbours; every place of dim; rows enough for several tiles.
constexpr const char* kSweep[] = {"x=[2]",           "x=[3,14]",    "x=[5,64]",         "x=[7,66]",  "x=[4,34,3] dim=1",
                                  "x=[34,17] dim=0", "x=[2,3,514]", "x=[6,1,37] dim=0", "x=[64,510]"};
constexpr BenchCase kBench[] = {{"LLaMA-2-7B", "x=[4096,1,22016]"},
                                {"LLaMA-70B, one of eight parts", "x=[4096,1,7168]"},
                                {"a long sequence, one of eight parts", "x=[8192,1,7808]"},
                                {"LLaMA-3-8B", "x=[2048,28672]"}};
constexpr char kTiny[] = "x=[2,64]";
constexpr Target kTargets[] = {{"bf16", 0.80}, {"f16", 0.80}, {"f32", 0.90}};

constexpr NamedMistake kForwardMistakes[] = {{"without the sigmoid: A*B", kNoGate},
                                             {"without the factor A: sigmoid(A)*B", kNoFactor},
                                             {"with A and B exchanged", 0, "x=halves"},
                                             {"with sigmoid(#*A)", kTimesGate, "", "", 1}};
constexpr NamedMistake kGradMistakes[] = {
    {"without the s*(1 - s)*A term", kNoSlope},
    {"with the s*(1 - s)*A term alone", kOnlySlope},
    {"with a wrong parenthesis: s*(1 - s*A)", kParenthesis},
    {"with s*(1 + s)*A, not s*(1 - s)*A", kPlusSlope},
    {"without the s of the second half: yGrad*A", kNoGate},
    {"with A and B exchanged in x", 0, "x=halves"},
    {"without yGrad", 0, "yGrad=ones"},
};

}  // namespace

// x, and whatever has its shape, is two strips: the halves of its rows.
constexpr Trials kForwardTrials = {
    .sweep = kSweep,
    .bench = kBench,
    .tiny = kTiny,
    .limit = {.reads = "x x", .writes = "out", .strip = "size(x)/2", .row = "N", .flops = "5*size(out)"},
    .targets = kTargets,
    .mistakes = kForwardMistakes};
constexpr Trials kGradTrials = {
    .sweep = kSweep,
    .bench = kBench,
    .tiny = kTiny,
    .limit = {.reads = "yGrad x x", .writes = "out out", .strip = "size(x)/2", .row = "N", .flops = "11*size(yGrad)"},
    .targets = kTargets,
    .mistakes = kGradMistakes};

}  // namespace gradus::swi_glu
