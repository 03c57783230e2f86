// Times that mean something on a shared machine: limit and operator in turn, and the ratio of every round.
#pragma once

#include "cli/bench/limit.h"

namespace gradus::bench {

struct Spread {
    double q1, median, q3;
};
Spread spread(std::vector<double> samples);

struct Timing {
    int rounds;
    Spread limit, op;  // seconds of one run
    Spread fraction;   // limit / op of the same round; 1 is the limit itself
};

struct Effort {
    int rounds;
    double seconds;  // of all rounds together; a few rounds are made in any case
};

// `op` runs the operator once and returns its seconds; `at_round` is called once a round.
Timing time_in_turn(const std::function<double()>& op, const Limit& limit, const Effort& effort,
                    const std::function<void()>& at_round = {});

}  // namespace gradus::bench
