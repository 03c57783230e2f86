// The options of gradus.h and the environment variables behind them: the only place that reads the environment.
#pragma once

#include "base/cpu.h"
#include "base/log.h"
#include "base/status.h"

namespace gradus {

inline constexpr int kMostDevices = 1024;

// All but the first are golden's loops: in f64; with the magnitude of every sum; and as a kernel would compute that
// rounds to so many bits, every operation of f32, every factor of a 16-bit type, besides every product that is added
// up, or every step of its sums, to nearest or towards zero.
enum class Precision {
    fast,
    golden,
    magnitude,
    f32,
    bf16,
    f16,
    bf16_products,
    f16_products,
    bf16_sums,
    f16_sums,
    f32_truncated,
    bf16_truncated,
    f16_truncated
};
const char* precision_name(Precision precision);

// A mistake that golden makes on purpose, by its number in the family's golden.h; of a sum, the terms [begin, end) are
// left out, or counted twice.
struct Mistake {
    int which = 0;  // 0: none
    bool twice = false;
    int64_t begin = 0, end = 0, step = 1;  // of a part of a sum
    double amount = 0;                     // of what a name has # for

    bool is(int other) const { return which == other; }
    // How often a term of a sum counts.
    int times(int sum, int64_t term) const {
        if (which != sum || term < begin || term >= end || (term - begin) % step != 0) return 1;
        return twice ? 2 : 0;
    }
};

// What golden computes.
struct Golden {
    Precision precision = Precision::golden;
    Mistake mistake;
};
enum class Memory { device, any };

// Everything phase one needs to know, as it was when it was asked for.
struct Config {
    bool limits = true;
    Precision precision = Precision::fast;
    Memory memory = Memory::device;
    int num_threads = 1;
    Isa max_isa = Isa::scalar;
    const char* soc_name = "";  // lives as long as the process
    const char* mistake = "";   // as it was written; likewise
    Mistake known_mistake;      // what phase one found of that name in the operator's list

    bool golden() const { return precision != Precision::fast; }
    // f64 elements only: a narrow arithmetic is compared with f64.
    bool narrow() const { return precision > Precision::magnitude; }
    const char* golden_path() const { return precision_name(precision); }
    Golden how() const { return {precision, known_mistake}; }
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
Result<int> hccl_deterministic();  // HCCL_DETERMINISTIC: false 0, true 1, strict 2

// Where nobody has set the number of threads: so many processes share the CPUs that this one may use.
void share_cpus(int processes);

LogLevel config_log_level() noexcept;
// Read at load: GRADUS_TRACE, nullptr where nothing is to be traced; GRADUS_TRACE_LIMIT, GB/s of memory, 0: not known.
const char* config_trace_file() noexcept;
double config_trace_limit() noexcept;

bool config_sync_copies();                      // GRADUS_SYNC_COPIES, default on
const char* environment(const char* variable);  // for what is decided at load; "" where it is not set
int config_devices();                           // GRADUS_DEVICES, narrowed by ASCEND_RT_VISIBLE_DEVICES

Status set_option(const char* name, const char* value);
Status set_thread_option(const char* name, const char* value);  // value nullptr: as the process has it
const char* get_option(const char* name);                       // nullptr: unknown

}  // namespace gradus
