#include "testing/bench/bench.h"
namespace gradus::bench { void bench_nsa_selected_attention(Bench&) {} }
