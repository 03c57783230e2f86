// The interface as C++ sees it, from C++11 on. Compiling is the test.
#include "everything.h"

#include <cstddef>
#include <memory>
#include <type_traits>

#define TYPE(name, same) static_assert(std::is_same<name, same>::value, #name);
#define ENUMERATOR(type, name, number)                                            \
    static_assert(std::is_same<decltype(name), type>::value, #name " of " #type); \
    static_assert(static_cast<int>(name) == (number) && type::name == (name), #name " is not " #number);
#define MACRO(name, number) static_assert((name) == (number), #name " is not " #number);
#define CONSTANT(name, number)                                                       \
    static_assert(std::is_same<decltype(name), const int>::value, "type of " #name); \
    static_assert((name) == (number), #name " is not " #number);
#define CONSTANT_U32(name, number)                                                        \
    static_assert(std::is_same<decltype(name), const uint32_t>::value, "type of " #name); \
    static_assert((name) == (number), #name " is not " #number);
#define FIELD(record, name, same, at)                                                                         \
    static_assert(std::is_same<std::decay<decltype(record::name)>::type, same>::value, #name " of " #record); \
    static_assert(offsetof(record, name) == (at), #name " of " #record);
#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "size of " #type);
#include "numbers.h"

// decltype refuses an overloaded name, and the second declaration one that is not extern "C".
#define SIGNATURE(result, name, arguments)                                                           \
    static_assert(std::is_same<decltype(&name), result(*) arguments>::value, "signature of " #name); \
    extern "C" result name arguments;
// Of the header itself, and so not of C's linkage.
#define INLINE_SIGNATURE(result, name, arguments) \
    static_assert(std::is_same<decltype(&name), result(*) arguments>::value, "signature of " #name);
#include "signatures.h"

using Value = decltype(gradusArg::value);
static_assert(std::is_same<decltype(gradusArg::name), const char*>::value, "");
static_assert(std::is_same<decltype(gradusArg::kind), gradusKind>::value, "");
static_assert(std::is_same<decltype(Value::tensor), const aclTensor*>::value, "");
static_assert(std::is_same<decltype(Value::array), const aclIntArray*>::value, "");
static_assert(std::is_same<decltype(Value::i), int64_t>::value, "");
static_assert(std::is_same<decltype(Value::d), double>::value, "");
static_assert(std::is_same<decltype(Value::b), bool>::value, "");
static_assert(std::is_same<decltype(Value::s), const char*>::value, "");

// An attribute on a prototype would be lost here, which -Wall reports.
std::unique_ptr<void, decltype(&aclrtFree)> device_memory(size_t size) {
    void* memory = nullptr;
    if (aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) memory = nullptr;
    return std::unique_ptr<void, decltype(&aclrtFree)>(memory, &aclrtFree);
}

std::unique_ptr<const aclTensor, decltype(&aclDestroyTensor)> owned(const aclTensor* tensor) {
    return std::unique_ptr<const aclTensor, decltype(&aclDestroyTensor)>(tensor, &aclDestroyTensor);
}
