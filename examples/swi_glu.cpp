// SwiGLU and its gradient on a small tensor, as a program for the device would call them, and a check that one is the
// derivative of the other.
//
//   g++ -std=c++11 swi_glu.cpp -I$PREFIX/include -L$PREFIX/lib64 -lascendcl -lnnopbase -lopapi -o swi_glu
#include <cmath>
#include <cstdio>
#include <vector>

#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_swi_glu_grad.h"
#include "device.h"

// x is split along its last dimension into A and B: y = A * sigmoid(A) * B.
static void swi_glu(const Tensor<float>& x, const Tensor<float>& y, aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnSwiGluGetWorkspaceSize(x.get(), -1, y.get(), &size, &executor));
    launch(aclnnSwiGlu, size, executor, stream);
}

static void swi_glu_grad(const Tensor<float>& y_grad, const Tensor<float>& x, const Tensor<float>& x_grad,
                         aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnSwiGluGradGetWorkspaceSize(y_grad.get(), x.get(), -1, x_grad.get(), &size, &executor));
    launch(aclnnSwiGluGrad, size, executor, stream);
}

// The loss whose gradient by y is `weights`: sum of weights * y.
static double loss(const std::vector<float>& weights, const Tensor<float>& y) {
    const std::vector<float> values = y.read();
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(weights[i]) * static_cast<double>(values[i]);
    return sum;
}

static int compare_with_finite_differences(aclrtStream stream) {
    const int64_t rows = 2, half = 3;
    const std::vector<float> x_values = {-2.0f, 0.5f, 3.0f, 14.0f, -1.0f, 0.25f, 1.0f, -0.5f, 4.0f, 2.0f, 1.5f, -3.0f};
    const std::vector<float> weights = {-2.0f, 1.0f, 0.5f, 3.0f, -1.5f, 0.25f};
    Tensor<float> x({rows, 2 * half}, ACL_FLOAT), y({rows, half}, ACL_FLOAT), y_grad({rows, half}, ACL_FLOAT),
        x_grad({rows, 2 * half}, ACL_FLOAT);

    x.write(x_values);
    y_grad.write(weights);
    swi_glu_grad(y_grad, x, x_grad, stream);
    const std::vector<float> gradient = x_grad.read();

    // (loss(x + h) - loss(x - h)) / 2h, one element after the other. f32 leaves about 1e-4 of accuracy.
    const float h = 1.0f / 64;
    double worst = 0;
    std::printf("      x    gradient  difference quotient\n");
    for (size_t i = 0; i < x_values.size(); ++i) {
        double value[2];
        for (int side = 0; side < 2; ++side) {
            std::vector<float> moved = x_values;
            moved[i] += side == 0 ? -h : h;
            x.write(moved);
            swi_glu(x, y, stream);
            value[side] = loss(weights, y);
        }
        const double quotient = (value[1] - value[0]) / static_cast<double>(2 * h);
        const double error = std::fabs(quotient - static_cast<double>(gradient[i])) / (1 + std::fabs(quotient));
        worst = std::isnan(error) || error > worst ? error : worst;
        std::printf("%7.2f  %10.6f  %10.6f\n", static_cast<double>(x_values[i]), static_cast<double>(gradient[i]),
                    quotient);
    }
    const bool agree = worst < 1e-3;
    std::printf("%s: largest difference %.1e\n", agree ? "they agree" : "THEY DISAGREE", worst);
    return agree ? 0 : 1;
}

int main() { return on_device(compare_with_finite_differences); }
