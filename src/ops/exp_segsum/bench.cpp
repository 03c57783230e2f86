// What tools sweep and measure.
#include "ops/exp_segsum/bench.h"

#include "ops/exp_segsum/golden.h"

namespace gradus::exp_segsum {
namespace {

// T of less than a vector, of one and its neighbours, beyond 128 where sums are folded; both ranks.
constexpr const char* kForwardSweep[] = {"self=[1,2,1]",  "self=[2,3,7]",    "self=[3,1,2,16]", "self=[1,5,17]",
                                         "self=[2,2,33]", "self=[1,2,3,64]", "self=[1,2,129]",  "self=[1,3,200]"};
constexpr const char* kBackwardSweep[] = {
    "gradOutput=[1,2,1,1]",   "gradOutput=[2,3,7,7]",     "gradOutput=[3,1,2,16,16]", "gradOutput=[1,5,17,17]",
    "gradOutput=[2,2,33,33]", "gradOutput=[1,2,3,64,64]", "gradOutput=[1,2,129,129]", "gradOutput=[1,1,260,260]"};
constexpr char kWhole[] = "Mamba2-2.7B", kPart[] = "Mamba2-8B, one of eight parts", kShort[] = "chunks of 64",
               kLast[] = "a short last chunk";
constexpr BenchCase kForwardBench[] = {{kWhole, "self=[1,80,16,256]"},
                                       {kPart, "self=[2,16,32,128]"},
                                       {kShort, "self=[1,64,32,64]", 0.5},
                                       {kLast, "self=[1,80,17]", 0.5}};
constexpr BenchCase kBackwardBench[] = {{kWhole, "gradOutput=[1,80,16,256,256]"},
                                        {kPart, "gradOutput=[2,16,32,128,128]"},
                                        {kShort, "gradOutput=[1,64,32,64,64]", 0.5},
                                        {kLast, "gradOutput=[1,80,17,17]", 0.5}};
constexpr Target kForwardTargets[] = {{"bf16", 0.75}, {"f16", 0.75}, {"f32", 0.80}};
constexpr Target kBackwardTargets[] = {{"bf16", 0.50}, {"f16", 0.50}, {"f32", 0.55}};

constexpr NamedMistake kForwardMistakes[] = {
    {"with sums from self[j] on, not self[j + 1]", kFromColumn},
    {"with sums that end before self[i]", kBeforeRow},
    {"without exp", kNoExp},
    {"of self one element on", 0, "self=next"},
    {"of -self", 0, "self=negated"},
    {"of self times #", 0, "self=times#", "", 1},
    {"without a part of the sum over i", kPartOfSum, "", "T"},
};
constexpr NamedMistake kBackwardMistakes[] = {
    {"with the sum over i > k, not i >= k", kRowsAfter},
    {"with the diagonal counted in: j <= k", kDiagonalToo},
    {"with column k - 1 alone, not the sum over j < k", kOneColumn},
    {"without gradSelf", 0, "gradSelf=ones"},
    {"without gradOutput", 0, "gradOutput=ones"},
    {"without a part of the sum over i", kPartOfRows, "", "T"},
    {"without a part of the sum over j", kPartOfColumns, "", "T"},
};

}  // namespace

// All of the matrices is written; what is read is next to nothing.
constexpr Trials kForwardTrials = {.sweep = kForwardSweep,
                                   .bench = kForwardBench,
                                   .tiny = "self=[1,1,16]",
                                   .limit = {.writes = "out", .strip = "size(out)", .flops = "size(out)"},
                                   .targets = kForwardTargets,
                                   .mistakes = kForwardMistakes};
// What is below the diagonal, as if it lay together.
constexpr Trials kBackwardTrials = {.sweep = kBackwardSweep,
                                    .bench = kBackwardBench,
                                    .tiny = "gradOutput=[1,1,16,16]",
                                    .limit = {.reads = "gradOutput gradSelf",
                                              .strip = "size(gradOutput)*(T-1)/(2*T)",
                                              .flops = "3*size(gradOutput)*(T-1)/(2*T)"},
                                    .targets = kBackwardTargets,
                                    .mistakes = kBackwardMistakes};

}  // namespace gradus::exp_segsum
