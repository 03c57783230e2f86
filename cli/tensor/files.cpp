#include "cli/tensor/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "cli/base/failure.h"
#include "cli/base/write_file.h"
#include "cli/tensor/input.h"
#include "cli/tensor/npy.h"
#include "cli/tensor/npz.h"

namespace gradus::cli {
namespace {

// NumPy's own readers refuse more than 10000 by default.
constexpr uint32_t kLongestHeader = 1 << 16;

NpyHeader read_header(Input& file) {
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
    if (to.count() == 0) return;  // of sizes whose product may be anything
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

Tensor read_npy_file(Input& file, const aclDataType* as, bool doubles) {
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

// The archive of FILE.npz/NAME, and NAME; an archive alone has no name.
std::pair<std::string, std::string> archive_of(const std::string& path) {
    const size_t at = path.rfind(".npz");
    if (at == std::string::npos) return {};
    const std::string rest = path.substr(at + 4);
    if (!rest.empty() && (rest[0] != '/' || rest.size() == 1)) return {};
    return {path.substr(0, at + 4), rest.empty() ? "" : rest.substr(1)};
}

Input open_member(const std::string& path, Input archive, std::string name, const std::string& otherwise) {
    const std::vector<NpzMember> members = npz_members(archive);
    std::vector<std::string> names;
    names.reserve(members.size());
    for (const NpzMember& member : members) names.push_back(member.name);
    if (name.empty()) name = members.size() == 1 ? names[0] : otherwise;
    const auto found = std::ranges::find(members, name, &NpzMember::name);
    if (name.empty()) refuse(path, fmt::format("it has {}; say FILE.npz/NAME", fmt::join(names, ", ")));
    if (found == members.end())
        refuse(path, fmt::format("it has no '{}', but {}; say FILE.npz/NAME", name, fmt::join(names, ", ")));
    return {path, read_member(archive, *found)};
}

Input open(const std::string& path, const std::string& name) {
    if (path == "-") {
        Input input("stdin", read_stdin());
        char start[2] = {};
        if (input.size() >= 2) input.read(start, 2, "the magic");
        input.seek(0);
        if (start[0] != 'P' || start[1] != 'K') return input;
        return open_member("stdin", std::move(input), "", name);
    }
    const auto [archive, member] = archive_of(path);
    return archive.empty() ? Input(path) : open_member(path, Input(archive), member, name);
}

}  // namespace

Tensor read_npy(const std::string& path, const aclDataType* as, bool doubles, const std::string& name) {
    try {
        Input input = open(path, name);
        return read_npy_file(input, as, doubles);
    } catch (const Failure& failure) {
        const std::string what = failure.what();
        if (what.starts_with(path)) throw;
        throw Failure(failure.exit, path + ": " + what);
    }
}

Tensor read_raw(const std::string& path, aclDataType dtype, const Shape& shape) {
    Input file(path);
    try {
        check_extent(shape, dtype, file.left());
    } catch (const Failure& failure) {
        refuse(path, failure.what());
    }
    Tensor tensor(dtype, shape);
    file.read(tensor.data(), tensor.bytes(), "the data");
    return tensor;
}

std::vector<Member> members_of(const std::string& path) {
    std::vector<Member> members;
    std::error_code none;
    if (std::filesystem::is_directory(path, none)) {
        for (const auto& entry : std::filesystem::directory_iterator(path, none))
            if (entry.path().extension() == ".npy")
                members.push_back({entry.path().stem().string(), entry.path().string()});
    } else if (path.ends_with(".npz") && std::filesystem::exists(path, none)) {
        Input archive(path);
        for (const NpzMember& member : npz_members(archive)) members.push_back({member.name, path + "/" + member.name});
    } else {
        return {};
    }
    if (members.empty()) refuse(path, "no .npy in it");
    std::ranges::sort(members, {}, &Member::name);
    return members;
}

void write_tensor(const std::string& path, const Tensor& tensor) {
    const std::string header = path.ends_with(".bin") ? "" : npy_header(descr_of(tensor.dtype()), tensor.shape());
    write_file(path, {header, {reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes())}});
}

}  // namespace gradus::cli
