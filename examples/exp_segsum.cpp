// The decay matrix of Mamba-2 and its gradient: how much of step j is left at step i when every step decays by its own
// rate. Prints the matrix, and checks the gradient by finite differences.
//
//   g++ -std=c++11 exp_segsum.cpp -I$PREFIX/include -L$PREFIX/lib64 -lascendcl -lnnopbase -lopapi -o exp_segsum
#include <cmath>
#include <cstdio>
#include <vector>

#include "aclnnop/aclnn_exp_segsum_backward.h"
#include "aclnnop/aclnn_segsum.h"
#include "device.h"

// y[i][j] = exp(x[j + 1] + ... + x[i]) below the diagonal, 1 on it, 0 above.
static void exp_segsum(const Tensor<float>& x, const Tensor<float>& y, aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnExpSegsumGetWorkspaceSize(x.get(), y.get(), &size, &executor));
    launch(aclnnExpSegsum, size, executor, stream);
}

static void exp_segsum_backward(const Tensor<float>& y_grad, const Tensor<float>& y, const Tensor<float>& x_grad,
                                aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnExpSegsumBackwardGetWorkspaceSize(y_grad.get(), y.get(), x_grad.get(), &size, &executor));
    launch(aclnnExpSegsumBackward, size, executor, stream);
}

static int show_and_compare(aclrtStream stream) {
    const std::vector<float> rates = {0.0f, -0.25f, -1.0f, 0.125f, -0.5f};
    const int64_t t = static_cast<int64_t>(rates.size());
    const size_t n = rates.size();
    std::vector<float> weights(n * n);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 2.5f;
    Tensor<float> x({1, 1, t}, ACL_FLOAT), y({1, 1, t, t}, ACL_FLOAT), y_grad({1, 1, t, t}, ACL_FLOAT),
        x_grad({1, 1, t}, ACL_FLOAT);

    x.write(rates);
    exp_segsum(x, y, stream);
    const std::vector<float> decay = y.read();
    for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) std::printf("%9.5f", static_cast<double>(decay[i * n + j]));
        std::printf("\n");
    }
    y_grad.write(weights);
    exp_segsum_backward(y_grad, y, x_grad, stream);
    const std::vector<float> gradient = x_grad.read();

    // (loss(x + h) - loss(x - h)) / 2h of the loss whose gradient by y is `weights`. f32 leaves about 1e-3 of accuracy.
    const float h = 1.0f / 64;
    double worst = 0;
    std::printf("   rate    gradient  difference quotient\n");
    for (size_t k = 0; k < n; ++k) {
        double loss[2] = {0, 0};
        for (int side = 0; side < 2; ++side) {
            std::vector<float> moved = rates;
            moved[k] += side == 0 ? -h : h;
            x.write(moved);
            exp_segsum(x, y, stream);
            const std::vector<float> values = y.read();
            for (size_t i = 0; i < values.size(); ++i)
                loss[side] += static_cast<double>(weights[i]) * static_cast<double>(values[i]);
        }
        const double quotient = (loss[1] - loss[0]) / static_cast<double>(2 * h);
        const double error = std::fabs(quotient - static_cast<double>(gradient[k])) / (1 + std::fabs(quotient));
        worst = std::isnan(error) || error > worst ? error : worst;
        std::printf("%7.3f  %10.6f  %10.6f\n", static_cast<double>(rates[k]), static_cast<double>(gradient[k]),
                    quotient);
    }
    const bool agree = worst < 1e-3;
    std::printf("%s: largest difference %.1e\n", agree ? "they agree" : "THEY DISAGREE", worst);
    return agree ? 0 : 1;
}

int main() { return on_device(show_and_compare); }
