// Host tensors of the tests: dense values in any dtype, and the layouts they are given to the library in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "acl/acl_base.h"

namespace gradus::testing {

using Shape = std::vector<int64_t>;

int64_t numel(const Shape& shape);
std::string text(const Shape& shape);
const char* type_name(aclDataType type);

// Row-major values. Conversions are those of the public opdev headers: independent of the library.
class Array {
  public:
    Array() = default;
    Array(aclDataType element_type, Shape dims);

    aclDataType type = ACL_FLOAT;
    Shape shape;
    std::vector<std::byte> bytes;

    int64_t size() const { return numel(shape); }
    int64_t item() const;  // bytes
    double at(int64_t i) const;
    void set(int64_t i, double value);                    // rounds once, to nearest even
    bool operator==(const Array& other) const = default;  // bit by bit
};

// Index of the first element that differs in its bits, −1 if none does.
int64_t first_difference(const Array& a, const Array& b);

// Rows [begin, end) of dim 0.
Array slice(const Array& a, int64_t begin, int64_t end);

// Where the elements of a view lie: strides and offset in elements of a storage.
struct Layout {
    std::vector<int64_t> stride;
    int64_t offset = 0, storage = 0;
};
Layout dense(const Shape& shape);
// Every dim padded, the last one too: rows of unit stride that do not touch.
Layout padded(const Shape& shape, int64_t gap);
// Dims in reverse order in memory.
Layout transposed(const Shape& shape);
// Unit stride nowhere.
Layout stepped(const Shape& shape, int64_t step);
// Stride 0 along one dim; only for inputs that are constant there.
Layout broadcast(const Shape& shape, int dim);

// Everything random in a test comes from here, seeded by its name and GRADUS_TEST_SEED; the seed is printed on failure.
class Random {
  public:
    explicit Random(const std::string& name);
    std::string repeat() const;  // "GRADUS_TEST_SEED=7"

    double normal(double scale = 1) { return std::normal_distribution<double>(0, scale)(engine); }
    double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine); }
    int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
    bool chance(double p) { return uniform(0, 1) < p; }
    template <typename T>
    T pick(const std::vector<T>& values) {
        return values[static_cast<size_t>(between(0, static_cast<int64_t>(values.size()) - 1))];
    }

    Array normals(aclDataType type, const Shape& shape, double scale = 1);
    Array filled(aclDataType type, const Shape& shape, const std::function<double()>& value);
    Layout layout(const Shape& shape);  // any view without overlap

    std::mt19937_64 engine;

  private:
    uint64_t seed_;
};

int rounds();  // GRADUS_TEST_ROUNDS, default 1: how much longer the sweeps are to be
// Every how many of all f32 numbers a test takes: GRADUS_TEST_LONG=1 the 16th, GRADUS_TEST_LONG=all each one.
int64_t stride_of_numbers(int64_t unless_long);

}  // namespace gradus::testing
