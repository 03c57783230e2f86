// What a call may need, made anew for every try and undone after it, whatever the call has done to it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "gradus/gradus.h"
#include "hccl/hccl.h"

namespace gradus::faults {

struct Operand {
    aclDataType type;
    std::vector<int64_t> dims;
    bool output = false;
};
using Tensors = std::array<aclTensor*, 12>;
using Launch = aclnnStatus (*)(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream);

// A small legal call of an operator through its own two functions.
struct Operator {
    const char *prepare_name, *launch_name;
    std::vector<Operand> operands;
    aclnnStatus (*prepare)(const Tensors& t, const aclIntArray* lengths, uint64_t* size, aclOpExecutor** executor);
    Launch launch;
};
const std::vector<Operator>& operators();

// What a call gives back. A refused one leaves all of it as it was.
struct Out {
    aclrtContext context;
    aclrtStream stream;
    aclrtEvent event;
    void *device, *host, *registered, *address;
    aclTensor* tensor;
    aclScalar* scalar;
    aclIntArray* ints;
    aclFloatArray* floats;
    aclBoolArray* bools;
    aclTensorList* tensors;
    aclScalarList* scalars;
    aclDataBuffer* buffer;
    aclOpExecutor* executor;
    uint64_t size;  // of the executor's workspace
    int64_t* dims;
    uint64_t count;
    int64_t number, number2;
    int32_t code, code2, code3;  // and enumerators
    float real;
    aclrtPtrAttributes attributes;
    HcclComm comm;
};

struct World {
    enum Extent { nothing, everything };  // nothing: a process that has called no function before

    explicit World(Extent extent, const Operator* op = nullptr);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    static constexpr size_t kBytes = size_t{1} << 20;  // of all operands, and of the workspace
    static constexpr int64_t kDims[] = {2, 3};

    void clear_out();
    bool out_untouched() const;
    // Empty, or what does not work (any more): streams, events, the current context.
    const char* broken();
    // Empty, or what a call gave back and cannot be used.
    const char* unusable();
    // An executor of the operator that was launched before, so that the next launch needs memory.
    void make_repeatable_executor();
    // Launches, waits, and compares with the launch before: the code, or −1 for other results.
    int run(Launch launch, aclOpExecutor* with, uint64_t its_size, aclrtStream on) const;

    const Operator* op;
    bool made = false;
    aclrtContext home = nullptr, context = nullptr;
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr, event2 = nullptr;  // recorded and reached
    aclrtEvent awaited = nullptr;                  // of the kind that can be waited for before it is recorded
    std::byte *device = nullptr, *workspace = nullptr;
    void* host = nullptr;
    aclTensor* tensor = nullptr;
    aclScalar* scalar = nullptr;
    aclIntArray *ints = nullptr, *lengths = nullptr;
    aclFloatArray* floats = nullptr;
    aclBoolArray* bools = nullptr;
    aclTensorList* tensors = nullptr;
    aclScalarList* scalars = nullptr;
    aclDataBuffer* buffer = nullptr;
    Tensors t{};                        // the operator's
    aclOpExecutor* executor = nullptr;  // repeatable
    uint64_t size = kBytes;             // of the workspace
    std::vector<std::byte> expected;    // the operands after a run
    HcclComm comm = nullptr;
    HcclRootInfo info{};
    HcclCommConfig config{};
    char name[128] = {};
    Out out;

  private:
    void fill_operands();
    size_t operand_bytes() const;
};

}  // namespace gradus::faults
