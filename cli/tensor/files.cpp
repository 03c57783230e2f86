#include "cli/tensor/files.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "cli/base/failure.h"
#include "cli/tensor/npy.h"

namespace gradus::cli {
namespace {

// NumPy's own readers refuse more than 10000 by default.
constexpr uint32_t kLongestHeader = 1 << 16;

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw Failure(kUsage, path + ": " + why); }

class File {
  public:
    explicit File(const std::string& path) : path_(path) {
        struct stat status {};
        if (stat(path.c_str(), &status) != 0) refuse(path, std::strerror(errno));
        // A pipe has no size to check the header against.
        if (!S_ISREG(status.st_mode)) refuse(path, "not a regular file");
        file_ = std::fopen(path.c_str(), "rb");
        if (file_ == nullptr) refuse(path, std::strerror(errno));
        left_ = size_ = static_cast<int64_t>(status.st_size);
    }
    ~File() { std::fclose(file_); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    int64_t size() const { return size_; }
    int64_t left() const { return left_; }
    void read(void* to, int64_t bytes, const char* what) {
        if (bytes > left_)
            refuse(path_, fmt::format("truncated: {} wants {} bytes, the file has {} more", what, bytes, left_));
        if (std::fread(to, 1, static_cast<size_t>(bytes), file_) != static_cast<size_t>(bytes))
            refuse(path_, fmt::format("could not be read to its end ({})", what));
        left_ -= bytes;
    }

  private:
    std::string path_;
    std::FILE* file_;
    int64_t size_, left_;
};

NpyHeader read_header(File& file) {
    unsigned char start[8];
    if (file.size() < static_cast<int64_t>(sizeof start))
        throw Failure(kUsage, "not a .npy file: shorter than its magic");
    file.read(start, sizeof start, "the magic");
    if (std::memcmp(start, "\x93NUMPY", 6) != 0)
        throw Failure(kUsage, "not a .npy file: it does not begin with \\x93NUMPY");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        throw Failure(kUsage, fmt::format("version {}.{}, expected 1.0, 2.0 or 3.0", start[6], start[7]));
    unsigned char raw[4] = {};
    file.read(raw, start[6] == 1 ? 2 : 4, "the header's length");
    const uint32_t length = raw[0] | static_cast<uint32_t>(raw[1]) << 8 | static_cast<uint32_t>(raw[2]) << 16 |
                            static_cast<uint32_t>(raw[3]) << 24;
    if (length > kLongestHeader)
        throw Failure(kUsage, fmt::format("a header of {} bytes, at most {}", length, kLongestHeader));
    std::string text(std::min<size_t>(length, static_cast<size_t>(file.left())), '\0');
    file.read(text.data(), length, "the header");
    return parse_npy_header(text);
}

// Bytes of the data, or a Failure when they are not what the file has left.
void check_extent(const Shape& shape, aclDataType dtype, int64_t left) {
    const auto size = static_cast<int64_t>(aclDataTypeSize(dtype));
    int64_t count = 1;
    for (const int64_t dim : shape)  // zeros first, so that [0, huge] is empty and not too much
        if (dim == 0) count = 0;
    for (const int64_t dim : shape)
        if (count != 0 && __builtin_mul_overflow(count, dim, &count))
            throw Failure(kUsage, fmt::format("shape {}: more elements than 2^63", text(shape)));
    if (count > left / size)
        throw Failure(kUsage, fmt::format("truncated: {} of {} wants {} elements of {} bytes, the file has {} bytes",
                                          text(shape), dtype_name(dtype), count, size, left));
    if (count * size < left)
        throw Failure(kUsage, fmt::format("{} bytes after the data of {} of {}", left - count * size, text(shape),
                                          dtype_name(dtype)));
}

// Column-major bytes into a row-major tensor.
void transpose(const std::vector<char>& from, const Tensor& to) {
    const Shape& shape = to.shape();
    const auto size = static_cast<size_t>(aclDataTypeSize(to.dtype()));
    Shape index(shape.size()), stride(shape.size());
    int64_t step = 1;
    for (size_t d = 0; d < shape.size(); step *= shape[d++]) stride[d] = step;
    int64_t at = 0;
    for (int64_t i = 0; i < to.count(); ++i) {
        std::memcpy(to.data() + static_cast<size_t>(i) * size, from.data() + static_cast<size_t>(at) * size, size);
        for (size_t d = shape.size(); d-- > 0;) {
            at += stride[d];
            if (++index[d] < shape[d]) break;
            at -= stride[d] * shape[d];
            index[d] = 0;
        }
    }
}

bool two_bytes(aclDataType dtype) { return aclDataTypeSize(dtype) == 2; }

// 16-bit words may be the bits of what is wanted; anything else is converted by value, and must survive it when it
// becomes an integer.
Tensor converted(const Tensor& from, aclDataType wanted) {
    Tensor to(wanted, from.shape());
    if (two_bytes(from.dtype()) && two_bytes(wanted) && !(is_float(from.dtype()) && is_float(wanted))) {
        std::memcpy(to.data(), from.data(), static_cast<size_t>(from.bytes()));
        return to;
    }
    for (int64_t i = 0; i < from.count(); ++i) {
        to.set(i, from.at(i));
        if (!is_float(wanted) && to.at(i) != from.at(i))
            throw Failure(kUsage, fmt::format("element {} is {}, which {} cannot hold", index_text(from.shape(), i),
                                              from.at(i), dtype_name(wanted)));
    }
    return to;
}

Tensor read_npy_file(File& file, const aclDataType* as, bool doubles) {
    const NpyHeader header = read_header(file);
    const aclDataType dtype = dtype_of_descr(header.descr);
    if (dtype == ACL_DOUBLE && as == nullptr && !doubles)
        throw Failure(kUsage,
                      "dtype f64; name:f32=FILE rounds it to f32, name:f64=FILE keeps it for golden and magnitude");
    check_extent(header.shape, dtype, file.left());
    Tensor tensor(dtype, header.shape);
    if (header.fortran_order && header.shape.size() > 1) {
        std::vector<char> bytes(static_cast<size_t>(tensor.bytes()));
        file.read(bytes.data(), tensor.bytes(), "the data");
        transpose(bytes, tensor);
    } else {
        file.read(tensor.data(), tensor.bytes(), "the data");
    }
    return as == nullptr || *as == dtype ? tensor : converted(tensor, *as);
}

void write_all(const std::string& path, const std::string& header, const Tensor& tensor) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) throw Failure(kEnvironment, fmt::format("{}: {}", path, std::strerror(errno)));
    const auto bytes = static_cast<size_t>(tensor.bytes());
    const bool written = std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
                         std::fwrite(tensor.data(), 1, bytes, file) == bytes;
    const int error = errno;
    if (std::fclose(file) == 0 && written) return;
    throw Failure(kEnvironment, fmt::format("{}: {}", path, std::strerror(written ? errno : error)));
}

}  // namespace

Tensor read_npy(const std::string& path, const aclDataType* as, bool doubles) {
    File file(path);
    try {
        return read_npy_file(file, as, doubles);
    } catch (const Failure& failure) {
        const std::string what = failure.what();
        if (what.rfind(path, 0) == 0) throw;
        throw Failure(failure.exit, path + ": " + what);
    }
}

Tensor read_raw(const std::string& path, aclDataType dtype, const Shape& shape) {
    File file(path);
    try {
        check_extent(shape, dtype, file.left());
    } catch (const Failure& failure) {
        refuse(path, failure.what());
    }
    Tensor tensor(dtype, shape);
    file.read(tensor.data(), tensor.bytes(), "the data");
    return tensor;
}

void write_tensor(const std::string& path, const Tensor& tensor) {
    const bool raw = path.size() > 4 && path.compare(path.size() - 4, 4, ".bin") == 0;
    const std::string header = raw ? "" : npy_header(descr_of(tensor.dtype()), tensor.shape());
    struct stat status {};
    if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return write_all(path, header, tensor);
    const std::string part = fmt::format("{}.{}.part", path, getpid());
    try {
        write_all(part, header, tensor);
    } catch (...) {
        std::remove(part.c_str());
        throw;
    }
    if (std::rename(part.c_str(), path.c_str()) == 0) return;
    const std::string error = std::strerror(errno);
    std::remove(part.c_str());
    throw Failure(kEnvironment, fmt::format("{}: {}", path, error));
}

}  // namespace gradus::cli
