#include "cli/bench/others.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "cli/base/clock.h"

namespace gradus::cli {
namespace {

// user, nice, system, idle, iowait, irq, softirq, steal of all CPUs together: what is neither idle nor waiting.
double busy_seconds() {
    std::ifstream file("/proc/stat");
    std::string name;
    double ticks[8] = {};
    file >> name;
    for (double& tick : ticks) file >> tick;
    if (!file || name != "cpu") return 0;
    const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Others::Others() : start_(now()), busy_(busy_seconds()), own_(own_seconds()) {}

double Others::share() const {
    const double all = (now() - start_) * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
    const double others = busy_seconds() - busy_ - (own_seconds() - own_);
    return all > 0 ? std::clamp(others / all, 0.0, 1.0) : 0;
}

}  // namespace gradus::cli
