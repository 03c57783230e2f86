// What aclGetRecentErrMsg keeps of a program that does not read it, and of messages longer than it has room for.
#include <sstream>

#include "gradus/gradus.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

const std::string kBegin = "gradusSetOption: limits: value '", kEnd = "', expected on or off";

// A message of so many bytes, told by its number.
std::string fail(int number, size_t bytes) {
    std::string value = std::to_string(number) + ":";
    value.resize(bytes - kBegin.size() - kEnd.size(), 'x');
    EXPECT_EQ(gradusSetOption("limits", value.c_str()), 100000);
    return kBegin + value + kEnd;
}

TEST(Messages, NewestFirst) {
    take_message();
    const std::string one = fail(1, 80), two = fail(2, 90), three = fail(3, 100);
    EXPECT_EQ(take_message(), three + "\n" + two + "\n" + one);
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
    const std::string four = fail(4, 70);
    EXPECT_EQ(take_message(), four) << "what was read does not come back";
}

TEST(Messages, StayWhereTheyWereHandedOut) {
    take_message();
    const std::string one = fail(1, 80);
    const char* const first = aclGetRecentErrMsg();
    const std::string two = fail(2, 90);
    EXPECT_EQ(first, one) << "until the next call";
    EXPECT_EQ(take_message(), two);
}

// Fills far more than there is room for: what is there is whole lines, newest first, without a gap.
TEST(Messages, OfAProgramThatNeverReads) {
    take_message();
    size_t most = 0;
    for (const size_t bytes : {80, 97, 1000}) {
        std::vector<std::string> told;
        for (int i = 0; i < 300; ++i) {
            told.push_back(fail(i, bytes));
            if (i % 7 != 6) continue;
            std::istringstream text(take_message());
            std::string line;
            size_t newest = told.size(), size = 0;
            for (; std::getline(text, line); size += line.size() + 1) {
                ASSERT_GT(newest, 0u);
                ASSERT_EQ(line, told[--newest]);
            }
            ASSERT_LT(newest, told.size()) << "at least the newest is there";
            most = std::max(most, size);
        }
        for (int i = 0; i < 200; ++i) fail(i, bytes);
        const std::string newest = fail(200, bytes);
        EXPECT_EQ(take_message().rfind(newest, 0), 0u);
    }
    EXPECT_GT(most, 600u);
    EXPECT_LE(most, 4096u);
}

// Room for 4095 bytes, line breaks between the messages among them.
TEST(Messages, ExactlyAsManyAsThereIsRoomFor) {
    for (const size_t last : {98, 99}) {
        take_message();
        std::string all;
        for (int i = 0; i < 4; ++i) all = fail(i, i == 3 ? 996 : 999) + (i == 0 ? "" : "\n") + all;
        const std::string newest = fail(4, last);
        EXPECT_EQ(take_message(), last == 98 ? newest + "\n" + all : newest) << "with " << last + 1 + all.size();
    }
}

TEST(Messages, LongerThanAMessageMayBe) {
    take_message();
    const std::string value(5000, 'y'), whole = kBegin + value + kEnd;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(gradusSetOption("limits", value.c_str()), 100000);
    std::istringstream text(take_message());
    std::string line;
    int lines = 0;
    for (; std::getline(text, line); ++lines) {
        EXPECT_GE(line.size(), 1000u);
        EXPECT_EQ(line.rfind(kBegin.substr(0, 20), 0), 0u);
        EXPECT_NE(whole.find(line.substr(0, 1000)), std::string::npos);
    }
    EXPECT_EQ(lines, 3);
    fail(1, 80);
    EXPECT_NE(take_message().find("1:xx"), std::string::npos) << "and short ones come after";
}

}  // namespace
}  // namespace gradus::testing
