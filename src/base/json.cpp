#include "base/json.h"

namespace gradus {
namespace {

constexpr int kDeepest = 100;  // the stack is the program's, and maybe small

class Checker {
  public:
    explicit Checker(std::string_view text) : text_(text) {}

    bool document() {
        if (!value(0)) return false;
        space();
        return at_ == text_.size();
    }
    size_t at() const { return at_; }

  private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool eat(char c) { return peek() == c && at_ < text_.size() ? ++at_, true : false; }
    void space() {
        while (at_ < text_.size() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
    }
    bool word(std::string_view w) { return text_.substr(at_, w.size()) == w ? at_ += w.size(), true : false; }
    bool digits() {
        const size_t begin = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        return at_ > begin;
    }

    bool value(int depth) {
        space();
        switch (peek()) {
            case '{':
                return depth < kDeepest && sequence('{', '}', depth, true);
            case '[':
                return depth < kDeepest && sequence('[', ']', depth, false);
            case '"':
                return string();
            case 't':
                return word("true");
            case 'f':
                return word("false");
            case 'n':
                return word("null");
            default:
                return number();
        }
    }

    bool sequence(char open, char close, int depth, bool keys) {
        eat(open);
        space();
        if (eat(close)) return true;
        do {
            space();
            if (keys) {
                if (!string()) return false;
                space();
                if (!eat(':')) return false;
            }
            if (!value(depth + 1)) return false;
            space();
        } while (eat(','));
        return eat(close);
    }

    bool string() {
        if (!eat('"')) return false;
        while (at_ < text_.size() && peek() != '"') {
            if (eat('\\') ? !escape() : !character()) return false;
        }
        return eat('"');
    }

    // As UTF-8 has it: the shortest form, no surrogates, nothing above U+10FFFF.
    bool character() {
        const auto byte = [this](size_t i) {
            return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0u;
        };
        const unsigned first = byte(0), second = byte(1);
        if (first < 0x80) return first >= 0x20 ? ++at_, true : false;
        if (first < 0xC2 || first > 0xF4) return false;
        if (second < (first == 0xE0 ? 0xA0u : first == 0xF0 ? 0x90u : 0x80u)) return false;
        if (second > (first == 0xED ? 0x9Fu : first == 0xF4 ? 0x8Fu : 0xBFu)) return false;
        const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        for (size_t i = 2; i < length; ++i)
            if (byte(i) >> 6 != 2) return false;
        at_ += length;
        return true;
    }

    bool one_of(std::string_view set) {
        if (at_ == text_.size() || set.find(peek()) == std::string_view::npos) return false;
        return ++at_, true;
    }

    // A character beyond 16 bits is two: a high surrogate, and a low one right behind it.
    bool escape() {
        if (!eat('u')) return one_of("\"\\/bfnrt");
        unsigned code = 0, low = 0;
        if (!hexadecimal(code)) return false;
        if (code >> 10 != 0xD800 >> 10) return code >> 10 != 0xDC00 >> 10;
        return eat('\\') && eat('u') && hexadecimal(low) && low >> 10 == 0xDC00 >> 10;
    }
    bool hexadecimal(unsigned& code) {
        constexpr std::string_view kDigits = "0123456789abcdef0123456789ABCDEF";
        for (int i = 0; i < 4; ++i) {
            const size_t digit = kDigits.find(peek());
            if (!one_of(kDigits)) return false;
            code = code * 16 + static_cast<unsigned>(digit % 16);
        }
        return true;
    }

    bool number() {
        eat('-');
        if (!eat('0') && !digits()) return false;
        if (eat('.') && !digits()) return false;
        if (!eat('e') && !eat('E')) return true;
        if (!eat('+')) eat('-');
        return digits();
    }

    std::string_view text_;
    size_t at_ = 0;
};

}  // namespace

std::optional<size_t> find_json_error(std::string_view text) {
    Checker checker(text);
    if (checker.document()) return std::nullopt;
    return checker.at();
}

}  // namespace gradus
