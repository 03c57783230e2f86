#include <ctime>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "testing/bench/report.h"

namespace gradus::bench {
namespace {

struct Quoted {
    std::string text;
};
std::ostream& operator<<(std::ostream& out, const Quoted& quoted) { return out << std::quoted(quoted.text); }

const char* truth(bool value) { return value ? "true" : "false"; }

std::ostream& operator<<(std::ostream& out, const Spread& s) {
    return out << R"({"q1": )" << s.q1 << R"(, "median": )" << s.median << R"(, "q3": )" << s.q3 << "}";
}

std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << R"("operator": )" << Quoted{c.op} << R"(, "dtype": )" << Quoted{dtype_text(c.dtype)}
               << R"(, "shape": )" << shape_text(c.shape);
}

std::ostream& operator<<(std::ostream& out, const Result& r) {
    const Measured& m = r.measured;
    return out << "{" << *r.of << R"(, "rounds": )" << m.rounds << ",\n     \"fraction\": " << m.fraction
               << R"(, "target": )" << r.target << R"(, "met": )" << truth(r.met())
               << ",\n     \"limit\": " << Quoted{r.limit.kind} << R"(, "work": )" << r.limit.work << R"(, "unit": )"
               << Quoted{r.limit.unit} << ",\n     \"limit_seconds\": " << m.limit << R"(, "operator_seconds": )"
               << m.op << "}";
}

std::ostream& operator<<(std::ostream& out, const TinyResult& r) {
    return out << "{" << *r.of << R"(, "microseconds": )" << r.microseconds << R"(, "target": )" << r.of->target
               << R"(, "met": )" << truth(r.met()) << "}";
}

template <typename T>
struct List {
    const std::vector<T>& items;
};
template <typename T>
std::ostream& operator<<(std::ostream& out, const List<T>& list) {
    out << "[";
    for (size_t i = 0; i < list.items.size(); ++i) out << (i == 0 ? "\n    " : ",\n    ") << list.items[i];
    return out << "]";
}

std::ostream& operator<<(std::ostream& out, const Options& options) {
    out << R"({"quick": )" << truth(options.quick) << R"(, "shape": )" << options.shape << R"(, "dtypes": [)";
    for (size_t i = 0; i < options.dtypes.size(); ++i)
        out << (i == 0 ? "" : ", ") << Quoted{dtype_text(options.dtypes[i])};
    return out << "]}";
}

std::ostream& operator<<(std::ostream& out, const Machine& m) {
    return out << R"({"cpu": )" << Quoted{m.cpu} << R"(, "isa": )" << Quoted{m.isa} << R"(, "threads": )" << m.threads
               << R"(, "load": )" << m.load << "}";
}

}  // namespace

std::string to_json(const Machine& machine, const Options& options, const std::vector<Result>& results,
                    const std::vector<TinyResult>& tiny) {
    const std::time_t time = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&time, &utc);
    std::ostringstream out;
    out << std::setprecision(12);
    out << "{\"schema\": \"gradus-bench/1\",\n \"time\": \"" << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ")
        << "\",\n \"library\": " << Quoted{machine.library} << ",\n \"machine\": " << machine
        << ",\n \"options\": " << options << ",\n \"results\": " << List<Result>{results}
        << ",\n \"whole_calls\": " << List<TinyResult>{tiny} << "}\n";
    return out.str();
}

}  // namespace gradus::bench
