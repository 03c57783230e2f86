// The options of gradus.h and the environment variables behind them: the only place that reads the environment.
#pragma once

#include "base/cpu.h"
#include "base/log.h"
#include "base/status.h"

namespace gradus {

inline constexpr int kMostDevices = 1024;

enum class Precision { fast, golden, magnitude };  // the last two are golden's loops
enum class Memory { device, any };

// Everything phase one needs to know, as it was when it was asked for.
struct Config {
    bool limits = true;
    Precision precision = Precision::fast;
    Memory memory = Memory::device;
    int num_threads = 1;
    Isa max_isa = Isa::scalar;
    const char* soc_name = "";  // lives as long as the process

    bool golden() const { return precision != Precision::fast; }
    const char* golden_path() const { return precision == Precision::magnitude ? "magnitude" : "golden"; }
};

// A wrong value in the environment is an error of whoever needs the configuration. Options of the calling thread beat
// those of the process.
Result<Config> config();
// For work without a device: where nobody has set them, `limits` is off and `memory` is any.
Result<Config> config_without_device();
// The same without the error: wrong values count as absent.
Config config_or_default();

LogLevel config_log_level() noexcept;
bool config_sync_copies();                      // GRADUS_SYNC_COPIES, default on
const char* environment(const char* variable);  // for what is decided at load; "" where it is not set
int config_devices();                           // GRADUS_DEVICES, narrowed by ASCEND_RT_VISIBLE_DEVICES

Status set_option(const char* name, const char* value);
Status set_thread_option(const char* name, const char* value);  // value nullptr: as the process has it
const char* get_option(const char* name);                       // nullptr: unknown

}  // namespace gradus
