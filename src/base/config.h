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

// The variables of collectives, read by every call that makes a communicator.
enum class HcclTransport { automatic, local, shared, gloo };
struct HcclEnvironment {
    int connect_timeout_s = 120, exec_timeout_s = 1836;  // exec: 0 is never
    int base_port = 60000;
    const char *if_ip = nullptr, *socket_ifname = nullptr;  // null: not set
    bool ipv6 = false;                                      // HCCL_SOCKET_FAMILY=AF_INET6
    HcclTransport transport = HcclTransport::automatic;
};
Result<HcclEnvironment> hccl_environment();

// Where nobody has set the number of threads: so many processes share the CPUs that this one may use.
void share_cpus(int processes);

LogLevel config_log_level() noexcept;
bool config_sync_copies();  // GRADUS_SYNC_COPIES, default on
int config_devices();       // GRADUS_DEVICES, narrowed by ASCEND_RT_VISIBLE_DEVICES

Status set_option(const char* name, const char* value);
Status set_thread_option(const char* name, const char* value);  // value nullptr: as the process has it
const char* get_option(const char* name);                       // nullptr: unknown

}  // namespace gradus
