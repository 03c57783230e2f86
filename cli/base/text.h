// Text as the command line has it: parts, quotes, and the word that was probably meant.
#pragma once

#include <string>
#include <vector>

namespace gradus::cli {

std::string lower(std::string text);

// At separators outside brackets, blanks around the parts taken off.
std::vector<std::string> split(const std::string& text, char separator);

// As a shell wants it: in quotes if need be.
std::string quoted(const std::string& word);
std::string quoted(const std::vector<std::string>& words);  // blanks between

// The known word that is the fewest edits away, or an empty string when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& known);
// ", did you mean SwiGlu?", or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& known);

}  // namespace gradus::cli
