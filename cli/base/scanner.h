// A text read from left to right, spaces passed over: what the small grammars of the tool have in common.
#pragma once

#include <cctype>
#include <string>

namespace gradus::cli {

class Scanner {
  protected:
    explicit Scanner(const std::string& text) : text_(text) {}

    char peek() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool take(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }

    const std::string& text_;
    size_t at_ = 0;
};

}  // namespace gradus::cli
