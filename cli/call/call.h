// An operator's call from words: name=value as on the command line, the rest made up as the catalogue says.
//
//   x=file.npy  x:bf16=file.npy  x=file.bin:bf16[4096,22016]         from a file
//   x=file.npy[3,0:4]  x=file.bin:bf16[64,8][0:4]                    from a part of it, as NumPy writes it
//   x=randn[4,8]:bf16,seed=7  uniform[..],low=-1,high=1  arange[..]  zeros  ones  causal_mask  topk  full[..],value=3
//   x=[4096,22016]:bf16                                              the catalogue's own generator, of that shape
//   T1=4096  V=1000                                                  a named size of the catalogue's shapes
//   dim=-1  scale=0.125  actualSeqQLenOptional=[128,256]             an attribute
//   dtype=bf16  seed=3                                               of everything that is made up
//   name=none  name=auto                                             an optional argument left out, or made up
//
// Without any size or input it is the catalogue's small case. An input that is not given is made up as its example
// says; an optional one only if it has an example. Once an input is a file, nothing is made up unless name=auto says
// so: what is missing is refused, but for what has a default or can have one value only; an optional one is left out.
// An optional output is asked for by name=auto (or the file it goes to). An attribute that is not given is, in this
// order, the size of its name, the default, the example.
#pragma once

#include <map>

#include "cli/call/catalogue.h"
#include "cli/call/expression.h"
#include "cli/tensor/tensor.h"

namespace gradus::cli {

struct Call {
    const Operator* op;
    std::map<std::string, Tensor> tensors;  // inputs and outputs by name; an optional one may be missing
    std::map<std::string, nlohmann::json> attributes;
    Sizes sizes;
    std::string line;   // the shortest words that make this call again
    uint64_t seed;      // of what is made up
    aclDataType dtype;  // of the first tensor that has a choice of float dtypes: what the case is known by
    std::vector<std::pair<std::string, std::string>> origins = {};  // of inputs and attributes: where each came from
};

// Reads, generates, infers and allocates. Failure(kUsage) with the argument's name for what does not fit together.
// judged: a result will be held against it, so that a factor must be given even if it has a default.
Call make_call(const Operator& op, const std::vector<std::string>& words, bool judged = false);

// The option for the time of the object's life: precision, num_threads, max_isa ...
class ScopedOption {
  public:
    ScopedOption(const char* name, const std::string& value);
    ~ScopedOption();
    ScopedOption(const ScopedOption&) = delete;
    ScopedOption& operator=(const ScopedOption&) = delete;

  private:
    const char* name_;
    std::string before_;
};

struct Ran {
    double seconds;      // phase two and the synchronisation, the best of the repeats
    double median;       // of the repeats
    uint64_t workspace;  // bytes
    std::string path;    // the kernel that was chosen: an instruction set, or golden
};
// Failure with the library's message: kUsage for 161001 and 161002, kUnsupported for 361001 of a product, else
// kEnvironment.
Ran run(const Call& call, int repeats = 1);
// The same inputs, other outputs: run with golden and without are two calls.
Call with_new_outputs(const Call& call);

}  // namespace gradus::cli
