// Whether something stays behind: the same work again and again must not take more memory each time.
#pragma once

#include <functional>

namespace gradus::fuzz {

// Runs it once, and a few times more if memory has grown meanwhile; a failure of the oracle "leak" if it grew each
// time: handles that stay registered, blocks, mappings such as device memory. Memory that is kept for the next call
// does not grow for ever.
void expect_nothing_left(const std::function<void()>& work);

}  // namespace gradus::fuzz
