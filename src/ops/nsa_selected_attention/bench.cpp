// What tools sweep and measure.
#include "ops/nsa_selected_attention/bench.h"

#include "ops/nsa_selected_attention/golden.h"

namespace gradus::nsa_selected_attention {
namespace {

// Groups of heads below, at and beyond 16; every D and Dv of the device; causal and not; batches of unequal length.
constexpr const char kUnequalBatches[] =
    "T1=44 T2=144 N1=10 N2=2 D=128 Dv=128 selectedBlockSize=16 selectedBlockCount=3 actualSeqQLenOptional=[17,44] "
    "actualSeqKvLenOptional=[48,144]";
constexpr const char* kSweep[] = {
    "T1=20 T2=64 N1=1 N2=1 D=128 Dv=128 selectedBlockSize=16 selectedBlockCount=3 sparseMode=0",
    "T1=33 T2=64 N1=4 N2=2 D=192 Dv=128 selectedBlockSize=32 selectedBlockCount=2 sparseMode=2",
    "T1=40 T2=192 N1=16 N2=1 D=192 Dv=128 selectedBlockSize=64 selectedBlockCount=2 sparseMode=2",
    "T1=24 T2=128 N1=32 N2=1 D=192 Dv=192 selectedBlockSize=128 selectedBlockCount=1 sparseMode=0", kUnequalBatches};
constexpr BenchCase kBench[] = {
    {"4096 tokens, 16 heads on one",
     "T1=4096 T2=4096 N1=16 N2=1 D=192 Dv=128 selectedBlockSize=64 selectedBlockCount=16 sparseMode=0"},
    {"2048 tokens, 64 heads on four",
     "T1=2048 T2=2048 N1=64 N2=4 D=192 Dv=128 selectedBlockSize=64 selectedBlockCount=16 sparseMode=0"},
    {"4096 tokens, 32 heads on eight",
     "T1=4096 T2=4096 N1=32 N2=8 D=128 Dv=128 selectedBlockSize=64 selectedBlockCount=16 sparseMode=0"},
    {"four unequal batches",
     "T1=5120 T2=5120 N1=16 N2=1 D=192 Dv=128 selectedBlockSize=32 selectedBlockCount=32 "
     "sparseMode=0 actualSeqQLenOptional=[1024,2048,3072,5120] actualSeqKvLenOptional=[1024,2048,3072,5120]"}};
constexpr char kTiny[] = "T1=4 T2=32 N1=4 N2=1 D=128 Dv=128 selectedBlockSize=16 selectedBlockCount=1";
// Rows of several blocks, more of them than are selected: of one block every selection is right.
constexpr char kSmall[] = "T1=56 T2=64 N1=4 N2=2 D=128 Dv=128 selectedBlockSize=16 selectedBlockCount=2";
// With AMX 0.3 of its peak is wanted: at that rate everything around the tiles shows.
constexpr Target kTargets[] = {{"bf16", 0.65}, {"f16", 0.55}, {"amx", 0.30}};

constexpr char kKeys[] = "selectedBlockSize*selectedBlockCount";
constexpr NamedMistake kForwardMistakes[] = {
    {"with the causal mask ignored", 0, "sparseMode=0"},
    {"with the key of the row itself masked: j < s", kCausalBefore},
    {"with one key too many seen: j <= s + 1", kCausalAfter},
    {"with the batches ignored", 0, "actualSeqQLenOptional=none actualSeqKvLenOptional=none"},
    {"with the next block of each selected", 0, "topkIndices=plus1"},
    {"with the block before each selected", 0, "topkIndices=plus-1"},
    {"with key head h % N2, not h / (N1/N2)", kOtherHead},
    {"without the scale", 0, "scaleValue=1"},
    {"with the scale twice", 0, "scaleValue=scaleValue*scaleValue"},
    {"without the division by the sum", kNotDivided},
    {"with log(sum) for the sum", kLogOfSum},
    {"with max + log(sum) for the sum", kLogSumExp},
    {"with the blocks of the row before", 0, "topkIndices=row_before"},
    {"with the blocks of the next row", 0, "topkIndices=row_after"},
    {"with the scale times #", 0, "scaleValue=scaleValue*#", "", 1},
    {"with # added to the sum", kAddedToSum},
    {"without a part of D in q*k", kPartOfDepth, "", "D"},
    {"without a part of the selected keys", kPartOfKeys, "", kKeys},
    {"without a part of the selected keys in the sum alone", kPartOfSum, "", kKeys},
    {"without a part of the selected keys in P*v alone", kPartOfProduct, "", kKeys},
};
constexpr NamedMistake kGradMistakes[] = {
    {"without delta", 0, "attentionOut=zeros"},
    {"with delta of the opposite sign", 0, "attentionOut=negated"},
    {"with the causal mask ignored", 0, "sparseMode=0"},
    {"with the causal mask where there is none", 0, "sparseMode=2"},
    {"with the key of the row itself masked: j < s", kCausalBefore},
    {"with one key too many seen: j <= s + 1", kCausalAfter},
    {"with the batches ignored", 0, "actualSeqQLenOptional=none actualSeqKvLenOptional=none"},
    {"with the next block of each selected", 0, "topkIndices=plus1"},
    {"with the block before each selected", 0, "topkIndices=plus-1"},
    {"without the scale of q*k", kNoInnerScale},
    {"without the scale of dQ and dK", kNoOuterScale},
    {"without the scale", 0, "scaleValue=1"},
    {"without the max", 0, "softmaxMax=zeros"},
    {"without the division by the sum", kNotDivided},
    {"without the factor P of dS", kNoP},
    {"with delta of the row before", 0, "attentionOut=row_before"},
    {"with delta of the next row", 0, "attentionOut=row_after"},
    {"with softmaxMax of the row before", 0, "softmaxMax=row_before"},
    {"with softmaxMax of the next row", 0, "softmaxMax=row_after"},
    {"with softmaxSum of the row before", 0, "softmaxSum=row_before"},
    {"with softmaxSum of the next row", 0, "softmaxSum=row_after"},
    {"with the blocks of the row before", 0, "topkIndices=row_before"},
    {"with the blocks of the next row", 0, "topkIndices=row_after"},
    {"with the scale times #", 0, "scaleValue=scaleValue*#", "", 1},
    {"with the scale of q*k times #", kTimesInnerScale, "", "", 1},
    {"with delta times #", 0, "attentionOut=times#", "", 1},
    {"with # added to softmaxSum", 0, "softmaxSum=plus#"},
    {"without a part of D in q*k", kPartOfDepth, "", "D"},
    {"without a part of Dv in dO*v", kPartOfValueDepth, "", "Dv"},
    {"without a part of Dv in delta", kPartOfDelta, "", "Dv"},
    {"without a part of the selected keys", kPartOfKeys, "", kKeys},
    {"without a part of the selected keys in dQ alone", kPartOfProduct, "", kKeys},
    {"without a part of the rows in dK and dV", kPartOfRows, "", "T1"},
    {"without a part of each group of heads in dK and dV", kPartOfGroup, "", "N1/N2"},
};

}  // namespace

// Products of all keys of the selected blocks: one with D and one with Dv forward, three and two of the gradient.
constexpr Trials kForwardTrials = {.sweep = kSweep,
                                   .bench = kBench,
                                   .tiny = kTiny,
                                   .small = kSmall,
                                   .limit = {.flops = "2*T1*N1*selectedBlockSize*selectedBlockCount*(D+Dv)"},
                                   .targets = kTargets,
                                   .roundings = "exp(S - max) to the 16-bit type",
                                   .mistakes = kForwardMistakes};
constexpr Trials kGradTrials = {.sweep = kSweep,
                                .bench = kBench,
                                .tiny = kTiny,
                                .small = kSmall,
                                .limit = {.flops = "2*T1*N1*selectedBlockSize*selectedBlockCount*(3*D+2*Dv)"},
                                .targets = kTargets,
                                .roundings = "P and dS to the 16-bit type",
                                .mistakes = kGradMistakes};

}  // namespace gradus::nsa_selected_attention
