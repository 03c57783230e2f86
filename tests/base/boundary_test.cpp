// Whatever is thrown inside the library, C gets a code and a message. operator new of this program throws on demand.
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "aclnn/aclnn_base.h"
#include "gradus/gradus.h"
#include "testing/prepared.h"

namespace {

enum class Throws { nothing, no_memory, exception, number };
thread_local Throws throws = Throws::nothing;

}  // namespace

// Not inlined: GCC would see free() get what new gave.
[[gnu::noinline]] void* operator new(size_t size) {
    const Throws now = std::exchange(throws, Throws::nothing);
    if (now == Throws::no_memory) throw std::bad_alloc();
    if (now == Throws::exception) throw std::runtime_error("strange");
    if (now == Throws::number) throw 42;
    if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace gradus::testing {
namespace {

struct Row {
    Throws what;
    int aclnn, acl;
    std::string words;
};
const Row kRows[] = {{Throws::no_memory, 361001, 200000, "out of memory"},
                     {Throws::exception, 561000, 500000, "strange"},
                     {Throws::number, 561000, 500000, "an unknown exception"}};

TEST(Boundary, ValuesOfAclnn) {
    const int64_t dims[] = {2, 3};
    for (const Row& row : kRows) {
        take_message();
        aclrtGetLastError(ACL_RT_THREAD_LEVEL);
        throws = row.what;
        aclTensor* const tensor = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
        EXPECT_EQ(std::exchange(throws, Throws::nothing), Throws::nothing) << "nothing was allocated";
        EXPECT_EQ(tensor, nullptr);
        EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), row.aclnn);
        EXPECT_EQ(take_message(), "aclCreateTensor: " + row.words);
    }
}

TEST(Boundary, CodesOfAclnn) {
    const int64_t dims[] = {2, 3};
    aclTensor* const tensor = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
    for (const Row& row : kRows) {
        throws = row.what;
        const int code = aclInitTensor(tensor, dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
        EXPECT_EQ(code, row.aclnn);
        EXPECT_EQ(take_message(), "aclInitTensor: " + row.words);
    }
    EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

TEST(Boundary, CodesOfAcl) {
    int number = 0;
    const auto fresh = [&] { return std::to_string(++number) + " is a name that is long enough to need memory"; };
    const std::string before = gradusGetOption("soc_name");
    for (const Row& row : kRows) {
        const std::string value = fresh();
        throws = row.what;
        EXPECT_EQ(gradusSetOption("soc_name", value.c_str()), row.acl);
        EXPECT_EQ(take_message(), "gradusSetOption: " + row.words);
        EXPECT_EQ(gradusGetOption("soc_name"), before) << "as it was";
        EXPECT_EQ(gradusSetOption("soc_name", value.c_str()), 0) << "and the lock is free";
        EXPECT_EQ(gradusSetOption("soc_name", before.c_str()), 0);
    }
}

// All that a launch needs was made in phase one. The operator is one whose arguments are all tensors, and which has a
// workspace: there is no more to own.
TEST(Boundary, PhaseTwoAllocatesNothing) {
    Random random("no memory");
    Call call("ExpSegsumBackward");
    call.in("gradOutput", random.normals(ACL_FLOAT, {2, 3, 9, 9}))
        .in("gradSelf", random.normals(ACL_FLOAT, {2, 3, 9, 9}), transposed({2, 3, 9, 9}))
        .out("gradInput", ACL_FLOAT, {2, 3, 9});
    const Option off("limits", "off"), one("num_threads", "1");
    Call(call).run();  // what the library makes once is made
    const Prepared p(call);
    ASSERT_EQ(p.code, 0) << take_message();
    ASSERT_GT(p.size, 0u);
    void* workspace = nullptr;
    ASSERT_EQ(aclrtMalloc(&workspace, p.size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    throws = Throws::no_memory;
    const int code = gradusLaunch(workspace, p.size, p.executor, stream());
    EXPECT_EQ(std::exchange(throws, Throws::nothing), Throws::no_memory) << "something was allocated";
    EXPECT_EQ(code, 0) << take_message();
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
    EXPECT_EQ(aclrtFree(workspace), 0);
}

}  // namespace
}  // namespace gradus::testing
