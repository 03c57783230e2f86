#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace gradus::cli {

// Seconds since some moment, evenly.
inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// 2026-11-16T21:19:57Z
inline std::string utc_time() {
    char text[32];
    const std::time_t seconds = std::time(nullptr);
    std::tm utc{};
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc))};
}

}  // namespace gradus::cli
