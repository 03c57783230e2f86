#include "base/check.h"

#include "ops/exp_segsum/plan.h"

namespace gradus::exp_segsum {
namespace {

constexpr int kLeastRank = 3, kMostRank = 4;  // of the vectors; matrices have one dim more

std::span<const int64_t> first_sizes(const TensorView& view, int rank) {
    return {view.size.data(), static_cast<size_t>(rank)};
}

}  // namespace

Status check_forward(const Call& call) {
    using namespace forward;
    const TensorView &self = call.view(kSelf), &out = call.view(kOut);
    GRADUS_TRY(expect_rank("self", self, kLeastRank, kMostRank));
    GRADUS_TRY(expect_result_dtype("out", out, "self", self));
    TensorView wanted = self;
    wanted.size[static_cast<size_t>(wanted.rank++)] = self.of(self.rank - 1);
    return expect_shape("out", out, first_sizes(wanted, wanted.rank));
}

Status check_backward(const Call& call) {
    using namespace backward;
    const TensorView& grad_output = call.view(kGradOutput);
    const TensorView &grad_self = call.view(kGradSelf), &grad_input = call.view(kGradInput);
    const int rank = grad_output.rank;
    GRADUS_TRY(expect_rank("gradOutput", grad_output, kLeastRank + 1, kMostRank + 1));
    if (grad_output.of(rank - 2) != grad_output.of(rank - 1))
        return invalid("gradOutput", "shape ", shape_text(grad_output), ", expected the last two dims to be equal");
    GRADUS_TRY(expect_same_dtype("gradSelf", grad_self, "gradOutput", grad_output));
    GRADUS_TRY(expect_shape("gradSelf", grad_self, first_sizes(grad_output, rank)));
    GRADUS_TRY(expect_result_dtype("gradInput", grad_input, "gradOutput", grad_output));
    return expect_shape("gradInput", grad_input, first_sizes(grad_output, rank - 1));
}

}  // namespace gradus::exp_segsum
