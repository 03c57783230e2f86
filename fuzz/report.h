// What a target tells about itself: the case that runs, how many of what there were, and which oracle has failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gradus::fuzz {

// The case in words, `gradus run …` where it can be one: printed when an oracle fails or the process crashes.
void set_case(const std::string& words);

// Counted by name, and printed by the driver (or at exit, under another engine).
void count(const char* what, int64_t by = 1);
int64_t counted(const char* what);
void print_counts();

// Ends the process: the case, the oracle and what it saw.
[[noreturn]] void fail(const char* oracle, const std::string& what);

// Whether GRADUS_FUZZ_PLANT is that word: the target then makes the mistake which the oracle of that name must see.
bool planted(const char* oracle);

// What is printed with a crash, too; and a case that takes longer than `seconds` is a failure of the oracle "hang".
void watch(int seconds);
// Begins a case. Its bytes, 4096 at most, are printed with a failure: xxd -r -p makes a file of them.
void begin_case(const uint8_t* data, size_t size);

}  // namespace gradus::fuzz
