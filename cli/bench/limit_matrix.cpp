#include <algorithm>

#include "cli/base/clock.h"
#include "cli/bench/limit.h"
#include "cli/bench/peak.h"
#include "cli/bench/team.h"
#include "gradus/gradus.h"

namespace gradus::bench {

Limit matrix_limit(double flops, bool f16) {
    const Peak peak = matrix_peak(gradusGetOption("max_isa"), f16);
    constexpr int64_t kBlocks = 64;  // a thread that is kept from working gives its share to others
    const double part = std::min(flops, 6e9);
    const auto calls = std::max<int64_t>(1, static_cast<int64_t>(part / static_cast<double>(kBlocks) / peak.flops));
    const double scale = flops / (static_cast<double>(kBlocks * calls) * peak.flops);
    return {.seconds =
                [=] {
                    const double start = cli::now();
                    team().run(kBlocks, [&](int64_t) { return peak.run(calls); });
                    return (cli::now() - start) * scale;
                },
            .work = flops,
            .unit = "GFLOP/s",
            .kind = peak.name};
}

}  // namespace gradus::bench
