// gemm_bench: each micro-kernel from L2 against the peak of its own instruction, from registers, in turn.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "cli/bench/peak.h"
#include "gemm/gemm.h"

namespace gradus::gemm {
namespace {

using bench::Peak;

// Of this thread alone: others that are at work on the machine do not count.
double now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Size {
    int64_t m, n, k;
};
// Blocks of the LM head, within L2 and beyond; groups of 16 and of 4 heads against a block of 64 keys.
constexpr Size kSizes[] = {{96, 192, 1024}, {256, 384, 4096}, {16, 64, 192}, {4, 64, 128}};

void run(const char* name, const Path& path, const Peak& peak) {
    for (const Size& size : kSizes) {
        std::vector<uint16_t> source(static_cast<size_t>(std::max(size.m, size.n) * size.k));
        std::mt19937 engine(1);
        for (uint16_t& x : source) x = static_cast<uint16_t>((engine() & 0x83FF) | 0x3800);  // 1/2 to 2 in f16
        const Panel a = path.panel_a(size.m, size.k), b = path.panel_b(size.n, size.k);
        auto* pa = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(round_up(a.bytes(), 64))));
        auto* pb = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(round_up(b.bytes(), 64))));
        const int64_t stride = b.strips() * path.b.rows;
        std::vector<float> c(static_cast<size_t>(a.strips() * path.a.rows * stride));
        path.pack(a, pa, {0, size.m, 0, size.k}, {source.data(), size.k, 1});
        path.pack(b, pb, {0, size.n, 0, size.k}, {source.data(), size.k, 1});
        const double flops = 2.0 * static_cast<double>(size.m * size.n * size.k);
        const int repeats = static_cast<int>(4e8 / flops) + 1;
        std::vector<double> ratio, rate;
        for (int round = 0; round < 25; ++round) {
            const double begin = now();
            {
                const Using using_path(path);
                for (int i = 0; i < repeats; ++i)
                    path.multiply(a, pa, b, pb, {0, a.strips(), 0, b.strips(), c.data(), stride, false});
            }
            const double mine = flops * repeats / (now() - begin), limit = peak.flops_per_second(0.004);
            ratio.push_back(mine / limit), rate.push_back(mine);
        }
        std::sort(ratio.begin(), ratio.end()), std::sort(rate.begin(), rate.end());
        std::printf("%-12s %-5s %4lldx%lldx%-5lld %8.1f GFLOP/s   %.2f of %s (quartiles %.2f - %.2f)\n", name,
                    path.dtype == DType::f16 ? "f16" : "bf16", static_cast<long long>(size.m),
                    static_cast<long long>(size.n), static_cast<long long>(size.k), rate[rate.size() / 2] * 1e-9,
                    ratio[ratio.size() / 2], peak.name, ratio[ratio.size() / 4], ratio[ratio.size() * 3 / 4]);
        std::free(pa), std::free(pb);
    }
}

// Packing: nanoseconds an element, k or rows at unit stride in the source.
void run_pack(const char* name, const Path& path) {
    constexpr int64_t kRows = 192, kLength = 768;
    std::vector<uint16_t> source(kRows * kLength, 0x3C01);
    for (const bool is_a : {true, false})
        for (const bool rows_side_by_side : {false, true}) {
            const Panel panel = is_a ? path.panel_a(kRows, kLength) : path.panel_b(kRows, kLength);
            std::vector<std::byte> to(static_cast<size_t>(panel.bytes()) + 64);
            std::byte* aligned = to.data() + (64 - reinterpret_cast<uintptr_t>(to.data()) % 64) % 64;
            const Matrix matrix =
                rows_side_by_side ? Matrix{source.data(), 1, kRows} : Matrix{source.data(), kLength, 1};
            std::vector<double> times;
            for (int round = 0; round < 25; ++round) {
                const double begin = now();
                for (int i = 0; i < 10; ++i) path.pack(panel, aligned, {0, kRows, 0, kLength}, matrix);
                times.push_back((now() - begin) / (10 * kRows * kLength));
            }
            std::sort(times.begin(), times.end());
            std::printf("%-12s %-5s pack %s, %s at unit stride: %.2f ns an element\n", name,
                        path.dtype == DType::f16 ? "f16" : "bf16", is_a ? "A" : "B", rows_side_by_side ? "rows" : "k",
                        times[times.size() / 2] * 1e9);
        }
}

}  // namespace
}  // namespace gradus::gemm

int main() {
    using namespace gradus;        // NOLINT(google-build-using-namespace)
    using namespace gradus::gemm;  // NOLINT(google-build-using-namespace)
    using bench::fma_peak, bench::matrix_peak;
    std::printf("one thread; operands packed and in L2; the peak runs from registers in the same rounds\n");
    for (const DType dtype : {DType::bf16, DType::f16})
        for (const Isa isa : cpu_isas())
            if (isa > Isa::scalar && isa <= Isa::avx512) {
                run(isa_name(isa), path_f32(dtype, isa), fma_peak(isa_name(isa)));
                run_pack(isa_name(isa), path_f32(dtype, isa));
            }
    for (const Isa isa : {Isa::avx512, Isa::avx512_bf16, Isa::amx})
        if (!cpu_has(isa)) std::printf("%-12s compiled; this CPU has none\n", isa_name(isa));
#if defined(__x86_64__)
    if (cpu_has(Isa::avx512_bf16)) {
        run("avx512_bf16", path_avx512_bf16(), matrix_peak("avx512_bf16", false));
        run_pack("avx512_bf16", path_avx512_bf16());
    }
    for (const DType dtype : {DType::bf16, DType::f16})
        if (cpu_has(Isa::amx)) {
            run("amx", path_amx(dtype), matrix_peak("amx", dtype == DType::f16));
            run_pack("amx", path_amx(dtype));
        }
#endif
    return 0;
}
