// A dense tensor in device memory (which the host can read), with its aclTensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace gradus::cli {

using Shape = std::vector<int64_t>;

// aclInit, device 0 and one stream, made at the first use and given back at the end of the process.
aclrtStream stream();
// Failure(kEnvironment) with the library's own message unless the status is 0.
void expect_success(int status, const std::string& doing);

std::string text(const Shape& shape);           // [4,1,8]
const char* dtype_name(aclDataType dtype);      // f32, f16, bf16, bool, uint8 ...: the catalogue's words
aclDataType dtype_of(const std::string& name);  // also u8, float32 ...; Failure(kUsage) with the known ones
bool is_float(aclDataType dtype);

class Tensor {  // a copy is the same tensor
  public:
    Tensor(aclDataType dtype, Shape shape);  // zeros; Failure(kEnvironment) when there is no memory
    aclDataType dtype() const;
    const Shape& shape() const;
    int64_t count() const;
    int64_t bytes() const;
    std::byte* data() const;
    const aclTensor* handle() const;
    // Element i in C order, whatever the dtype.
    double at(int64_t i) const;
    void set(int64_t i, double value) const;  // to nearest even

  private:
    struct Memory;
    std::shared_ptr<Memory> memory_;
};

// C-order index of element i: [3,0,17].
std::string index_text(const Shape& shape, int64_t i);

}  // namespace gradus::cli
