// The subcommands: what each is told, and what does it. command_line.cpp has the words for it, and is the one file that
// knows the parser.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradus::cli {

struct Session {
    bool json = false;  // --json, of every subcommand
    int exit = 0;       // what a command that ran to its end has found
    std::string line;   // the command line, as a shell would take it again
};

struct ListOptions {
    bool names = false;
    std::string op;
};
struct DescribeOptions {
    std::string op;
};
struct RunOptions {
    std::string op, precision, limits, isa;
    std::string directory, inputs, case_directory;  // where outputs, inputs and the case go
    std::vector<std::string> words;
    std::optional<int64_t> seed;
    int threads = 0, repeat = 1;  // threads 0: as the library has it
};
struct CheckOptions {
    std::vector<std::string> words, isas;
    int64_t seed = 1;
    int threads = 0;
    bool quick = false;
};
struct DiffOptions {
    std::vector<std::string> words, files;  // files: where the report goes, in the form that their ending says
    std::string op, only, promise, magnitude, directory;  // directory: of a case
    std::optional<double> rtol, atol;
    std::optional<int64_t> seed;
    int top = 10;
};
struct BenchOptions {
    std::vector<std::string> words;  // operators, then arguments of a shape of the user's own
    std::vector<std::string> dtypes, files;
    std::string baseline;
    std::optional<int64_t> seed;
    int threads = 0, shape = 0;
    bool quick = false, list = false, strict = false;
};
struct SanitizeOptions {
    std::vector<std::string> tools, program, files;
    std::string leak_check = "summary", portability = "usual", api_errors = "yes", log_file, suppressions, explain;
    int schedules = 0, error_exitcode = 1;
};

struct TraceOptions {
    std::vector<std::string> files, program;
    std::string from;
    double limit = -1;  // GB/s; -1: to be measured
};

void list_command(const ListOptions& options, Session& session);
void describe_command(const DescribeOptions& options, Session& session);
void run_command(const RunOptions& options, Session& session);
void check_command(const CheckOptions& options, Session& session);
void diff_command(const DiffOptions& options, Session& session);
void bench_command(const BenchOptions& options, Session& session);
void trace_command(const TraceOptions& options, Session& session);
void info_command(Session& session);
void sanitize_command(const SanitizeOptions& options, Session& session);

// What --help ends with.
extern const char kListExamples[], kDescribeExamples[], kCheckExamples[], kDiffExamples[], kBenchExamples[],
    kSanitizeExamples[], kTraceExamples[], kInfoExamples[];
std::string run_examples();  // with the generators

}  // namespace gradus::cli
