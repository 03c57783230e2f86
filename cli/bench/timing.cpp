#include "cli/bench/timing.h"

#include <algorithm>
#include <cmath>

#include "cli/base/clock.h"

namespace gradus::bench {
namespace {

using cli::now;

constexpr int kLeastRounds = 5;
constexpr double kLeastSample = 200e-6;  // below this a sample is several runs

double mean(int runs, const std::function<double()>& seconds) {
    double sum = 0;
    for (int i = 0; i < runs; ++i) sum += seconds();
    return sum / runs;
}

}  // namespace

Spread spread(std::vector<double> samples) {
    std::ranges::sort(samples);
    const auto at = [&samples](double part) {
        const double place = part * static_cast<double>(samples.size() - 1);
        const auto below = static_cast<size_t>(place), above = std::min(below + 1, samples.size() - 1);
        return samples[below] + (place - std::floor(place)) * (samples[above] - samples[below]);
    };
    return {at(0.25), at(0.5), at(0.75)};
}

Timing time_in_turn(const std::function<double()>& op, const Limit& limit, const Effort& effort,
                    const std::function<void()>& at_round) {
    op();  // wakes the library's threads
    const auto runs_of = [](double seconds) { return std::max(1, static_cast<int>(kLeastSample / seconds)); };
    const int limit_runs = runs_of(limit.seconds()), op_runs = runs_of(op());

    std::vector<double> limits, ops, fractions;
    const double end = now() + effort.seconds;
    for (int round = 0; round < effort.rounds && (round < kLeastRounds || now() < end); ++round) {
        if (at_round) at_round();
        limits.push_back(mean(limit_runs, limit.seconds));
        ops.push_back(mean(op_runs, op));
        fractions.push_back(limits.back() / ops.back());
    }
    return {static_cast<int>(ops.size()), spread(limits), spread(ops), spread(fractions)};
}

}  // namespace gradus::bench
