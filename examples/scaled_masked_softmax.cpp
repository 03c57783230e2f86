// Attention scores as Megatron computes them: a causal mask that all heads share, the probabilities, and the gradient
// that goes back to the scores, checked against finite differences.
//
//   g++ -std=c++11 scaled_masked_softmax.cpp -I$PREFIX/include -L$PREFIX/lib64 -lascendcl -lnnopbase -lopapi
#include <cmath>
#include <cstdio>
#include <vector>

#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_scaled_masked_softmax_backward.h"
#include "device.h"

static const int64_t kHeads = 2, kTokens = 4;
static const double kScale = 0.5;  // 1 / sqrt(head size 4)

// scores, weights (the gradient by the probabilities): [1, heads, tokens, tokens]; mask: [1, 1, tokens, tokens]
struct Attention {
    Tensor<float> scores, probabilities, weights, gradient;
    Tensor<char> mask;

    Attention()
        : scores({1, kHeads, kTokens, kTokens}, ACL_FLOAT),
          probabilities({1, kHeads, kTokens, kTokens}, ACL_FLOAT),
          weights({1, kHeads, kTokens, kTokens}, ACL_FLOAT),
          gradient({1, kHeads, kTokens, kTokens}, ACL_FLOAT),
          mask({1, 1, kTokens, kTokens}, ACL_BOOL) {
        std::vector<char> hidden;  // a token does not see those after it
        for (int64_t query = 0; query < kTokens; ++query)
            for (int64_t key = 0; key < kTokens; ++key) hidden.push_back(key > query);
        mask.write(hidden);
    }

    void forward(aclrtStream stream) {
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        CHECK(aclnnScaledMaskedSoftmaxGetWorkspaceSize(scores.get(), mask.get(), kScale, false, probabilities.get(),
                                                       &size, &executor));
        launch(aclnnScaledMaskedSoftmax, size, executor, stream);
    }

    void backward(aclrtStream stream) {
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        CHECK(aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize(weights.get(), probabilities.get(), mask.get(), kScale,
                                                               false, gradient.get(), &size, &executor));
        launch(aclnnScaledMaskedSoftmaxBackward, size, executor, stream);
    }
};

// The loss whose gradient by the probabilities is `weights`.
static double loss(const std::vector<float>& weights, const std::vector<float>& probabilities) {
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i)
        sum += static_cast<double>(weights[i]) * static_cast<double>(probabilities[i]);
    return sum;
}

static void print_head(const char* title, const std::vector<float>& values) {
    std::printf("%s, first head\n", title);
    for (size_t i = 0; i < kTokens * kTokens; ++i)
        std::printf("%9.5f%s", static_cast<double>(values[i]), (i + 1) % kTokens == 0 ? "\n" : " ");
}

static int compare_with_finite_differences(aclrtStream stream) {
    std::vector<float> scores, weights;
    for (int i = 0; i < kHeads * kTokens * kTokens; ++i) {
        scores.push_back(static_cast<float>(i * 7 % 11) * 0.5f - 2.0f);
        weights.push_back(static_cast<float>(i * 5 % 13) * 0.25f - 1.5f);
    }
    Attention attention;
    attention.scores.write(scores);
    attention.weights.write(weights);
    attention.forward(stream);
    attention.backward(stream);
    const std::vector<float> gradient = attention.gradient.read();
    print_head("probabilities", attention.probabilities.read());
    print_head("gradient by the scores", gradient);

    // (loss(x + h) - loss(x - h)) / 2h, one score after the other. f32 leaves about 1e-4 of accuracy.
    const float h = 1.0f / 64;
    double worst = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
        double value[2];
        for (int side = 0; side < 2; ++side) {
            std::vector<float> moved = scores;
            moved[i] += side == 0 ? -h : h;
            attention.scores.write(moved);
            attention.forward(stream);
            value[side] = loss(weights, attention.probabilities.read());
        }
        const double quotient = (value[1] - value[0]) / static_cast<double>(2 * h);
        const double error = std::fabs(quotient - static_cast<double>(gradient[i]));
        worst = std::isnan(error) || error > worst ? error : worst;
    }
    const bool agree = worst < 1e-3;
    std::printf("gradient and difference quotients %s: largest difference %.1e\n", agree ? "agree" : "DISAGREE", worst);
    return agree ? 0 : 1;
}

int main() { return on_device(compare_with_finite_differences); }
