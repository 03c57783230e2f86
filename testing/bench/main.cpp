// gradus_bench: every family's operators against the limit of this machine.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>

#include "gradus/gradus.h"
#include "testing/bench/report.h"

namespace gradus::bench {

#define GRADUS_FAMILY(name) void bench_##name(Bench& bench);
#include "families.inc"
#undef GRADUS_FAMILY

namespace {

// The device and the stream of the whole run.
class Device {
  public:
    Device() {
        check(aclInit(nullptr), "aclInit");
        check(aclrtSetDevice(0), "aclrtSetDevice");
        check(aclrtCreateStream(&stream_), "aclrtCreateStream");
    }
    ~Device() {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(0);
        aclFinalize();
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    aclrtStream stream() const { return stream_; }

  private:
    aclrtStream stream_ = nullptr;
};

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

// A whole name means that operator alone, though SwiGlu begins SwiGluGrad.
bool asked_for(const std::string& op, const std::vector<std::string>& wanted, const std::vector<std::string>& known) {
    return wanted.empty() || std::ranges::any_of(wanted, [&](const std::string& word) {
               const std::string name = lower(word.starts_with("aclnn") ? word.substr(5) : word);
               const bool whole = std::ranges::any_of(known, [&](const std::string& k) { return lower(k) == name; });
               return whole ? lower(op) == name : lower(op).starts_with(name);
           });
}

std::vector<std::string> names_of(const Bench& bench) {
    std::vector<std::string> names;
    for (const Case& c : bench.cases())
        if (std::ranges::find(names, c.op) == names.end()) names.push_back(c.op);
    return names;
}

void refuse_unknown(const Options& options, const std::vector<std::string>& known) {
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    for (const std::string& word : options.operators)
        if (std::ranges::none_of(known, [&](const std::string& op) { return asked_for(op, {word}, known); }))
            throw std::invalid_argument("unknown operator " + word + ", expected one of " + list);
}

struct Selection {
    std::vector<const Case*> cases, tiny;
    std::vector<int> numbers;  // of the cases' shapes, from 1, as --shape counts them
};

Selection select(const Bench& bench, const Options& options) {
    const std::vector<std::string> known = names_of(bench);
    refuse_unknown(options, known);
    const auto wanted = [&](const Case& c) {
        return asked_for(c.op, options.operators, known) && std::ranges::count(options.dtypes, c.dtype) > 0;
    };
    Selection selection;
    std::map<std::string, std::vector<Shape>> shapes;
    for (const Case& c : bench.cases()) {
        std::vector<Shape>& seen = shapes[c.op];
        if (std::ranges::find(seen, c.shape) == seen.end()) seen.push_back(c.shape);
        const int number = 1 + static_cast<int>(std::ranges::find(seen, c.shape) - seen.begin());
        if (!wanted(c) || (options.shape != 0 && number != options.shape)) continue;
        selection.cases.push_back(&c);
        selection.numbers.push_back(number);
    }
    for (const Case& c : bench.tiny())
        if (wanted(c)) selection.tiny.push_back(&c);
    if (selection.cases.empty()) throw std::invalid_argument("nothing to run: no such shape or dtype; see --list");
    return selection;
}

void run(const Options& options) {
    if (!options.threads.empty()) check(gradusSetOption("num_threads", options.threads.c_str()), "--threads");
    Bench bench;
#define GRADUS_FAMILY(name) bench_##name(bench);
#include "families.inc"
#undef GRADUS_FAMILY
    const Selection selection = select(bench, options);
    const Machine here = machine();
    print_header(here);
    if (options.list) return print_list(selection.cases, selection.numbers);

    std::ofstream file;  // opened first: a wrong name should not cost a run
    if (!options.json.empty()) file.open(options.json);
    if (!options.json.empty() && !file) throw std::runtime_error("cannot write " + options.json);

    const Device device;
    const Table table(selection.cases, selection.tiny);
    std::vector<Result> results;
    std::vector<TinyResult> tiny;
    table.heading();
    for (const Case* c : selection.cases) {
        const Trial trial = c->make();
        const Effort effort = options.quick ? Effort{7, 0.3} : Effort{15, 1.0};
        results.push_back({c, c->target * here.target_scale(), trial.limit, measure(trial, effort, device.stream())});
        results.back().limit.seconds = nullptr;  // it holds the tensors
        table.print(results.back());
    }
    if (!selection.tiny.empty()) table.tiny_heading();
    for (const Case* c : selection.tiny) {
        const Spread s = measure_whole(c->make(), options.quick ? 1000 : 5000, device.stream());
        tiny.push_back({c, {s.q1 * 1e6, s.median * 1e6, s.q3 * 1e6}});
        table.print(tiny.back());
    }
    if (file.is_open()) {
        file << to_json(here, options, results, tiny);
        file.close();
        if (!file) throw std::runtime_error("cannot write " + options.json);
    }
}

}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) {
    using namespace gradus::bench;  // NOLINT(google-build-using-namespace)
    try {
        const Options options = parse_options(argc, argv);
        if (options.help)
            std::fputs(kUsage, stdout);
        else
            run(options);
        return 0;
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "gradus_bench: %s (--help tells more)\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gradus_bench: %s\n", error.what());
        return 1;
    }
}
