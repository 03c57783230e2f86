// The LM head of a language model with its vocabulary cut into R parts, as tensor-parallel training cuts it: statistics
// of every part, the reductions between them (here by the program, on a cluster by all-reduce), the loss, and the
// gradients. Shows that R parts give what one gives, and how little memory that takes beside the logits.
//
//   g++ -std=c++11 fused_linear_cross_entropy.cpp -I$PREFIX/include -L$PREFIX/lib64 -lascendcl -lnnopbase -lopapi -o
//   flce
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "device.h"

static const int64_t kTokens = 512, kWords = 32000, kHidden = 64;

static uint64_t largest_workspace = 0;

struct Model {
    std::vector<uint16_t> input, weight;  // [tokens, hidden], [words, hidden]
    std::vector<int32_t> target;
    std::vector<float> grad;  // of the loss of each token: 1/tokens, as for a mean
};

struct Answer {
    std::vector<float> loss, input_grad, weight_grad;
};

// One part of the vocabulary, as one rank of a cluster would hold it.
struct Part {
    int64_t first, words;
    Tensor<uint16_t> weight, weight_grad, input_grad;
    Tensor<float> max, sum, predicted;
    Tensor<uint8_t> mask;
    Tensor<int32_t> target;

    Part(int64_t begin, int64_t end, const Model& model)
        : first(begin),
          words(end - begin),
          weight({words, kHidden}, ACL_BF16),
          weight_grad({words, kHidden}, ACL_BF16),
          input_grad({kTokens, kHidden}, ACL_BF16),
          max({kTokens}, ACL_FLOAT),
          sum({kTokens}, ACL_FLOAT),
          predicted({kTokens}, ACL_FLOAT),
          mask({(kTokens + 7) / 8}, ACL_UINT8),
          target({kTokens}, ACL_INT32) {
        weight.write(model.weight.data() + first * kHidden);
    }
};

static Answer train_step(const Model& model, const std::vector<int64_t>& bounds, aclrtStream stream) {
    Tensor<uint16_t> input({kTokens, kHidden}, ACL_BF16);
    Tensor<int32_t> target({kTokens}, ACL_INT32);
    Tensor<float> grad({kTokens}, ACL_FLOAT), max({kTokens}, ACL_FLOAT), sum({kTokens}, ACL_FLOAT);
    Tensor<float> predicted({kTokens}, ACL_FLOAT), loss({kTokens}, ACL_FLOAT);
    input.write(model.input.data());
    target.write(model.target.data());
    grad.write(model.grad.data());
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;

    // Every rank: the statistics of its own logits.
    std::vector<Part*> parts;
    for (size_t r = 0; r + 1 < bounds.size(); ++r) {
        parts.push_back(new Part(bounds[r], bounds[r + 1], model));
        Part& p = *parts.back();
        CHECK(aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(
            input.get(), p.weight.get(), target.get(), p.first, p.first + p.words, p.max.get(), p.sum.get(),
            p.predicted.get(), p.mask.get(), p.target.get(), nullptr, &size, &executor));
        largest_workspace = std::max(largest_workspace, size);
        launch(aclnnFusedLinearOnlineMaxSum, size, executor, stream);
    }

    // Between the ranks: M = max m_r, s = sum of s_r e^(m_r - M), p from the rank that has the target.
    std::vector<float> m(kTokens, -HUGE_VALF), s(kTokens, 0), q(kTokens, 0);
    for (const Part* p : parts) {
        const std::vector<float> part_max = p->max.read();
        for (size_t i = 0; i < m.size(); ++i) m[i] = std::max(m[i], part_max[i]);
    }
    for (const Part* p : parts) {
        const std::vector<float> part_max = p->max.read(), part_sum = p->sum.read(), part_logit = p->predicted.read();
        const std::vector<uint8_t> mask = p->mask.read();
        for (size_t i = 0; i < m.size(); ++i) {
            s[i] += part_sum[i] * std::exp(part_max[i] - m[i]);
            if ((mask[i / 8] >> i % 8 & 1) == 0) q[i] += part_logit[i] + part_max[i] - m[i];
        }
    }
    max.write(m.data());
    sum.write(s.data());
    predicted.write(q.data());

    // The loss, from the reduced statistics alone.
    CHECK(aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize(
        max.get(), sum.get(), predicted.get(), 0.0f, nullptr, nullptr, nullptr, loss.get(), nullptr, &size, &executor));
    largest_workspace = std::max(largest_workspace, size);
    launch(aclnnFusedCrossEntropyLossWithMaxSum, size, executor, stream);

    // Every rank: its gradients. weightGrad stays where it is, inputGrad is summed over the ranks.
    Answer answer;
    answer.loss = loss.read();
    answer.input_grad.assign(static_cast<size_t>(kTokens * kHidden), 0);
    for (Part* p : parts) {
        CHECK(aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(
            grad.get(), input.get(), p->weight.get(), p->mask.get(), p->target.get(), 0.0f, max.get(), sum.get(),
            nullptr, p->input_grad.get(), p->weight_grad.get(), &size, &executor));
        largest_workspace = std::max(largest_workspace, size);
        launch(aclnnFusedLinearCrossEntropyLossGrad, size, executor, stream);
        const std::vector<uint16_t> dx = p->input_grad.read(), dw = p->weight_grad.read();
        for (size_t i = 0; i < dx.size(); ++i) answer.input_grad[i] += from_bf16(dx[i]);
        for (size_t i = 0; i < dw.size(); ++i) answer.weight_grad.push_back(from_bf16(dw[i]));
        delete p;
    }
    return answer;
}

// Largest difference in units of the largest value.
static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0, scale = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        most = std::isnan(difference) ? HUGE_VAL : std::max(most, difference);
        scale = std::max(scale, std::fabs(static_cast<double>(b[i])));
    }
    return a.size() == b.size() ? most / scale : HUGE_VAL;
}

static int run(aclrtStream stream) {
    Model model;
    uint32_t state = 1;
    const auto random = [&state] {  // about uniform in -1..1
        state = state * 1664525u + 1013904223u;
        return static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
    };
    for (int64_t i = 0; i < kTokens * kHidden; ++i) model.input.push_back(to_bf16(random()));
    for (int64_t i = 0; i < kWords * kHidden; ++i) model.weight.push_back(to_bf16(0.5f * random()));
    for (int64_t i = 0; i < kTokens; ++i) model.target.push_back(static_cast<int32_t>(i * 7919 % kWords));
    model.grad.assign(static_cast<size_t>(kTokens), 1.0f / static_cast<float>(kTokens));

    const double before = peak_memory();
    const std::vector<std::vector<int64_t>> cuts = {
        {0, kWords}, {0, kWords / 2, kWords}, {0, 8000, 16000, 24000, kWords}, {0, 128, 20001, kWords}};
    std::vector<Answer> answers;
    for (const std::vector<int64_t>& cut : cuts) answers.push_back(train_step(model, cut, stream));

    bool agree = true;
    double mean = 0;
    for (float x : answers[0].loss) mean += static_cast<double>(x) / static_cast<double>(kTokens);
    std::printf("%lld tokens, %lld words, %lld hidden, bf16; mean loss %.6f, of a random guess %.6f\n",
                static_cast<long long>(kTokens), static_cast<long long>(kWords), static_cast<long long>(kHidden), mean,
                std::log(static_cast<double>(kWords)));
    std::printf("difference to one part      loss   inputGrad  weightGrad\n");
    for (size_t c = 1; c < cuts.size(); ++c) {
        const double loss = distance(answers[c].loss, answers[0].loss);
        const double dx = distance(answers[c].input_grad, answers[0].input_grad);
        const double dw = distance(answers[c].weight_grad, answers[0].weight_grad);
        // the loss is f32; inputGrad is a sum of one bf16 number a part, each rounded; weightGrad is one bf16 number
        agree = agree && loss < 1e-5 && dx < static_cast<double>(cuts[c].size()) / 256 && dw < 1.0 / 128;
        std::printf("%zu parts%-12s %10.1e  %10.1e  %10.1e\n", cuts[c].size() - 1,
                    c + 1 == cuts.size() ? ", uneven" : "", loss, dx, dw);
    }
    const double logits = 4.0 * static_cast<double>(kTokens * kWords) / 1048576;
    std::printf(
        "memory: %.0f MiB at most, %.0f before; largest workspace %.1f MiB; the logits in f32 would take %.1f MiB, "
        "softmax and its gradient as much again each\n",
        peak_memory(), before, static_cast<double>(largest_workspace) / 1048576, logits);
    std::printf("%s\n", agree ? "all parts agree" : "THEY DISAGREE");
    return agree ? 0 : 1;
}

int main() { return on_device(run); }
