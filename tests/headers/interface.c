// The interface as C11 sees it. Compiling is the test.
#include "everything.h"

#include <stddef.h>

#define TYPE(name, same) _Static_assert(_Generic((name*)0, same * : 1, default : 0), #name);
#define ENUMERATOR(type, name, value) \
    _Static_assert((name) == (value) && sizeof(type) == sizeof(int), #name " is not " #value);
#define MACRO(name, value) _Static_assert((name) == (value), #name " is not " #value);
// Not a constant expression in C; interface.cpp checks the value.
#define CONSTANT(name, value) _Static_assert(_Generic(&(name), const int* : 1, default : 0), #name);
#define CONSTANT_U32(name, value) _Static_assert(_Generic(&(name), const uint32_t* : 1, default : 0), #name);
#define FIELD(record, name, type, at)                                                                     \
    _Static_assert(_Generic(((record*)0)->name, type : 1, default : 0) && offsetof(record, name) == (at), \
                   #name " of " #record);
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type);
#include "numbers.h"

#define SIGNATURE(result, name, arguments) \
    _Static_assert(_Generic(&name, result(*) arguments : 1, default : 0), "signature of " #name);
#define INLINE_SIGNATURE SIGNATURE
#include "signatures.h"

// A program in C fills in arguments by their kind.
gradusArg tensor_argument(const char* name, const aclTensor* tensor) {
    gradusArg argument = {.name = name, .kind = GRADUS_TENSOR, .value = {.tensor = tensor}};
    return argument;
}
