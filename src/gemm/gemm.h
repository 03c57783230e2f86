// Products of 16-bit matrices with f32 sums, C[i][j] (+)= Σ_k A[i][k]·B[j][k], on packed operands.
//
// A path is one way to multiply: AMX, AVX512-BF16, f32 FMA. Callers pack what they will use often, in the layout that
// the path wants, multiply blocks of their own choice, and do what they like with C while it is in the cache: that is
// the place for fusion. Blocks of rows of A and B never change how an element of C is summed; only K does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/arithmetic.h"
#include "base/cpu.h"
#include "base/dtype.h"

namespace gradus::gemm {

// Layout of a packed operand: strips of `rows` rows, in which `group` neighbours in k lie together.
struct Strip {
    int64_t rows, group;
};

// A packed operand: [rows, k] as [k blocks][strips][k of the block / group][strip rows][group], zeros behind the last
// row and the last k. Of a block everything that a tile needs lies together, however long k is.
struct Panel {
    Strip strip{};
    int64_t rows = 0, k = 0;           // k is padded to a multiple of Path::k_group
    int64_t k_block = 0, item = 0;     // item: bytes of a packed element
    int64_t row_step = 0, k_step = 0;  // of Path::as_it_lies; 0: packed

    int64_t strips() const { return ceil_div(rows, strip.rows); }
    int64_t bytes() const { return strips() * strip.rows * k * item; }
    int64_t length(int64_t block) const { return std::min(k_block, k - block * k_block); }
    int64_t at(int64_t block, int64_t strip_index) const {
        if (k_step != 0) return (block * k_block * k_step + strip_index * strip.rows * row_step) * item;
        return (block * k_block * strips() + strip_index * length(block)) * strip.rows * item;
    }
};

// 16-bit elements at data[row · row_stride + column · column_stride].
struct Matrix {
    const void* data;
    int64_t row_stride, column_stride;

    Matrix transposed() const { return {data, column_stride, row_stride}; }
};

// What of a panel is packed at once. first_row is a multiple of the strip's rows, first_k of Path::k_group; what ends
// the panel is padded.
struct Area {
    int64_t first_row, rows, first_k, k;
};

// Which strips are multiplied (over A's k, which may be less than B's where B lies in f32), and where C is: whole
// tiles, so C has room for strip.rows · strips rows and columns. What is beyond the panels' rows there is nobody's:
// zeros, or what it was.
struct Block {
    int64_t a_strip, a_strips, b_strip, b_strips;
    float* c;
    int64_t c_stride;
    bool accumulate;
};

struct Path {
    const char* name;
    DType dtype;  // of the operands
    Strip a, b;
    int64_t k_block;  // a chain of f32 additions is no longer
    int64_t item;
    int64_t block_a, block_b;  // rows of A and B that make a good block of C: it and its k block of both stay in L2

    // source holds the area alone: its row 0 is first_row, its column 0 first_k.
    void (*pack)(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source) noexcept;
    // inside a Using
    void (*multiply)(const Panel& a, const std::byte* packed_a, const Panel& b, const std::byte* packed_b,
                     const Block& block) noexcept;
    // What a thread does before its first product and after its last: see Using.
    void (*enter)() noexcept = nullptr;
    void (*leave)() noexcept = nullptr;

    Panel panel_a(int64_t rows, int64_t k) const { return panel(a, rows, k); }
    Panel panel_b(int64_t rows, int64_t k) const { return panel(b, rows, k); }
    int64_t k_group() const { return std::max(a.group, b.group); }

    // An operand of f32 numbers, [row, k] at data[row · row_step + k · k_step], that is multiplied without packing: on
    // paths whose packed elements are f32. Of A any steps; rows up to a multiple of a third of a strip are read. Of B
    // row_step is 1; whole strips of rows are read. What is read beyond the rows reaches no element that is somebody's.
    bool takes_f32() const { return a.group == 1; }
    Panel as_it_lies(Strip strip, int64_t rows, int64_t k, int64_t row_step, int64_t k_step) const {
        return {strip, rows, k, k_block, item, row_step, k_step};
    }

  private:
    // Both operands of a product agree on the padded k.
    Panel panel(Strip strip, int64_t rows, int64_t k) const {
        return {strip, rows, round_up(k, k_group()), k_block, item};
    }
};

// While it lives, this thread multiplies by the path: AMX's tiles are configured once for all products of a task.
class Using {
  public:
    explicit Using(const Path& path) : leave_(path.leave) {
        if (path.enter != nullptr) path.enter();
    }
    ~Using() {
        if (leave_ != nullptr) leave_();
    }
    Using(const Using&) = delete;
    Using& operator=(const Using&) = delete;

  private:
    void (*leave_)() noexcept;
};

// Of a CPU, what decides between paths.
struct Cpu {
    bool (*has)(Isa);
    bool intel;
};

// A line of the table of paths, best first: what it needs, where it is preferred, and why then.
struct Choice {
    Isa needs;
    bool serves_f16;
    bool (*preferred)(const Cpu& cpu, Isa cap);
    const char* why;
    const Path& (*path)(DType dtype, Isa cap);
};
// The first line that fits; the last one always does.
const Choice& choice_for(DType dtype, Isa cap, const Cpu& cpu);

// On this CPU, within a cap: the path, and the reason for the log.
const Path& choose(DType dtype, Isa cap);
const char* why_chosen(DType dtype, Isa cap);

// The paths one by one, for tests and benchmarks; a path is run only where the CPU has what it needs.
const Path& path_f32(DType dtype, Isa cap);
const Path& path_avx512_bf16();
const Path& path_amx(DType dtype);
// The same sources over plain loops instead of the instructions: what runs everywhere and tests their layouts.
const Path& path_avx512_bf16_stand_in();
const Path& path_amx_stand_in(DType dtype);

}  // namespace gradus::gemm
