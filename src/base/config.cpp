#include "base/config.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>

#include "acl/acl_base.h"
#include "base/lock.h"

namespace gradus {
namespace {

constexpr int kMostThreads = 1024, kMostDevices = 1024;

int usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return std::max(1, CPU_COUNT(&set));
}

bool parse_int(const std::string& text, int least, int most, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
}

bool parse_word(const std::string& text, std::initializer_list<const char*> words, int& value) {
    value = 0;
    for (const char* word : words) {
        if (text == word) return true;
        ++value;
    }
    return false;
}

enum OptionId { kLimits, kPrecision, kNumThreads, kMaxIsa, kSocName, kLog, kOptions };

struct Option {
    const char* name;
    const char* variable;
    bool (*parse)(const std::string& text, int& value);  // value: index of the word, or the number
    std::string (*wanted)();
};

bool parse_isa(const std::string& text, int& value) {
    for (Isa isa : cpu_isas())
        if (text == isa_name(isa)) return value = static_cast<int>(isa), true;
    return false;
}

std::string cpu_isa_names() {
    std::string names = "one of what this CPU has:";
    for (Isa isa : cpu_isas()) names += concat(" ", isa_name(isa));
    return names;
}

constexpr std::array<Option, kOptions> kTable = {{
    {"limits", "GRADUS_LIMITS",
     [](const std::string& s, int& v) {
         return parse_word(s, {"on", "off"}, v);
     },
     [] { return std::string("on or off"); }},
    {"precision", "GRADUS_PRECISION",
     [](const std::string& s, int& v) {
         return parse_word(s, {"fast", "golden"}, v);
     },
     [] { return std::string("fast or golden"); }},
    {"num_threads", "GRADUS_NUM_THREADS", [](const std::string& s, int& v) { return parse_int(s, 1, kMostThreads, v); },
     [] { return concat("a number from 1 to ", kMostThreads); }},
    {"max_isa", "GRADUS_MAX_ISA", parse_isa, cpu_isa_names},
    {"soc_name", "GRADUS_SOC_NAME", [](const std::string& s, int&) { return !s.empty(); },
     [] { return std::string("the name of a product, such as Ascend910B1"); }},
    {"log", "GRADUS_LOG",
     [](const std::string& s, int& v) {
         return parse_word(s, {"off", "error", "info", "trace"}, v);
     },
     [] { return std::string("off, error, info or trace"); }},
}};

// Returned to C callers, so every value ever set stays where it is.
const char* intern(const std::string& text) {
    static std::set<std::string>& pool = *new std::set<std::string>;
    return pool.insert(text).first->c_str();
}

struct Setting {
    const char* text = "";
    int value = 0;
    Status error;  // of the environment variable, until the function sets the option
};

struct Settings {
    std::array<Setting, kOptions> option;
    int devices = 8;
    Status devices_error;
    bool sync_copies = true;

    Settings();
    Status assign(int id, const std::string& text, const char* called);
};

std::atomic<int> log_level{static_cast<int>(LogLevel::off)};

Status Settings::assign(int id, const std::string& text, const char* called) {
    int value = 0;
    const Option& o = kTable[static_cast<size_t>(id)];
    if (!o.parse(text, value))
        return {ACL_ERROR_INVALID_PARAM, concat(called, ": value '", text, "', expected ", o.wanted())};
    option[static_cast<size_t>(id)] = {intern(text), value, Status()};
    if (id == kLog) log_level = value;
    return {};
}

int visible_devices(int devices) {
    const char* list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (list == nullptr || *list == '\0') return devices;
    int visible = 0;
    for (const char* at = list;;) {  // like a device driver: the first wrong entry ends the list
        const char* comma = std::strchr(at, ',');
        int id;
        if (!parse_int(comma ? std::string(at, comma) : std::string(at), 0, devices - 1, id)) return visible;
        ++visible;
        if (comma == nullptr) return visible;
        at = comma + 1;
    }
}

Settings::Settings() {
    const std::array<std::string, kOptions> defaults = {
        "on", "fast", std::to_string(usable_cpus()), isa_name(cpu_best_isa()), "Ascend910B1", "off"};
    for (int id = 0; id < kOptions; ++id) {
        const char* variable = kTable[static_cast<size_t>(id)].variable;
        const char* text = getenv(variable);
        Status status = assign(id, defaults[static_cast<size_t>(id)], variable);
        if (text != nullptr) status = assign(id, text, variable);
        option[static_cast<size_t>(id)].error = std::move(status);
    }
    if (const char* text = getenv("GRADUS_DEVICES"); text != nullptr && !parse_int(text, 1, kMostDevices, devices)) {
        devices = 8;
        devices_error = {ACL_ERROR_INVALID_PARAM,
                         concat("GRADUS_DEVICES: value '", text, "', expected a number from 1 to ", kMostDevices)};
    }
    devices = visible_devices(devices);
    if (const char* text = getenv("GRADUS_SYNC_COPIES")) sync_copies = std::string(text) != "0";
}

Settings& settings() {
    static Settings& the_settings = *new Settings;
    return the_settings;
}

Config snapshot(const Settings& s) {
    return {.limits = s.option[kLimits].value == 0,
            .precision = static_cast<Precision>(s.option[kPrecision].value),
            .num_threads = s.option[kNumThreads].value,
            .max_isa = static_cast<Isa>(s.option[kMaxIsa].value),
            .soc_name = s.option[kSocName].text};
}

}  // namespace

Result<Config> config() {
    const Settings& s = settings();
    const Lock lock = hold();
    for (const Setting& setting : s.option)
        if (!setting.error.ok()) return setting.error;
    if (!s.devices_error.ok()) return s.devices_error;
    return snapshot(s);
}

Config config_or_default() {
    const Settings& s = settings();
    const Lock lock = hold();
    return snapshot(s);
}

LogLevel config_log_level() noexcept {
    settings();
    return static_cast<LogLevel>(log_level.load(std::memory_order_relaxed));
}
bool config_sync_copies() noexcept { return settings().sync_copies; }
int config_devices() noexcept { return settings().devices; }

Status set_option(const char* name, const char* value) {
    Settings& s = settings();
    if (name == nullptr || value == nullptr)
        return {ACL_ERROR_INVALID_PARAM, concat(name == nullptr ? "name" : "value", ": NULL")};
    std::string known;
    for (int id = 0; id < kOptions; ++id) {
        const Option& option = kTable[static_cast<size_t>(id)];
        if (std::strcmp(name, option.name) == 0) {
            const Lock lock = hold();
            return s.assign(id, value, option.name);
        }
        known += concat(known.empty() ? "" : ", ", option.name);
    }
    return {ACL_ERROR_INVALID_PARAM, concat("unknown option '", name, "', expected one of ", known)};
}

const char* get_option(const char* name) {
    const Settings& s = settings();
    if (name == nullptr) return nullptr;
    const Lock lock = hold();
    for (int id = 0; id < kOptions; ++id)
        if (std::strcmp(name, kTable[static_cast<size_t>(id)].name) == 0) return s.option[static_cast<size_t>(id)].text;
    return nullptr;
}

}  // namespace gradus
