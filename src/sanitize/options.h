// GRADUS_SANITIZE: `on`, or words with commas between: which tools, and how to report. A comma inside a word is \,
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gradus::sanitize {

struct Options {
    bool memcheck = false, racecheck = false, initcheck = false, leakcheck = false;
    bool full_leaks = false;                // leak-check=full
    bool full_portability = false;          // portability=full
    bool api_errors = true;                 // api-errors=no
    bool keep_all = false;                  // keep=all: accesses that a later one covers stay; for tests of the rules
    size_t quarantine = size_t{256} << 20;  // quarantine=MiB of freed memory that is not given out again
    std::string log, json;                  // files that reports go to; log empty: stderr
    std::string suppressions;               // file: a line `id part-of-a-site` each
    std::string copies;                     // file that a line goes to for everything that is copied to the host
};

// Nothing where it is off; `error` says what is wrong with the text, if anything.
std::optional<Options> parse_options(std::string_view text, std::string& error);

}  // namespace gradus::sanitize
