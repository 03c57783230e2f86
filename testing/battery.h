// What every operator must do, whatever it computes. A family gives a good call; these tests vary it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "testing/call.h"

namespace gradus::testing {

// A change that must be refused, as data.
struct Refusal {
    std::string what;
    std::function<void(Call&)> change;
    std::string message;  // must occur in the message, besides the operator's name
    int code = 161002;
};

// Each row on a fresh good call, with limits as they are.
void expect_refusals(const std::function<Call()>& good, const std::vector<Refusal>& rows);

// The rows that follow from the rules for all operators: nulls first, dtypes, formats, extents, overlapping outputs.
struct Traits {
    bool strict_formats = false;
    std::vector<std::string> optional_tensors = {};
};
void expect_common_refusals(const std::function<Call()>& good, const Traits& traits = {});

// Same bits for 1, 2 and 7 threads, at every alignment of tensors and workspace, at the edge of a page, on every run;
// `call` is any legal call.
void expect_same_bits(const std::function<Call()>& call);

// Same bits when the result is too large for the cache and is written past it, aligned to lines or not: `call` many
// times over, along the first dim of all its tensors.
void expect_same_bits_past_cache(const std::function<Call()>& call);

// Executors: spent, repeatable, with new addresses, too little workspace, dead streams, foreign handles, overlap,
// addresses outside, several threads. `make` gives calls of one shape with fresh values.
void expect_executor_rules(const std::function<Call()>& make);

// Products: the operator answers 361001 where its document does not list the product, and not with limits off.
void expect_products(const std::function<Call()>& good, const std::vector<std::string>& supported);

}  // namespace gradus::testing
