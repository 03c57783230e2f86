// Text that somebody wrote: options, configuration, and the words of the tool. The first byte chooses who reads it.
#include <cstdio>

#include "cli/tensor/tensor.h"
#include "fuzz/input.h"
#include "fuzz/report.h"
#include "fuzz/words_cases.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace gradus::fuzz;  // NOLINT(google-build-using-namespace)
    static const bool silent = std::freopen("/dev/null", "w", stdout) != nullptr;
    if (!silent) return 0;
    gradus::cli::stream();
    Input in(data, size);
    constexpr struct {
        const char* name;
        void (*run)(const std::string& text);
    } kReaders[] = {{"option", try_option}, {"json", try_json},   {"arguments", try_arguments},
                    {"call", try_call},     {"names", try_names}, {"command line", try_command_line}};
    const auto& reader = kReaders[in.below(std::size(kReaders))];
    const std::string text = in.rest();
    set_case(std::string("words, ") + reader.name + ": " + text);
    count("texts");
    reader.run(text);
    return 0;
}
