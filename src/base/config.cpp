#include "base/config.h"

#include <sched.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include "acl/acl_base.h"
#include "base/cgroup.h"
#include "base/lock.h"
#include "base/refused.h"

namespace gradus {
namespace {

constexpr int kMostThreads = 1024, kPresetDevices = 8;

// The CPUs this process may use: those it may run on, or fewer where its cgroup has a quota.
int usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
    return std::min(allowed, cgroup_limits().cpus.value_or(allowed));
}

bool parse_int(std::string_view text, int least, int most, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
}

bool parse_threads(std::string_view text, int& value) { return parse_int(text, 1, kMostThreads, value); }
bool parse_name(std::string_view text, int&) { return !text.empty(); }
bool parse_isa(std::string_view text, int& value) {
    for (Isa isa : cpu_isas())
        if (text == isa_name(isa)) return value = static_cast<int>(isa), true;
    return false;
}
Text cpu_isa_names() {
    Text names = "one of what this CPU has:";
    for (Isa isa : cpu_isas()) append(names, " ", isa_name(isa));
    return names;
}

enum OptionId : size_t { kLimits, kPrecision, kMistake, kMemory, kNumThreads, kMaxIsa, kSocName, kLog, kOptions };

// An option is one of a few words, the first of which is the default, or it has functions of its own.
struct Option {
    const char* name;
    const char* variable;
    std::array<const char*, 13> words{};
    Text (*preset)() = nullptr;
    bool (*parse)(std::string_view text, int& value) = nullptr;
    Text (*wanted)() = nullptr;

    Text preset_text() const { return preset != nullptr ? preset() : Text(words[0]); }
    // The value is the number, or the word's place among the words.
    bool read(std::string_view text, int& value) const {
        if (parse != nullptr) return parse(text, value);
        for (size_t i = 0; i < words.size() && words[i] != nullptr; ++i)
            if (text == words[i]) return value = static_cast<int>(i), true;
        return false;
    }
    Text wanted_text() const {
        if (wanted != nullptr) return wanted();
        Text list;
        for (size_t i = 0; i < words.size() && words[i] != nullptr; ++i) {
            const bool last = i + 1 == words.size() || words[i + 1] == nullptr;
            append(list, i == 0 ? "" : last ? " or " : ", ", words[i]);
        }
        return list;
    }
};

constexpr std::array<Option, kOptions> kTable = {{
    {.name = "limits", .variable = "GRADUS_LIMITS", .words = {"on", "off"}},
    {.name = "precision",
     .variable = "GRADUS_PRECISION",
     .words = {"fast", "golden", "magnitude", "f32", "bf16", "f16", "bf16_products", "f16_products", "bf16_sums",
               "f16_sums", "f32_truncated", "bf16_truncated", "f16_truncated"}},
    {.name = "mistake",
     .variable = "GRADUS_MISTAKE",
     .preset = [] { return Text("none"); },
     .parse = parse_name,
     .wanted = [] { return Text("none, or a mistake of the operator's list in the catalogue"); }},
    {.name = "memory", .variable = "GRADUS_MEMORY", .words = {"device", "any"}},
    {.name = "num_threads",
     .variable = "GRADUS_NUM_THREADS",
     .preset = [] { return concat(usable_cpus()); },
     .parse = parse_threads,
     .wanted = [] { return concat("a number from 1 to ", kMostThreads); }},
    {.name = "max_isa",
     .variable = "GRADUS_MAX_ISA",
     .preset = [] { return Text(isa_name(cpu_best_isa())); },
     .parse = parse_isa,
     .wanted = cpu_isa_names},
    {.name = "soc_name",
     .variable = "GRADUS_SOC_NAME",
     .preset = [] { return Text("Ascend910B1"); },
     .parse = parse_name,
     .wanted = [] { return Text("the name of a product, such as Ascend910B1"); }},
    {.name = "log", .variable = "GRADUS_LOG", .words = {"off", "error", "info", "trace"}},
}};

// The log is asked about in every call, so its level has a place without a lock; -1: the environment was not read yet.
constinit std::atomic<int> log_level = -1;

struct Setting {
    const char* text = nullptr;  // null: not set
    int value = 0;
};

struct Settings {
    std::array<Setting, kOptions> preset, given;  // given: by variable or function
    std::array<Status, kOptions> error;           // of the variable, until the function sets the option
    int devices = kPresetDevices;
    Status devices_error;
    bool sync_copies = true;

    Settings();
    Status read(size_t id, std::string_view text, const char* called, Setting& to);
    Status assign(size_t id, std::string_view text, const char* called);

  private:
    std::set<std::string, std::less<>> texts_;  // handed out to C callers, so every value ever set stays where it is
};

// The calling thread's own.
constinit thread_local std::array<Setting, kOptions> thread_option{};

Status Settings::read(size_t id, std::string_view text, const char* called, Setting& to) {
    int value = 0;
    const Option& o = kTable[id];
    if (!o.read(text, value))
        return {ACL_ERROR_INVALID_PARAM, concat(called, ": value '", text, "', expected ", o.wanted_text())};
    to = {texts_.emplace(text).first->c_str(), value};
    return {};
}

Status Settings::assign(size_t id, std::string_view text, const char* called) {
    GRADUS_TRY(read(id, text, called, given[id]));
    error[id] = {};
    if (id == kLog) log_level = given[id].value;
    return {};
}

// The thread's, the process's, or the default.
const Setting& effective(const Settings& s, size_t id) {
    if (thread_option[id].text != nullptr) return thread_option[id];
    return s.given[id].text != nullptr ? s.given[id] : s.preset[id];
}

int visible_devices(int devices) {
    const char* list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (list == nullptr || *list == '\0') return devices;
    int visible = 0, id;
    for (std::string_view rest = list;;) {  // like a device driver: the first wrong entry ends the list
        const size_t comma = rest.find(',');
        if (!parse_int(rest.substr(0, comma), 0, devices - 1, id)) return visible;
        ++visible;
        if (comma == std::string_view::npos) return visible;
        rest.remove_prefix(comma + 1);
    }
}

Settings::Settings() {
    for (size_t id = 0; id < kOptions; ++id) {
        const char* const variable = kTable[id].variable;
        error[id] = read(id, kTable[id].preset_text().view(), variable, preset[id]);
        if (const char* const text = getenv(variable)) error[id] = assign(id, text, variable);
    }
    log_level = (given[kLog].text != nullptr ? given : preset)[kLog].value;
    if (const char* text = getenv("GRADUS_DEVICES"); text != nullptr && !parse_int(text, 1, kMostDevices, devices)) {
        devices = kPresetDevices;
        devices_error = {ACL_ERROR_INVALID_PARAM,
                         concat("GRADUS_DEVICES: value '", text, "', expected a number from 1 to ", kMostDevices)};
    }
    devices = visible_devices(devices);
    if (const char* text = getenv("GRADUS_SYNC_COPIES")) sync_copies = std::string_view(text) != "0";
}

constinit const Status* refused = nullptr;  // of other layers; never destroyed

// Read from the environment by the first who asks, so that a program may still set it in main(); never destroyed.
constinit Settings* the_settings = nullptr;

Settings& settings(const Lock&) {
    if (the_settings == nullptr) the_settings = new Settings;
    return *the_settings;
}

Config snapshot(const Settings& s) {
    return {.limits = effective(s, kLimits).value == 0,
            .precision = static_cast<Precision>(effective(s, kPrecision).value),
            .memory = static_cast<Memory>(effective(s, kMemory).value),
            .num_threads = effective(s, kNumThreads).value,
            .max_isa = static_cast<Isa>(effective(s, kMaxIsa).value),
            .soc_name = effective(s, kSocName).text,
            .mistake = effective(s, kMistake).text,
            .known_mistake = {}};
}

Status error_of(const Settings& s) {
    if (refused != nullptr) return *refused;
    for (const Status& error : s.error)
        if (!error.ok()) return error;
    return s.devices_error;
}

const Option* find_option(const char* name) {
    for (const Option& option : kTable)
        if (std::string_view(name) == option.name) return &option;
    return nullptr;
}

Text option_names() {
    Text names;
    for (const Option& option : kTable) append(names, names.empty() ? "" : ", ", option.name);
    return names;
}

Status known_option(const char* name, size_t& id) {
    if (name == nullptr) return {ACL_ERROR_INVALID_PARAM, "name: NULL"};
    const Option* const option = find_option(name);
    if (option == nullptr)
        return {ACL_ERROR_INVALID_PARAM, concat("unknown option '", name, "', expected one of ", option_names())};
    id = static_cast<size_t>(option - kTable.data());
    return {};
}

}  // namespace

const char* precision_name(Precision precision) { return kTable[kPrecision].words[static_cast<size_t>(precision)]; }

Result<Config> config() {
    const Lock lock = hold();
    const Settings& s = settings(lock);
    GRADUS_TRY(error_of(s));
    return snapshot(s);
}

Result<Config> config_without_device() {
    const Lock lock = hold();
    const Settings& s = settings(lock);
    GRADUS_TRY(error_of(s));
    Config config = snapshot(s);
    const auto set = [&s](size_t id) { return thread_option[id].text != nullptr || s.given[id].text != nullptr; };
    if (!set(kLimits)) config.limits = false;
    if (!set(kMemory)) config.memory = Memory::any;
    return config;
}

Config config_or_default() {
    const Lock lock = hold();
    return snapshot(settings(lock));
}

void refuse_environment(const Status& error) {
    const Lock lock = hold();
    refused = new Status(error);
}

Result<HcclEnvironment> hccl_environment() {
    HcclEnvironment e;
    const auto number = [](const char* variable, int least, int most, int& value) -> Status {
        const char* const text = getenv(variable);
        if (text == nullptr || *text == '\0' || parse_int(text, least, most, value)) return {};
        return {ACL_ERROR_INVALID_PARAM,
                concat(variable, ": value '", text, "', expected a number from ", least, " to ", most)};
    };
    // the device wants 120 s at least; shorter ones do no harm here
    GRADUS_TRY(number("HCCL_CONNECT_TIMEOUT", 1, 7200, e.connect_timeout_s));
    GRADUS_TRY(number("HCCL_EXEC_TIMEOUT", 0, std::numeric_limits<int>::max(), e.exec_timeout_s));
    GRADUS_TRY(number("HCCL_IF_BASE_PORT", 1024, 65520, e.base_port));
    const auto text = [](const char* variable) {
        const char* const value = getenv(variable);
        return value != nullptr && *value != '\0' ? value : nullptr;
    };
    e.if_ip = text("HCCL_IF_IP");
    e.socket_ifname = text("HCCL_SOCKET_IFNAME");
    if (const char* family = text("HCCL_SOCKET_FAMILY")) {
        e.ipv6 = std::string_view(family) == "AF_INET6";
        if (!e.ipv6 && std::string_view(family) != "AF_INET")
            return Status(ACL_ERROR_INVALID_PARAM,
                          concat("HCCL_SOCKET_FAMILY: value '", family, "', expected AF_INET or AF_INET6"));
    }
    if (const char* name = text("GRADUS_HCCL_TRANSPORT")) {
        constexpr const char* kWords[] = {"auto", "local", "shared", "gloo"};
        const auto* const word = std::find(std::begin(kWords), std::end(kWords), std::string_view(name));
        if (word == std::end(kWords))
            return Status(ACL_ERROR_INVALID_PARAM,
                          concat("GRADUS_HCCL_TRANSPORT: value '", name, "', expected auto, local, shared or gloo"));
        e.transport = static_cast<HcclTransport>(word - std::begin(kWords));
    }
    return e;
}

Result<int> hccl_deterministic() {
    const char* const text = getenv("HCCL_DETERMINISTIC");
    if (text == nullptr || *text == '\0') return 0;
    constexpr const char* kWords[] = {"false", "true", "strict"};
    for (int i = 0; i < 3; ++i)
        if (strcasecmp(text, kWords[i]) == 0) return i;
    return Status(ACL_ERROR_INVALID_PARAM,
                  concat("HCCL_DETERMINISTIC: value '", text, "', expected false, true or strict"));
}

void share_cpus(int processes) {
    const int threads = std::max(1, usable_cpus() / std::max(1, processes));
    const Text text = concat(threads);
    const Lock lock = hold();
    Settings& s = settings(lock);
    static_cast<void>(s.read(kNumThreads, text.view(), "num_threads", s.preset[kNumThreads]));
}

LogLevel config_log_level() noexcept {
    if (thread_option[kLog].text != nullptr) return static_cast<LogLevel>(thread_option[kLog].value);
    if (log_level.load(std::memory_order_relaxed) < 0) try {
            const Lock lock = hold();
            settings(lock);
        } catch (...) {  // no memory to read it into: asked again next time
            return LogLevel::off;
        }
    return static_cast<LogLevel>(log_level.load(std::memory_order_relaxed));
}

const char* config_trace_file() noexcept {
    const char* const file = getenv("GRADUS_TRACE");
    return file != nullptr && *file != '\0' ? file : nullptr;
}

double config_trace_limit() noexcept {
    const char* const text = getenv("GRADUS_TRACE_LIMIT");
    const double limit = text != nullptr ? std::strtod(text, nullptr) : 0;
    return limit > 0 && limit < 1e9 ? limit : 0;
}

bool config_sync_copies() {
    const Lock lock = hold();
    return settings(lock).sync_copies;
}

const char* environment(const char* variable) {
    const char* const text = getenv(variable);
    return text != nullptr ? text : "";
}

int config_devices() {
    const Lock lock = hold();
    return settings(lock).devices;
}

Status set_option(const char* name, const char* value) {
    size_t id = 0;
    GRADUS_TRY(known_option(name, id));
    if (value == nullptr) return {ACL_ERROR_INVALID_PARAM, "value: NULL"};
    const Lock lock = hold();
    return settings(lock).assign(id, value, name);
}

Status set_thread_option(const char* name, const char* value) {
    size_t id = 0;
    GRADUS_TRY(known_option(name, id));
    if (value == nullptr) return thread_option[id] = {}, Status();
    const Lock lock = hold();
    return settings(lock).read(id, value, name, thread_option[id]);
}

const char* get_option(const char* name) {
    size_t id = 0;
    if (!known_option(name, id).ok()) return nullptr;
    const Lock lock = hold();
    return effective(settings(lock), id).text;
}

}  // namespace gradus
