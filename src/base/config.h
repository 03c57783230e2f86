// The options of gradus.h and the environment variables behind them: the only place that reads the environment.
#pragma once

#include <cstdint>
#include <string>

#include "base/cpu.h"
#include "base/log.h"
#include "base/status.h"

namespace gradus {

enum class Precision { fast, golden };

// Everything phase one needs to know, as it was when it was asked for.
struct Config {
    bool limits = true;
    Precision precision = Precision::fast;
    int num_threads = 1;
    Isa max_isa = Isa::scalar;
    const char* soc_name = "";  // lives as long as the process
};

// A wrong value in the environment is an error of whoever needs the configuration.
Result<Config> config();
// The same without the error: wrong values count as absent.
Config config_or_default();

LogLevel config_log_level() noexcept;
bool config_sync_copies() noexcept;  // GRADUS_SYNC_COPIES, default on
int config_devices() noexcept;       // GRADUS_DEVICES, narrowed by ASCEND_RT_VISIBLE_DEVICES

Status set_option(const char* name, const char* value);
const char* get_option(const char* name);  // nullptr: unknown

}  // namespace gradus
