#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gradus/gradus.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

TEST(Init, CountsAndCycles) {
    uint64_t count = 99;
    EXPECT_EQ(aclFinalize(), 100037);
    EXPECT_EQ(aclFinalizeReference(&count), 100037);
    EXPECT_EQ(count, 0u);
    for (int cycle = 0; cycle < 3; ++cycle) {
        EXPECT_EQ(aclInit(nullptr), 0);
        EXPECT_EQ(aclInit(""), 100002);
        EXPECT_EQ(aclInit("/nonexistent"), 100002);
        EXPECT_EQ(aclFinalizeReference(&count), 0);
        EXPECT_EQ(count, 2u);
        EXPECT_EQ(aclFinalizeReference(nullptr), 0);
        EXPECT_EQ(aclFinalize(), 0);
        EXPECT_EQ(aclFinalize(), 100037);
    }
}

int init_with(const std::string& text) {
    const std::string path = ::testing::TempDir() + "gradus_init_test.json";
    std::ofstream(path) << text;
    const int code = aclInit(path.c_str());
    if (code == 0) aclFinalize();
    std::remove(path.c_str());
    return code;
}

TEST(Init, ReadsJson) {
    EXPECT_EQ(aclInit("/nonexistent/acl.json"), 100003);
    expect_message("aclInit", "configPath: cannot read '/nonexistent/acl.json'");
    EXPECT_EQ(aclInit(::testing::TempDir().c_str()), 100003);
    for (const char* good : {"{}", " {\"dump\": {\"dump_path\": \"/tmp\", \"n\": [1, -2.5e+3, true, false, null]}}\n",
                             "[]", "0", "\"\\u00e9\\n\\\"\\\\\"", "{\"a\":[{\"b\":[]},{}]}"})
        EXPECT_EQ(init_with(good), 0) << good;
    for (const char* bad : {"",    "{",       "}",         "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]",       "[1 2]",
                            "01",  "1.",      ".5",        "1e",      "-",        "tru",        "nul",        "'a'",
                            "\"a", "\"\\x\"", "\"\\u12\"", "{a:1}",   "{} {}",    "\"\n\"",     "{\"a\":1}}", "\"\\"})
        EXPECT_EQ(init_with(bad), 100006) << bad;
    EXPECT_EQ(init_with("{\"a\":,}"), 100006);
    expect_message("aclInit", "is not JSON at byte 5");
    EXPECT_EQ(init_with(std::string("{}\0", 3)), 100006);
    EXPECT_EQ(init_with(std::string(100, '[') + std::string(100, ']')), 0);
    EXPECT_EQ(init_with(std::string(101, '[') + std::string(101, ']')), 100006);
    EXPECT_EQ(init_with(std::string(1000000, '[')), 100006);  // deep, but not the end of our stack
}

TEST(Init, EnvironmentIsChecked) {
    EXPECT_EQ(run_helper("init"), 0);
    for (const char* wrong :
         {"GRADUS_LIMITS=maybe", "GRADUS_DEVICES=0", "GRADUS_NUM_THREADS=many", "GRADUS_MAX_ISA=mmx"})
        EXPECT_EQ(run_helper("init", wrong), 1) << wrong;
}

TEST(Init, NothingAsksForIt) {
    void* p = nullptr;
    EXPECT_EQ(aclrtSetDevice(0), 0);
    EXPECT_EQ(aclrtMalloc(&p, 32, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_EQ(aclInit(nullptr), 0);
    EXPECT_EQ(aclrtResetDevice(0), 0);
    EXPECT_EQ(aclFinalize(), 0);
    EXPECT_EQ(aclrtFree(p), 0);  // finalised, no context
}

TEST(Errors, BelongToTheThread) {
    take_message();
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
    EXPECT_EQ(aclrtFree(nullptr), 100000);
    EXPECT_EQ(aclrtSetDevice(99), 107001);
    std::thread([] {
        EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
        EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    }).join();
    EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 107001);
    EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 107001);
    EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    const std::string both = take_message();
    EXPECT_LT(both.find("aclrtSetDevice: deviceId: 99"), both.find("aclrtFree: devPtr: NULL"));
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST(Options, SetAndGet) {
    EXPECT_STREQ(gradusVersion(), GRADUS_EXPECTED_VERSION);
    EXPECT_STREQ(gradusGetOption("limits"), "on");
    EXPECT_EQ(gradusGetOption("colour"), nullptr);
    EXPECT_EQ(gradusGetOption(nullptr), nullptr);
    EXPECT_EQ(gradusSetOption("limits", "off"), 0);
    EXPECT_STREQ(gradusGetOption("limits"), "off");
    EXPECT_EQ(gradusSetOption("limits", "maybe"), 100000);
    expect_message("gradusSetOption", "on or off");
    EXPECT_EQ(gradusSetOption("colour", "red"), 100000);
    expect_message("gradusSetOption", "limits, precision, mistake, memory, num_threads, max_isa, soc_name, log");
    EXPECT_EQ(gradusSetOption(nullptr, "on"), 100000);
    EXPECT_EQ(gradusSetOption("limits", nullptr), 100000);
    EXPECT_EQ(gradusSetOption("limits", "on"), 0);
    EXPECT_EQ(gradusSetOption("soc_name", "Ascend310P3"), 0);
    EXPECT_STREQ(aclrtGetSocName(), "Ascend310P3");
    EXPECT_EQ(gradusSetOption("soc_name", "Ascend910B1"), 0);
}

// In a process of its own: it is looked for once, by the first call.
TEST(Foreign, RealCannIsNamedInsteadOfMixedWith) {
    EXPECT_EQ(run_helper("foreign", "GRADUS_FOREIGN=" GRADUS_FOREIGN), 0);
}

// Where links cannot be kept, our own library may lie there under CANN's name.
TEST(Foreign, OurOwnFileMayHaveTheName) {
    Dl_info own;
    ASSERT_NE(dladdr(reinterpret_cast<void*>(&aclInit), &own), 0);
    const std::filesystem::path folder = ::testing::TempDir() + "gradus_own_" + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    std::filesystem::copy_file(own.dli_fname, folder / "libascendcl.so");
    std::filesystem::create_symlink("libascendcl.so", folder / "libgradus.so.0");
    EXPECT_EQ(run_helper("init", "LD_LIBRARY_PATH=" + folder.string()), 0);
    std::filesystem::remove_all(folder);
}

TEST(Half, SaturatesInsteadOfIeee) {
    EXPECT_EQ(aclFloat16ToFloat(0x3C00), 1.0F);
    EXPECT_EQ(aclFloat16ToFloat(0xC000), -2.0F);
    EXPECT_EQ(aclFloat16ToFloat(0x0001), std::ldexp(1.0F, -24));
    EXPECT_EQ(aclFloat16ToFloat(0x7BFF), 65504.0F);
    EXPECT_EQ(aclFloat16ToFloat(0x7C00), 65536.0F);
    EXPECT_EQ(aclFloat16ToFloat(0xFC00), -65536.0F);
    EXPECT_TRUE(std::isfinite(aclFloat16ToFloat(0x7E00)));
    for (float big : {65520.0F, 1e10F, INFINITY, NAN}) EXPECT_EQ(aclFloatToFloat16(big), 0x7BFF) << big;
    EXPECT_EQ(aclFloatToFloat16(-INFINITY), 0xFBFF);
    EXPECT_EQ(aclFloatToFloat16(-0.0F), 0x8000);
    EXPECT_EQ(aclFloatToFloat16(65519.99F), 0x7BFF);
    EXPECT_EQ(aclFloatToFloat16(2049.0F), 0x6800);           // a tie: to even, down
    EXPECT_EQ(aclFloatToFloat16(2051.0F), 0x6802);           // a tie: to even, up
    EXPECT_EQ(aclFloatToFloat16(std::ldexp(1.0F, -25)), 0);  // a tie with zero
    EXPECT_EQ(aclFloatToFloat16(std::ldexp(1.5F, -25)), 1);
    EXPECT_EQ(aclFloatToFloat16(std::ldexp(2047.0F, -25)), 0x0400);  // rounds up into the normal numbers
    EXPECT_EQ(aclFloatToFloat16(1e-30F), 0);
    EXPECT_EQ(aclFloatToFloat16(std::ldexp(1.0F, -149)), 0);
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {  // every finite half comes back
        if ((bits & 0x7C00) == 0x7C00) continue;
        ASSERT_EQ(aclFloatToFloat16(aclFloat16ToFloat(static_cast<aclFloat16>(bits))), bits);
    }
}

TEST(DataTypes, Sizes) {
    for (aclDataType type :
         {ACL_BOOL, ACL_INT8, ACL_UINT8, ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0,
          // and narrower ones, stored one a byte
          ACL_FLOAT6_E3M2, ACL_FLOAT6_E2M3, ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2, ACL_INT4, ACL_UINT1})
        EXPECT_EQ(aclDataTypeSize(type), 1u);
    for (aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_INT16, ACL_UINT16}) EXPECT_EQ(aclDataTypeSize(type), 2u);
    for (aclDataType type : {ACL_FLOAT, ACL_INT32, ACL_UINT32, ACL_COMPLEX32}) EXPECT_EQ(aclDataTypeSize(type), 4u);
    for (aclDataType type : {ACL_DOUBLE, ACL_INT64, ACL_UINT64, ACL_COMPLEX64}) EXPECT_EQ(aclDataTypeSize(type), 8u);
    EXPECT_EQ(aclDataTypeSize(ACL_COMPLEX128), 16u);
    EXPECT_EQ(aclDataTypeSize(ACL_STRING), 0u);
    EXPECT_EQ(aclDataTypeSize(ACL_DT_UNDEFINED), 0u);
}

}  // namespace
}  // namespace gradus::testing
