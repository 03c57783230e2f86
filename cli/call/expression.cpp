// Arithmetic over named sizes: precedence climbing in four functions.
#include <fmt/core.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "cli/base/failure.h"
#include "cli/base/scanner.h"
#include "cli/call/expression.h"

namespace gradus::cli {
namespace {

class Evaluator : Scanner {
  public:
    Evaluator(const std::string& text, const Sizes& sizes, const std::map<std::string, Tensor>& tensors)
        : Scanner(text), sizes_(sizes), tensors_(tensors) {}

    double value() {
        const double result = sum();
        if (peek() != '\0') fail(fmt::format("'{}' is not expected there", text_.substr(at_)));
        return result;
    }

  private:
    [[noreturn]] void fail(const std::string& why) const { throw Failure(kUsage, fmt::format("'{}': {}", text_, why)); }

    void expect(char c) {
        if (!take(c)) fail(fmt::format("'{}' is missing", c));
    }

    double sum() {
        double result = product();
        for (;;) {
            if (take('+'))
                result += product();
            else if (take('-'))
                result -= product();
            else
                return result;
        }
    }

    double product() {
        double result = factor();
        for (;;) {
            if (take('*'))
                result *= factor();
            else if (take('/'))
                result /= factor();
            else
                return result;
        }
    }

    double factor() {
        // Written by a user, so the depth of parentheses and signs has an end.
        if (++depth_ > 64) fail("nested too deeply");
        const double result = factor_inside();
        --depth_;
        return result;
    }

    double factor_inside() {
        if (take('-')) return -factor();
        if (take('(')) {
            const double inside = sum();
            expect(')');
            return inside;
        }
        const char c = peek();
        if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.') return number();
        const std::string name = word();
        if (name.empty()) fail(c == '\0' ? "it ends too early" : fmt::format("'{}' is not expected there", c));
        return take('(') ? function(name) : size(name);
    }

    double number() {
        double result = 0;
        const char* begin = text_.data() + at_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), result);
        if (error != std::errc()) fail("a number is expected");
        at_ += static_cast<size_t>(end - begin);
        return result;
    }

    std::string word() {
        const size_t begin = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
            ++at_;
        return text_.substr(begin, at_ - begin);
    }

    double size(const std::string& name) const {
        if (name == "inf") return INFINITY;
        if (name == "nan") return NAN;
        const auto found = sizes_.find(name);
        if (found == sizes_.end()) fail(fmt::format("the size {} is not known", name));
        return static_cast<double>(found->second);
    }

    double function(const std::string& name) {
        if (name == "size") {
            peek();
            const auto found = tensors_.find(word());
            if (found == tensors_.end()) fail("size() of a tensor that is not there");
            expect(')');
            return static_cast<double>(found->second.count());
        }
        const double a = sum();
        if (name == "min" || name == "max") {
            expect(',');
            const double b = sum();
            expect(')');
            return name == "min" ? std::min(a, b) : std::max(a, b);
        }
        expect(')');
        if (name == "ceil") return std::ceil(a);
        if (name == "floor") return std::floor(a);
        if (name == "sqrt") return std::sqrt(a);
        if (name == "log2") return std::log2(a);
        fail(fmt::format("{}() is not known; ceil, floor, sqrt, log2, min, max and size are", name));
    }

    const Sizes& sizes_;
    const std::map<std::string, Tensor>& tensors_;
    int depth_ = 0;
};

}  // namespace

double evaluate(const std::string& expression, const Sizes& sizes, const std::map<std::string, Tensor>& tensors) {
    return Evaluator(expression, sizes, tensors).value();
}

int64_t evaluate_integer(const std::string& expression, const Sizes& sizes) {
    const double value = evaluate(expression, sizes);
    if (!(std::abs(value) <= 0x1p53) || value != std::floor(value))
        throw Failure(kUsage, fmt::format("'{}' is {}, expected an integer", expression, value));
    return static_cast<int64_t>(value);
}

std::vector<std::string> names_in(const std::string& expression) {
    std::vector<std::string> names;
    for (size_t at = 0; at < expression.size();) {
        const auto c = static_cast<unsigned char>(expression[at]);
        if (std::isalnum(c) == 0 && c != '_') {
            ++at;
            continue;
        }
        size_t end = at;
        while (end < expression.size() &&
               (std::isalnum(static_cast<unsigned char>(expression[end])) != 0 || expression[end] == '_'))
            ++end;
        const bool call = end < expression.size() && expression[end] == '(';
        if (std::isdigit(c) == 0 && !call) names.push_back(expression.substr(at, end - at));
        at = end;
    }
    return names;
}

}  // namespace gradus::cli
