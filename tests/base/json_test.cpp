// The configuration file of aclInit: what is JSON, and where it ceases to be.
#include <fstream>

#include "testing/runtime.h"

namespace gradus::testing {
namespace {

// Where the file is said not to be JSON; −1: it is.
int error_at(const std::string& text) {
    const std::string path = ::testing::TempDir() + "gradus_json_test.json";
    std::ofstream(path, std::ios::binary) << text;
    take_message();
    const int code = aclInit(path.c_str());
    std::remove(path.c_str());
    if (code == 0) {
        EXPECT_EQ(aclFinalize(), 0);
        return -1;
    }
    EXPECT_EQ(code, 100006);
    const std::string message = take_message(), words = "is not JSON at byte ";
    const size_t at = message.find(words);
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? -2 : std::stoi(message.substr(at + words.size()));
}

TEST(Json, Values) {
    for (const char* good : {"true",
                             "false",
                             "null",
                             "0",
                             "-0",
                             "7",
                             "-7",
                             "10",
                             "1234567890",
                             "0.5",
                             "-0.05",
                             "10.25",
                             "1e5",
                             "1E5",
                             "1e+5",
                             "1E-5",
                             "0e0",
                             "-1.5e-10",
                             "\"\"",
                             "\"a\"",
                             "\"\\\"\"",
                             "\"\\\\\"",
                             "\"\\/\"",
                             "\"\\b\\f\\n\\r\\t\"",
                             "\"\\u0019\"",
                             "\"\\uaFAf\"",
                             "\"\\u9a0fb\"",
                             "\" \x7f \xc3\xa9\"",
                             "\"\xe0\xa0\x80 \xed\x9f\xbf \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\"",
                             "\"\\ud83d\\ude00 \\ud7ff \\ue000\"",
                             "[]",
                             "[ ]",
                             "[1]",
                             "[ 1 , 2 ]",
                             "[[],[[]],{}]",
                             "{}",
                             "{ }",
                             "{\"a\":1}",
                             " { \"a\" : 1 , \"b\" : [ ] } ",
                             "{\"\":\"\"}",
                             "\t\n\r 1\t\n\r "})
        EXPECT_EQ(error_at(good), -1) << good;
}

TEST(Json, Mistakes) {
    const struct {
        const char* text;
        int at;
    } rows[] = {
        // words
        {"", 0},
        {"tru", 0},
        {"trux", 0},
        {"True", 0},
        {"fals", 0},
        {"falsy", 0},
        {"nul", 0},
        {"nil", 0},
        {"truetrue", 4},
        {"true false", 5},
        {"x", 0},
        // numbers
        {"-", 1},
        {"+1", 0},
        {"--1", 1},
        {"00", 1},
        {"01", 1},
        {"-01", 2},
        {".5", 0},
        {"1.", 2},
        {"1.e5", 2},
        {"1e", 2},
        {"1e+", 3},
        {"1e-", 3},
        {"1e+-5", 3},
        {"1e-+5", 3},
        {"1e5.5", 3},
        {"1ee5", 2},
        {"1eE5", 2},
        {"0x1", 1},
        {"1a", 1},
        {"/1", 0},
        {":1", 0},
        // strings
        {"\"", 1},
        {"\"a", 2},
        {"\"a\\", 3},
        {"\"a\\\"", 4},
        {"\"\\x\"", 2},
        {"\"\\U0019\"", 2},
        {"\"\\u\"", 3},
        {"\"\\u001\"", 6},
        {"\"\\u00g9\"", 5},
        {"\"\\u00:9\"", 5},
        {"\"\\u00", 5},
        {"\"\n\"", 1},
        {"\"a\x1f\"", 2},
        {"'a'", 0},
        {"\"\\ud800\"", 7},
        {"\"\\udc00\"", 7},
        {"\"\\ud800\\n\"", 8},
        {"\"\\ud800\\ud800\"", 13},
        // not UTF-8
        {"\"a\xff\"", 2},
        {"\"\x80\"", 1},
        {"\"\xc1\xbf\"", 1},
        {"\"\xc3\"", 1},
        {"\"\xe0\x9f\xbf\"", 1},
        {"\"\xe2\x82\"", 1},
        {"\"\xed\xa0\x80\"", 1},
        {"\"\xf0\x8f\xbf\xbf\"", 1},
        {"\"\xf4\x90\x80\x80\"", 1},
        // sequences
        {"[", 1},
        {"]", 0},
        {"[1", 2},
        {"[1,", 3},
        {"[1,]", 3},
        {"[,1]", 1},
        {"[1 2]", 3},
        {"[1,,2]", 3},
        {"[1}", 2},
        {"[1]]", 3},
        {"{", 1},
        {"}", 0},
        {"{]", 1},
        {"{\"a\"", 4},
        {"{\"a\"}", 4},
        {"{\"a\" 1}", 5},
        {"{\"a\":", 5},
        {"{\"a\":}", 5},
        {"{\"a\":1,}", 7},
        {"{\"a\":1 \"b\":2}", 7},
        {"{\"a\":1]", 6},
        {"{a:1}", 1},
        {"{1:1}", 1},
        {"{\"a\"::1}", 5},
        {"{} {}", 3},
        {"1 // one", 2},
    };
    for (const auto& row : rows) EXPECT_EQ(error_at(row.text), row.at) << row.text;
    EXPECT_EQ(error_at(std::string("1\0", 2)), 1);
    EXPECT_EQ(error_at(std::string("\"\0\"", 3)), 1);
    EXPECT_EQ(error_at(std::string("\0", 1)), 0);
}

TEST(Json, Depth) {
    const auto nested = [](const std::string& open, const std::string& close, int depth) {
        std::string text;
        for (int i = 0; i < depth; ++i) text += open;
        text += "1";
        for (int i = 0; i < depth; ++i) text += close;
        return text;
    };
    EXPECT_EQ(error_at(nested("[", "]", 100)), -1);
    EXPECT_EQ(error_at(nested("[", "]", 101)), 100);
    EXPECT_EQ(error_at(nested("{\"\":", "}", 100)), -1);
    EXPECT_EQ(error_at(nested("{\"\":", "}", 101)), 400);
    std::string wide = "[[]";
    for (int i = 0; i < 300; ++i) wide += ",[]";
    EXPECT_EQ(error_at(wide + "]"), -1) << "many beside each other are not deep";
}

}  // namespace
}  // namespace gradus::testing
