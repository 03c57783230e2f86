// How tools try an operator out: what they sweep, what they measure, and what this machine could do at best. Plain data
// that the catalogue shows; the library itself looks at none of it.
//
// Argument lists are words with spaces between, as `gradus run` takes them:
//   x=[3,34]                      a tensor of that shape, made up as its example says
//   T1=64  V=200                  a named size of the shapes
//   dim=1  lengths=[32,128]       an attribute
//   mask=zeros[4,8]               a tensor made up in another way; without a shape, of the one it has to have
//   mask=none                     an optional argument left out
//
// An example says how an argument that nobody gave is made up; an optional one without an example is left out.
//   randn  uniform,low=0,high=1  full,value=1  zeros  ones  targets  attention_mask  topk   of a tensor
//   0  1/sqrt(D)  N1  TND                                                                   of an attribute
//   @Operator.output    what that operator makes of the arguments of the same names, at the same sizes;
//   @Operator.output,mask=zeros  ... but for that one
#pragma once

#include <span>

namespace gradus {

// What an output promises beside golden: 1 ulp of a 16-bit type; a sum's error; the same bits.
enum class Promise { elementwise, summed, exact };

struct BenchCase {
    const char* model;  // where the shape comes from
    const char* arguments;
    double scale = 1;  // of the target: rows so short that what surrounds them counts
};

// The best a machine could do: a stream of the same bytes where there are strips, else its matrix instruction from
// registers. Numbers are expressions over sizes, attributes and size(tensor).
struct Limit {
    const char* reads = "";   // input tensors, once for every strip in them that is read side by side
    const char* writes = "";  // outputs likewise
    const char* strip = "";   // elements of one strip
    const char* row = "";     // ... that lie together; between them lie those of the tensor's other strips
    const char* flops = "";   // operations of the formula; exp, a division and a comparison are one each
};

// The least fraction of the limit that is wanted.
struct Target {
    const char* where;  // a dtype; or amx, for every dtype on a CPU that has it
    double fraction;
};

// A mistake in the formula whose answer tools compare a wrong result with. Golden makes it, by the number in the
// family's golden.h; or it is what golden answers to other arguments, written NAME=CHANGE with spaces between:
//   zeros  ones  all (every bit)  not  bits (of each byte, reversed)  next  previous (elements of the last dim)
//   plus1  plus-1  times2  negated  halves (exchanged, along dim)  none                   of a tensor
//   an expression over sizes and attributes, or none                                      of an attribute
// A # in the name, and in the arguments, is a number that is searched for; `neutral` is the one that changes nothing.
struct NamedMistake {
    const char* name;  // "without delta": what the formula is like
    int golden = 0;
    const char* arguments = "";
    const char* terms = "";  // of a sum that golden leaves a part out of: how many, over sizes and attributes
    double neutral = 0;
};

struct Trials {
    std::span<const char* const> sweep;  // around the widths of vectors and tiles; small, because golden is slow
    std::span<const BenchCase> bench;
    const char* tiny;        // so small that only the call counts
    const char* small = "";  // what is tried where nobody says a size, if tiny is too small to show a mistake
    Limit limit;
    std::span<const Target> targets;  // of the dtypes to measure
    const char* roundings = "";       // inside the fast implementation, in words
    std::span<const NamedMistake> mistakes = {};
};

}  // namespace gradus
