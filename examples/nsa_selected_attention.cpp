// Attention over selected blocks and its gradient, as a program for the device would call them: two sequences of
// unequal length in one call, every token looking at its own block, the one before it and the first one.
//
//   g++ -std=c++11 nsa_selected_attention.cpp -I$PREFIX/include -L$PREFIX/lib64 -lascendcl -lnnopbase -lopapi -o nsa
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "aclnnop/aclnn_nsa_selected_attention.h"
#include "aclnnop/aclnn_nsa_selected_attention_grad.h"
#include "device.h"

static std::vector<uint16_t> random_values(size_t count, float scale) {
    static uint32_t state = 1;
    std::vector<uint16_t> values(count);
    for (size_t i = 0; i < count; ++i) {
        state = state * 1664525 + 1013904223;
        values[i] = to_bf16(scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f));
    }
    return values;
}

static double dot(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
        sum += static_cast<double>(from_bf16(a[i])) * static_cast<double>(from_bf16(b[i]));
    return sum;
}

static int run(aclrtStream stream) {
    const int64_t rows = 96 + 64, heads = 4, key_heads = 1, depth = 128, size = 16, count = 3;
    const std::vector<int64_t> ends = {96, rows};
    aclIntArray* lengths = aclCreateIntArray(ends.data(), ends.size());
    const size_t queries = static_cast<size_t>(rows * heads * depth),
                 keys = static_cast<size_t>(rows * key_heads * depth);

    const std::vector<int64_t> by_query = {rows, heads, depth}, by_key = {rows, key_heads, depth};
    Tensor<uint16_t> query(by_query, ACL_BF16), key(by_key, ACL_BF16), value(by_key, ACL_BF16);
    Tensor<uint16_t> out(by_query, ACL_BF16), out_grad(by_query, ACL_BF16);
    Tensor<uint16_t> query_grad(by_query, ACL_BF16), key_grad(by_key, ACL_BF16), value_grad(by_key, ACL_BF16);
    Tensor<float> max({rows, heads, 8}, ACL_FLOAT), sum({rows, heads, 8}, ACL_FLOAT);
    Tensor<int32_t> topk({rows, key_heads, count}, ACL_INT32);
    Tensor<char> mask({2048, 2048}, ACL_BOOL);

    const std::vector<uint16_t> value_values = random_values(keys, 1), grad_values = random_values(queries, 1);
    query.write(random_values(queries, 1)), key.write(random_values(keys, 1)), value.write(value_values),
        out_grad.write(grad_values);
    std::vector<int32_t> blocks;
    for (int64_t row = 0; row < rows; ++row) {
        const int32_t own = static_cast<int32_t>((row < 96 ? row : row - 96) / size);
        blocks.push_back(own);
        blocks.push_back(own > 1 ? own - 1 : -1);  // -1: no block
        blocks.push_back(own > 0 ? 0 : -1);
    }
    topk.write(blocks);
    std::vector<char> above(2048 * 2048);  // what sparse mode 2 masks: keys behind the query
    for (size_t i = 0; i < above.size(); ++i) above[i] = i % 2048 > i / 2048;
    mask.write(above);

    char layout[] = "TND";
    const double scale = 1 / std::sqrt(static_cast<double>(depth));
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnNsaSelectedAttentionGetWorkspaceSize(query.get(), key.get(), value.get(), topk.get(), mask.get(),
                                                    lengths, lengths, scale, heads, layout, 2, size, count, max.get(),
                                                    sum.get(), out.get(), &bytes, &executor));
    launch(aclnnNsaSelectedAttention, bytes, executor, stream);
    CHECK(aclnnNsaSelectedAttentionGradGetWorkspaceSize(query.get(), key.get(), value.get(), out.get(), out_grad.get(),
                                                        max.get(), sum.get(), topk.get(), lengths, lengths, mask.get(),
                                                        scale, size, count, heads, layout, 2, query_grad.get(),
                                                        key_grad.get(), value_grad.get(), &bytes, &executor));
    launch(aclnnNsaSelectedAttentionGrad, bytes, executor, stream);
    CHECK(aclDestroyIntArray(lengths));

    // out is linear in value, so <out, g> = <value, gradient by value>, but for the roundings to bf16.
    const double left = dot(out.read(), grad_values), right = dot(value_values, value_grad.read());
    std::printf("<out, g> = %.4f, <value, dv> = %.4f\n", left, right);
    const bool agree = std::fabs(left - right) < 0.01 * (1 + std::fabs(left)) + 0.2;
    std::printf("%s\n", agree ? "they agree" : "THEY DISAGREE");
    return agree ? 0 : 1;
}

int main() { return on_device(run); }
