// One result and its reference, and what was found: what diff prints, writes as JSON and as a page.
#pragma once

#include "cli/judge/judge.h"

namespace gradus::cli {

struct Finding {
    std::string name;  // of the output, or of the two files
    Subject subject;
    Judgement judgement;
    struct Explanation {
        bool explains;
        std::string sentence;
    };
    std::vector<Explanation> explanations;                     // tried in this order; empty when nothing needed one
    std::vector<std::pair<std::string, std::string>> origins;  // of the call's arguments: where each came from
};

void print_findings(const std::vector<Finding>& findings);
nlohmann::json findings_json(const std::vector<Finding>& findings, const std::string& against);
// `line`: the command line that found it.
void write_findings(const std::string& path, const std::vector<Finding>& findings, const std::string& against,
                    const std::string& line);

}  // namespace gradus::cli
