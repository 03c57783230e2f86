#include "cli/tensor/npy.h"

#include <fmt/core.h>

#include <cctype>
#include <charconv>

#include "cli/base/failure.h"
#include "cli/base/scanner.h"

namespace gradus::cli {
namespace {

// As much of Python as such a header needs: strings, True, False, tuples of numbers.
class Reader : Scanner {
  public:
    explicit Reader(const std::string& text) : Scanner(text) {}

    NpyHeader dictionary() {
        NpyHeader header;
        bool seen[3] = {};
        expect('{');
        while (!take('}')) {
            const std::string key = string();
            expect(':');
            if (key == "descr" && !seen[0]) {
                seen[0] = true;
                if (peek() == '[') fail("a structured dtype; only plain numbers and bool can be read");
                header.descr = string();
            } else if (key == "fortran_order" && !seen[1]) {
                seen[1] = true;
                header.fortran_order = boolean();
            } else if (key == "shape" && !seen[2]) {
                seen[2] = true;
                header.shape = tuple();
            } else {
                fail(fmt::format("key '{}', expected descr, fortran_order and shape once each", printable(key)));
            }
            if (!take(',') && peek() != '}') fail("no comma between the keys");
        }
        if (peek() != '\0') fail("text after the dictionary");
        if (!seen[0] || !seen[1] || !seen[2]) fail("one of descr, fortran_order and shape is missing");
        return header;
    }

  private:
    [[noreturn]] static void fail(const std::string& what) { throw Failure(kUsage, "header: " + what); }

    static std::string printable(std::string text) {
        for (char& c : text)
            if (std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
        return text.size() > 40 ? text.substr(0, 40) + "..." : text;
    }

    void expect(char c) {
        if (!take(c)) fail(fmt::format("expected '{}' at byte {}", c, at_));
    }

    std::string string() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') fail(fmt::format("expected a string at byte {}", at_));
        const size_t end = text_.find(quote, at_ + 1);
        if (end == std::string::npos) fail("a string does not end");
        std::string value = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        return value;
    }

    bool boolean() {
        peek();
        for (const bool value : {true, false}) {
            const std::string word = value ? "True" : "False";
            if (text_.compare(at_, word.size(), word) != 0) continue;
            at_ += word.size();
            return value;
        }
        fail("fortran_order is neither True nor False");
    }

    Shape tuple() {
        Shape shape;
        expect('(');
        while (!take(')')) {
            peek();
            int64_t dim = 0;
            const char* begin = text_.data() + at_;
            const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), dim);
            if (error == std::errc::result_out_of_range) fail("shape: a size beyond 2^63");
            if (error != std::errc()) fail(fmt::format("shape: expected a number at byte {}", at_));
            if (dim < 0) fail(fmt::format("shape: the size {} is negative", dim));
            at_ += static_cast<size_t>(end - begin);
            take('L');  // Python 2 wrote its long numbers so
            shape.push_back(dim);
            if (!take(',') && peek() != ')') fail("shape: no comma between the sizes");
        }
        return shape;
    }
};

struct Described {
    const char* code;
    aclDataType dtype;
};
constexpr Described kDescribed[] = {{"f4", ACL_FLOAT},  {"f2", ACL_FLOAT16}, {"V2", ACL_BF16},   {"f8", ACL_DOUBLE},
                                    {"b1", ACL_BOOL},   {"i1", ACL_INT8},    {"u1", ACL_UINT8},  {"i2", ACL_INT16},
                                    {"u2", ACL_UINT16}, {"i4", ACL_INT32},   {"u4", ACL_UINT32}, {"i8", ACL_INT64},
                                    {"u8", ACL_UINT64}};

}  // namespace

NpyHeader parse_npy_header(const std::string& text) { return Reader(text).dictionary(); }

std::string npy_header(const std::string& descr, const Shape& shape) {
    std::string sizes;
    for (const int64_t dim : shape) sizes += fmt::format("{}, ", dim);
    if (shape.size() > 1) sizes.resize(sizes.size() - 2);
    if (shape.size() == 1) sizes.resize(sizes.size() - 1);
    std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
    constexpr size_t kFixed = 10, kAlign = 64;
    const size_t total = (kFixed + text.size() + 1 + kAlign - 1) / kAlign * kAlign;
    text.resize(total - kFixed - 1, ' ');
    text += '\n';
    std::string magic("\x93NUMPY\x01\x00", 8);
    magic += static_cast<char>(text.size() & 0xFF);
    magic += static_cast<char>(text.size() >> 8);
    return magic + text;
}

aclDataType dtype_of_descr(const std::string& descr) {
    const std::string code = descr.size() > 1 ? descr.substr(1) : "";
    const char order = descr.empty() ? '\0' : descr[0];
    for (const Described& known : kDescribed) {
        if (code != known.code) continue;
        const bool one_byte = code[1] == '1';
        if (order == '>' && !one_byte)
            throw Failure(kUsage, fmt::format("dtype '{}' is big-endian; save it with .astype('<{}')", descr, code));
        if (order == '<' || order == '=' || (order == '|' && (one_byte || code == "V2")) || one_byte)
            return known.dtype;
    }
    if (code == "O" || descr == "O") throw Failure(kUsage, "dtype object: Python objects cannot be read");
    std::string shown;
    for (const char c : descr.substr(0, 24)) shown += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '?';
    throw Failure(kUsage, fmt::format("dtype '{}', expected f4, f2, V2 (bf16), f8, b1, i1..i8 or u1..u8", shown));
}

std::string descr_of(aclDataType dtype) {
    for (const Described& known : kDescribed)
        if (known.dtype == dtype) return fmt::format("{}{}", known.code[1] == '1' ? '|' : '<', known.code);
    throw Failure(kUsage, fmt::format("dtype {} has no name in NumPy", static_cast<int>(dtype)));
}

}  // namespace gradus::cli
