// The formula on dense rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/cpu.h"
#include "base/dtype.h"

namespace gradus::scaled_masked_softmax {

inline constexpr float kMasked = -10000.0f;  // what a masked score is set to

// Rows whose elements are neighbours; from one row to the next it is `pitch` bytes.
struct DenseRows {
    std::byte* data;
    int64_t pitch;
    const std::byte* following;  // what is read after the last row; only to fetch it, so it may be anything
};

// z = mask ? −10000 : x·scale; y = exp(z − max z) / Σ exp(z − max z).   x, mask, y: [rows, n]; y may be x
struct ForwardRows {
    DenseRows x, mask, y;
    int64_t rows, n;
    float scale;
    bool streaming;   // y goes past the cache
    DType result;     // of y: golden's may be f64, whatever x is
    Mistake mistake;  // golden's
};
using ForwardKernel = void (*)(const ForwardRows& rows) noexcept;

// t = g·y; out = mask ? 0 : (t − Σt·y)·scale.   g, y, mask, out: [rows, n]; out may be g or y
struct BackwardRows {
    DenseRows g, y, mask, out;
    int64_t rows, n;
    float scale;
    bool streaming;
    DType result;
    Mistake mistake;
};
using BackwardKernel = void (*)(const BackwardRows& rows) noexcept;

ForwardKernel choose_forward(DType dtype, Isa cap);
BackwardKernel choose_backward(DType dtype, Isa cap);

}  // namespace gradus::scaled_masked_softmax
