// What gradus bench measures and how it shows it.
#pragma once

#include "cli/bench/timing.h"
#include "cli/call/call.h"
#include "cli/output/machine.h"
#include "cli/output/terminal.h"

namespace gradus::cli {

struct BenchRun {
    const Operator* op;
    int number;                      // of its shapes, from 1, as --shape counts them; 0: the user's own
    std::string model;               // where the shape comes from; empty: the user's own
    std::vector<std::string> words;  // as for gradus run
    std::string dtype;               // as asked for
    double target;                   // least fraction of the limit; 0: none
    std::string arguments() const;
    std::string name() const { return model.empty() ? arguments() : model; }
};

// Whether a number says anything. On a machine where others work only a large difference does.
enum class Standing { none, ok, below, unknown };
constexpr double kBeyond = 4;                  // a factor that neighbours alone do not make
const char* standing_word(Standing standing);  // "", "ok", "below", "no verdict"

// The same run of another day.
struct Before {
    double value, q1, q3;  // fraction of the limit, or microseconds of a whole call
    Standing standing;     // below: slower than it was
};

struct BenchResult {
    BenchRun of;
    bench::Limit limit;
    bench::Timing measured;
    double flops, bytes;           // of one run: operations of the formula, bytes of all tensors
    double others;                 // share of the machine that other processes took meanwhile
    std::optional<Before> before;  // with --baseline, where it has this run
    Standing standing() const;
    std::string doubt() const;  // why there is no verdict
    nlohmann::json json() const;
};

// The whole call on a tensor so small that only the call counts.
struct TinyResult {
    BenchRun of;
    bench::Spread microseconds;
    double others;
    std::optional<Before> before;
    Standing standing() const;
    nlohmann::json json() const;
    static constexpr double kTarget = 10;
};

struct BenchReport {
    Machine machine;
    std::vector<BenchResult> results;
    std::vector<TinyResult> tiny;
    nlohmann::json json() const;  // schema "gradus-bench/2": keys are added, never renamed
};

// Without AVX-512 half of the fraction is wanted.
double target_scale(const Machine& machine);
// The user's own words: a dtype among them is the one, else all that the operator is measured with.
std::vector<BenchRun> own_runs(const Operator& op, const std::vector<std::string>& words, bool typed,
                               const std::vector<std::string>& dtypes, const Machine& machine);
std::vector<BenchRun> known_runs(const Operator& op, const std::vector<std::string>& dtypes, int shape,
                                 const Machine& machine);
std::vector<BenchRun> tiny_runs(const Operator& op, const std::vector<std::string>& dtypes);
BenchResult measure_run(BenchRun run, bool quick, Progress& progress);
TinyResult measure_tiny(const BenchRun& run, bool quick);

// Numbers of another run, to be compared with.
class Baseline {
  public:
    explicit Baseline(const std::string& path);  // Failure(kUsage) unless it is the .json of gradus bench
    void compare(BenchResult& result) const;
    void compare(TinyResult& result) const;
    // What makes the two hard to compare: another CPU, instruction set or number of threads; empty if nothing.
    std::string other_machine(const Machine& here) const;

  private:
    const nlohmann::json* find(const char* list, const BenchRun& run) const;
    std::string path_;
    nlohmann::json json_;
};

// Rows appear as they are measured, so the widths come from the runs beforehand, and from the terminal.
class BenchTable {
  public:
    BenchTable(const std::vector<BenchRun>& runs, bool compared);
    void heading() const;
    void print(const BenchResult& result) const;
    void tiny_heading() const;
    void print(const TinyResult& result) const;

  private:
    std::string names(const BenchRun& run) const;
    size_t op_width_ = 8, name_width_ = 5;
    bool compared_;
};

// The results as rows of text, the first is the heading: of the page and of Markdown.
std::vector<std::vector<std::string>> result_rows(const BenchReport& report);
std::vector<std::vector<std::string>> tiny_rows(const BenchReport& report);
std::string bench_markdown(const BenchReport& report);
std::string bench_csv(const BenchReport& report);
// A page with the table, and every operator under the roofs that were measured beside it.
void write_bench_page(const std::string& path, const BenchReport& report, const std::string& line);
std::string draw_roofline(const std::vector<BenchResult>& results, bool narrow);

}  // namespace gradus::cli
