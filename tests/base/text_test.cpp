// Texts of limited length, which messages are made of.
#include "base/text.h"

#include <gtest/gtest.h>

#include <string>

namespace gradus {
namespace {

TEST(Text, IsReplaced) {
    Text text = "a longer text";
    text = Text("short");
    EXPECT_EQ(text.view(), "short");
    EXPECT_STREQ(text.c_str(), "short");
    const Text& same = text;
    text = same;
    EXPECT_EQ(text.view(), "short");
}

TEST(Text, IsCutOff) {
    Text text = std::string_view(std::string(5000, 'x'));
    EXPECT_EQ(text.view(), std::string(Text::kMost, 'x'));
    append(text, "more");
    EXPECT_EQ(std::string(text.c_str()), std::string(Text::kMost, 'x'));
}

TEST(Text, JoinsTextsAndNumbers) {
    EXPECT_EQ(concat("at ", -3, " of ", uint64_t{1} << 63, ", ", INT64_MIN, Text(": end")).view(),
              "at -3 of 9223372036854775808, -9223372036854775808: end");
}

}  // namespace
}  // namespace gradus
