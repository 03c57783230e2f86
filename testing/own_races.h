// For a program that races on purpose, in its own memory: ThreadSanitizer is to look for the library's races alone.
// Copies and fills touch the program's bytes inside in_blocks (runtime/copy.cpp), kernels in the namespaces of
// Highway's targets, and nothing else there is shared.
#pragma once

#if defined(__SANITIZE_THREAD__)
// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizer asks for it by this name
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
    return "race:in_blocks\nrace:::N_\n";
}
#endif
