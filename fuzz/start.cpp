// What every target does first, under any engine.
#include <gtest/gtest.h>

#include <cstdlib>

#include "fuzz/report.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
    // The harness of the tests speaks by GoogleTest, outside of any test: what it finds ends the process here.
    ::testing::GTEST_FLAG(break_on_failure) = true;
    std::atexit(gradus::fuzz::print_counts);
    return 0;
}
