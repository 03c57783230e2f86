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
            if (static_cast<unsigned char>(peek()) < 0x20) return false;
            if (!eat('\\'))
                ++at_;
            else if (!escape())
                return false;
        }
        return eat('"');
    }

    bool one_of(std::string_view set) {
        if (at_ == text_.size() || set.find(peek()) == std::string_view::npos) return false;
        return ++at_, true;
    }

    bool escape() {
        if (!eat('u')) return one_of("\"\\/bfnrt");
        for (int i = 0; i < 4; ++i)
            if (!one_of("0123456789abcdefABCDEF")) return false;
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
