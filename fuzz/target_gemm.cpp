// Products of small integers, whose sums are exact in f32: every path and every stand-in gives the very numbers.
#include <string>

#include "fuzz/input.h"
#include "fuzz/report.h"
#include "testing/product.h"

namespace gradus::fuzz {
namespace {

// Up to 8·8·2^10 terms of at most 8·8 stay below 2^24.
constexpr int64_t kMostDepth = 1024, kMostProducts = 1 << 18;

int64_t extent(Input& in, int64_t most) { return in.one_in(3) ? in.between(1, most) : in.size(most); }

}  // namespace
}  // namespace gradus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace gradus;        // NOLINT(google-build-using-namespace)
    using namespace gradus::fuzz;  // NOLINT(google-build-using-namespace)
    Input in(data, size);
    static const std::vector<gemm::NamedPath> paths = gemm::paths();
    const int64_t k = in.one_in(16) ? 0 : extent(in, kMostDepth);
    const int64_t m = extent(in, 200), n = std::min(extent(in, 200), kMostProducts / (m * std::max<int64_t>(k, 1)) + 1);
    const bool across_a = in.one_in(2), across_b = in.one_in(2), accumulate = in.one_in(3);
    const int64_t step_a = in.between(1, 3), step_b = in.between(1, 3);
    // parts begin at whole strips and units of every path
    const int64_t row_part = 96 * in.between(1, 2), k_part = 64 * in.between(1, 6);
    uint64_t state = in.word();
    const auto small = [&state] {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return static_cast<double>(static_cast<int64_t>(state >> 60) - 8);
    };
    for (const gemm::NamedPath& p : paths) {
        const uint64_t seed = state;
        const gemm::Values a(p.path->dtype, m, k, across_a, step_a, small),
            b(p.path->dtype, n, k, across_b, step_b, small);
        state = seed;  // the same numbers for every path
        const std::string words = p.name + ": " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                                  std::to_string(k) + (across_a ? ", a transposed" : "") +
                                  (across_b ? ", b transposed" : "") + ", steps " + std::to_string(step_a) + " and " +
                                  std::to_string(step_b) + ", parts of " + std::to_string(row_part) + " rows and " +
                                  std::to_string(k_part) + (accumulate ? ", added to 1" : "");
        set_case("gemm " + words);
        std::vector<float> got = gemm::product(*p.path, a, b, accumulate, row_part, k_part);
        if (planted("exact")) got.back() += 1;
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                double want = accumulate ? 1 : 0;
                for (int64_t t = 0; t < k; ++t) want += a.at(i, t) * b.at(j, t);
                const float value = got[static_cast<size_t>(i * n + j)];
                if (value != static_cast<float>(want))
                    fail("exact", words + ": [" + std::to_string(i) + "," + std::to_string(j) + "] is " +
                                      std::to_string(value) + ", expected " + std::to_string(want));
            }
        count("products");
    }
    return 0;
}
