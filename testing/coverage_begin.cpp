// Part of the library where coverage is counted: LLVM's own initialiser comes behind the library's, and what those do at
// load would be lost. That it comes once more costs nothing: the file of counts is the same.
extern "C" void __llvm_profile_initialize();  // NOLINT(bugprone-reserved-identifier): LLVM's

__attribute__((constructor(101))) static void begin_counting() { __llvm_profile_initialize(); }
