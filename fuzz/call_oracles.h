// What must hold of a call by name: when it is right, and when one thing about it is bent.
#pragma once

#include "cli/diff/question.h"
#include "fuzz/call_bend.h"
#include "fuzz/input.h"
#include "testing/call.h"

namespace gradus::fuzz {

// The same call for the harness of the tests, which looks after all bytes around it; tensors lie in any layout, or
// dense.
testing::Call placed(const cli::Call& call, Input& in, bool dense);

// Accepted, within the promise of golden on the instruction set, all of the outputs written and nothing else, and the
// same bits however it is run.
void expect_right(const cli::Call& made, testing::Call& call, Input& in);

// A code that the documents have, with a sentence that names an argument; nothing given back; golden takes what fast
// takes; and what is taken runs without harm.
void expect_harmless(testing::Call& call, Bend& bend);

}  // namespace gradus::fuzz
