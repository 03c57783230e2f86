// What was found, and how it is told: text, JSON lines, a summary. Behind the process lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sanitize/lines.h"
#include "sanitize/options.h"
#include "sanitize/stacks.h"

namespace gradus::sanitize {

enum class Level { error, warning, note };

inline std::string number(uint64_t n) { return std::to_string(n); }

// One paragraph of a finding: a line, and the stack that belongs to it.
struct Part {
    std::string text;
    Site site = 0;
};

struct Finding {
    const char* id;
    Level level;
    std::string kind;         // "read after write"; may be empty
    std::vector<Part> parts;  // the first two tell apart what is new and what has been seen
    std::string fix;
    std::vector<std::pair<std::string, std::string>> keys = {};  // for scripts: argument, stream, bytes, …
};

class Findings {
  public:
    explicit Findings(const Options& options);

    void report(const Finding& finding);
    void summarise();  // once, at the end
    bool none() const { return count_[0] + count_[1] + count_[2] == 0; }
    void forget_counts();  // in the child of a fork, whose summary is its own

    Stacks stacks;
    std::atomic<uint64_t> reported = 0;  // all, repeated and suppressed ones included

  private:
    using Key = std::tuple<std::string, Site, Site>;  // id and functions; interpreters call all from one place
    struct Suppression {
        std::string id, part;
    };

    bool suppressed(const Finding& finding);
    std::string text_of(const Finding& finding, uint64_t number);
    std::string json_of(const Finding& finding, uint64_t number);

    std::vector<Suppression> suppressions_;
    std::map<Key, Level> seen_;  // the gravest
    uint64_t count_[3] = {}, suppressed_ = 0, repeated_ = 0;
    Lines log_, json_;
};

}  // namespace gradus::sanitize
