// gradus.h: options, the catalogue, and operators by their name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "aclnn/aclnn_base.h"
#include "testing/call.h"

namespace gradus::testing {
namespace {

gradusArg integer(const char* name, int64_t value) {
    gradusArg arg{};
    arg.name = name;
    arg.kind = GRADUS_INT;
    arg.value.i = value;
    return arg;
}

// What a call by name answers, and its message.
std::pair<int, std::string> prepare(const char* op, const std::vector<gradusArg>& args) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    take_message();
    const int code = gradusPrepare(op, args.data(), args.size(), &size, &executor);
    if (code == 0) EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    return {code, take_message()};
}

void expect(const char* op, const std::vector<gradusArg>& args, int code, const std::string& message) {
    const auto [got, text] = prepare(op, args);
    EXPECT_EQ(got, code) << text;
    EXPECT_NE(text.find(message), std::string::npos) << text;
}

TEST(ByName, Refusals) {
    gradusArg wrong = integer("dim", 0);
    wrong.kind = GRADUS_DOUBLE;
    gradusArg strange = integer("dim", 0);
    strange.kind = static_cast<gradusKind>(7);
    gradusArg nameless = integer(nullptr, 0);
    expect("SwiGlo", {}, 161002, "SwiGlo, expected one of");
    expect(nullptr, {}, 161002, "expected one of");
    expect("SwiGlu", {integer("dimm", 0)}, 161002, "dimm: unknown argument, expected one of x, dim, out");
    expect("SwiGlu", {nameless}, 161002, "unknown argument");
    expect("SwiGlu", {integer("dim", 0), integer("dim", 1)}, 161002, "dim: given twice");
    expect("SwiGlu", {wrong}, 161002, "dim: kind double, expected int");
    expect("SwiGlu", {strange}, 161002, "dim: kind 7, expected int");
    expect("SwiGlu", {integer("dim", 0)}, 161001, "aclnnSwiGlu: x: NULL");
    uint64_t size;
    aclOpExecutor* executor;
    EXPECT_EQ(gradusPrepare("SwiGlu", nullptr, 2, &size, &executor), 161001);
}

TEST(ByName, DefaultsAreTheCatalogues) {
    Call call("SwiGlu");  // dim left out: −1
    call.in("x", Array(ACL_FLOAT, {3, 8})).out("out", ACL_FLOAT, {3, 4});
    EXPECT_EQ(call.ask().code, 0);
}

TEST(ByName, PathIsTheKernelThatWasChosen) {
    const int64_t dims[] = {2, 8}, half[] = {2, 4};
    aclTensor* x = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
    aclTensor* out = aclCreateTensor(half, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, half, 2, nullptr);
    gradusArg args[2] = {};
    args[0].name = "x";
    args[0].value.tensor = x;
    args[1].name = "out";
    args[1].value.tensor = out;
    const auto path = [&args] {
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        EXPECT_EQ(gradusPrepare("SwiGlu", args, 2, &size, &executor), 0) << take_message();
        const char* chosen = gradusPath(executor);
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
        EXPECT_EQ(gradusPath(executor), nullptr) << "not alive any more";
        return std::string(chosen == nullptr ? "NULL" : chosen);
    };
    {
        const Option scalar("max_isa", "scalar");
        EXPECT_EQ(path(), "scalar");
    }
    {
        const Option golden("precision", "golden");
        EXPECT_EQ(path(), "golden");
    }
    EXPECT_EQ(gradusPath(nullptr), nullptr);
    aclDestroyTensor(x);
    aclDestroyTensor(out);
}

TEST(Catalogue, IsJsonWithEveryOperator) {
    const std::string text = gradusCatalogue();
    for (const char* word : {"\"SwiGlu\"", "\"SwiGluGrad\"", "\"family\": \"swi_glu\"", "\"name\": \"yGrad\"",
                             "\"default\": -1", "\"dtypes\": [\"f32\", \"f16\", \"bf16\"]", "\"in_place\": [\"x\"]",
                             "\"Ascend910B\"", "\"formula\"", "\"document\"", "\"roundings\"",
                             "\"limit\": {\"kind\": ", "\"tiny\": \"x=[2,64]\"", "\"targets\": {\"bf16\": 0.8"})
        EXPECT_NE(text.find(word), std::string::npos) << word;
    // aclInit reads any JSON file, and says when it is none
    std::string path = ::testing::TempDir() + "gradus_catalogue_XXXXXX";
    const int file = mkstemp(path.data());
    ASSERT_GE(file, 0);
    ASSERT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(file);
    aclFinalize();
    EXPECT_EQ(aclInit(path.c_str()), 0) << take_message();
    EXPECT_EQ(aclFinalize(), 0);
    std::remove(path.c_str());
}

// Arguments are objects without objects inside.
std::vector<std::string> arguments_of(const std::string& direction) {
    const std::string text = gradusCatalogue(), key = "\"direction\": \"" + direction + "\"";
    std::vector<std::string> found;
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
        const size_t begin = text.rfind('{', at);
        found.push_back(text.substr(begin, text.find('}', at) - begin));
    }
    return found;
}

// What tools need to try any operator without knowing it.
TEST(Catalogue, SaysHowToMakeEverythingUp) {
    const auto has = [](const std::string& argument, const char* key) {
        return argument.find(key) != std::string::npos;
    };
    for (const char* direction : {"input", "attribute"})
        for (const std::string& argument : arguments_of(direction))
            EXPECT_TRUE(has(argument, "\"example\": ") || has(argument, "\"default\": ") ||
                        has(argument, "\"optional\": true"))
                << argument;
    EXPECT_GE(arguments_of("output").size(), 20u);
    for (const std::string& argument : arguments_of("output")) EXPECT_TRUE(has(argument, "\"promise\": ")) << argument;
    const std::string text = gradusCatalogue();
    const auto count = [&text](const std::string& word) {
        int n = 0;
        for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
        return n;
    };
    for (const char* key : {"\"sweep\": [\"", "\"bench\": [{\"", "\"tiny\": \"", "\"limit\": {\"", "\"targets\": {\""})
        EXPECT_EQ(count(key), count("\"family\": ")) << key;
    const std::string scale = "\"scale\": ";  // of a target: where it is not all that is wanted
    for (size_t at = text.find(scale); at != std::string::npos; at = text.find(scale, at + 1)) {
        const double value = std::stod(text.substr(at + scale.size()));
        EXPECT_TRUE(value > 0 && value < 1) << value;
    }
}

TEST(Options, NamesAndValues) {
    EXPECT_STREQ(gradusVersion(), GRADUS_EXPECTED_VERSION);
    EXPECT_STREQ(gradusGetOption("limits"), "on");
    EXPECT_STREQ(gradusGetOption("precision"), "fast");
    EXPECT_STREQ(gradusGetOption("soc_name"), "Ascend910B1");
    EXPECT_STREQ(gradusGetOption("log"), "off");
    EXPECT_GE(std::stoi(gradusGetOption("num_threads")), 1);
    EXPECT_EQ(gradusGetOption("color"), nullptr);
    EXPECT_EQ(gradusGetOption(nullptr), nullptr);
    take_message();
    const struct {
        const char *name, *value, *message;
    } wrong[] = {{"color", "blue", "unknown option 'color', expected one of limits, precision"},
                 {"limits", "maybe", "limits: value 'maybe', expected on or off"},
                 {"precision", "", "expected fast, golden, magnitude, f32"},
                 {"num_threads", "0", "expected a number from 1"},
                 {"num_threads", "2x", "expected a number from 1"},
                 {"max_isa", "sse9", "expected one of what this CPU has: scalar"},
                 {"soc_name", "", "soc_name"},
                 {nullptr, "on", "name: NULL"},
                 {"limits", nullptr, "value: NULL"}};
    for (const auto& row : wrong) {
        EXPECT_EQ(gradusSetOption(row.name, row.value), 100000);
        const std::string message = take_message();
        EXPECT_NE(message.find(row.message), std::string::npos) << message;
    }
    EXPECT_STREQ(gradusGetOption("limits"), "on") << "a refused value changes nothing";
    const Option soc("soc_name", "Ascend310P3");
    EXPECT_STREQ(aclrtGetSocName(), "Ascend310P3");
}

// Mistakes that golden makes on purpose, with what they must give: the softmax of n zeros is 1/n.
TEST(Options, MistakesByTheirNames) {
    Call call("ScaledMaskedSoftmax");
    call.in("x", Array(ACL_FLOAT, {1, 1, 1, 4})).in("mask", Array(ACL_BOOL, {1, 1, 1, 4}));
    call.real("scale", 1).boolean("fixTriuMask", false).out("y", ACL_FLOAT, {1, 1, 1, 4});
    const Option off("limits", "off");
    {
        const Option mistake("mistake", "without a part of the sum [2,4)");
        EXPECT_NE(call.ask().message.find("expected none: only golden makes mistakes"), std::string::npos);
    }
    const Option golden("precision", "golden");
    const std::pair<const char*, double> right[] = {{"none", 1.0 / 4},
                                                    {"without a part of the sum [2,4)", 1.0 / 2},
                                                    {"without a part of the sum [3,4)", 1.0 / 3},
                                                    {"without a part of the sum [2,4) by 3", 1.0 / 3},
                                                    {"without a part of the sum [0,4) by 3", 1.0 / 2},
                                                    {"with a part of the sum twice [3,4)", 1.0 / 5},
                                                    {"without the division by the sum", 1.0}};
    for (const auto& [name, value] : right) {
        const Option mistake("mistake", name);
        EXPECT_EQ(call.run().at("y").at(0), static_cast<double>(static_cast<float>(value))) << name;
    }
    for (const char* name : {"with a part of the sum", "with a part of the sums twice [3,4)", "twice",
                             "with the division by the sum twice", "without a part of the sum [2;4)", "without"}) {
        const Option mistake("mistake", name);
        const Call::Answer answer = call.ask();
        EXPECT_EQ(answer.code, 161002) << name;
        EXPECT_NE(answer.message.find("mistake: '"), std::string::npos) << answer.message;
    }
}

// Golden with fewer bits: exp of a sum of three whose first step is lost where steps are rounded, and of -10.5, which
// is 461.985 of f16's smallest number.
TEST(Options, NarrowPrecisionsByTheirNames) {
    const Option off("limits", "off");
    const auto exp_of_sum = [](const std::vector<double>& terms) {
        const auto n = static_cast<int64_t>(terms.size()) + 1;
        Array x(ACL_DOUBLE, {1, 1, n});
        for (int64_t i = 1; i < n; ++i) x.set(i, terms[static_cast<size_t>(i) - 1]);
        return Call("ExpSegsum").in("self", x).out("out", ACL_DOUBLE, {1, 1, n, n}).run().at("out").at((n - 1) * n);
    };
    const double little = 0x1.8p-9;  // beside 1, three eighths of bf16's unit, and twice that three quarters
    const struct {
        const char* precision;
        std::vector<double> terms;
        double want;
    } cases[] = {{"bf16", {little, 1, little}, 0x1.5ep+1},
                 {"bf16_sums", {little, 1, little}, 0x1.5cp+1},
                 {"bf16_products", {little, 1, little}, 0x1.5ep+1},
                 {"bf16_truncated", {little, 1, little}, 0x1.5ap+1},
                 {"f16", {-10.5}, 462 * 0x1p-24},
                 {"f16_sums", {-10.5}, 462 * 0x1p-24},
                 {"f16_truncated", {-10.5}, 461 * 0x1p-24},
                 {"f32", {-1000}, 0},
                 {"bf16", {88.8}, HUGE_VAL},
                 {"bf16_truncated", {88.5}, 0x1.98p+127}};
    for (const auto& [precision, terms, want] : cases) {
        const Option narrow("precision", precision);
        EXPECT_EQ(exp_of_sum(terms), want) << precision << " " << terms[0];
    }
}

TEST(Options, ProductsByTheirNames) {
    Call call("SwiGlu");
    call.in("x", Array(ACL_FLOAT, {3, 8})).out("out", ACL_FLOAT, {3, 4});
    const std::pair<const char*, int> rows[] = {{"Ascend910B1", 0},   {"910B1", 0},       {"Ascent910B1", 361001},
                                                {"Asc910B1", 361001}, {"d910B1", 361001}, {"Ascend910", 361001},
                                                {"Ascend", 361001},   {"910C", 361001}};
    for (const auto& [name, code] : rows) {
        const Option soc("soc_name", name);
        EXPECT_EQ(call.ask().code, code) << name;
    }
}

TEST(Options, LogTellsAboutALaunch) {
    Call call("SwiGlu");
    call.in("x", Array(ACL_FLOAT, {3, 8})).integer("dim", -1).out("out", ACL_FLOAT, {3, 4});
    ::testing::internal::CaptureStderr();
    {
        const Option log("log", "info");
        call.run();
    }
    const std::string text = ::testing::internal::GetCapturedStderr();
    for (const char* word : {"aclnnSwiGlu", "x[3, 8]:f32", "out[3, 4]:f32", "path ", "workspace 0", "µs"})
        EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
    ::testing::internal::CaptureStderr();
    call.run();
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "nothing is printed unless asked for";
}

TEST(Options, LogTellsAboutErrors) {
    for (const char* level : {"off", "error", "info"}) {
        const Option log("log", level);
        ::testing::internal::CaptureStderr();
        EXPECT_EQ(prepare("SwiGLU", {}).first, 161002);
        const std::string text = ::testing::internal::GetCapturedStderr();
        EXPECT_EQ(text.starts_with("gradus: gradusPrepare: "), std::string(level) != "off") << level << ": " << text;
    }
}

// Run by the test below, too, in a process of its own with another environment.
TEST(Environment, Answers) {
    Call call("SwiGlu");
    call.in("x", Array(ACL_FLOAT, {3, 8})).integer("dim", -1).out("out", ACL_FLOAT, {3, 4});
    const Call::Answer answer = call.ask();
    EXPECT_EQ(answer.code == 0, answer.message.empty());
    std::printf("code %d %s\n", answer.code, answer.message.c_str());
}

TEST(Environment, AWrongValueIsAnError) {
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    ASSERT_GT(length, 0);
    self[length] = '\0';
    const auto answer = [&](const std::string& variable) {
        const std::string command = variable + " '" + self + "' --gtest_filter='*Answers' 2>&1";
        FILE* pipe = popen(command.c_str(), "r");
        std::string output;
        char line[512];
        while (std::fgets(line, sizeof line, pipe) != nullptr) output += line;
        pclose(pipe);
        return output;
    };
    EXPECT_NE(answer("GRADUS_LIMITS=off").find("code 0"), std::string::npos);
    const std::string limits = answer("GRADUS_LIMITS=maybe"), isa = answer("GRADUS_MAX_ISA=abacus");
    EXPECT_NE(limits.find("code 161002 aclnnSwiGlu: GRADUS_LIMITS: value 'maybe', expected on or off"),
              std::string::npos)
        << limits;
    EXPECT_NE(isa.find("GRADUS_MAX_ISA: value 'abacus', expected one of what this CPU has: scalar"), std::string::npos)
        << isa;
}

}  // namespace
}  // namespace gradus::testing
