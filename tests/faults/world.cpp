#include "world.h"

#include <pthread.h>

#include <cstring>

#include "testing/runtime.h"

namespace gradus::faults {
namespace {

constexpr unsigned char kUntouched = 0xA5;
constexpr int32_t kSoon = 2000;  // milliseconds: only what never comes takes that long

template <typename T>
bool was_given(T* pointer) {
    T* untouched;
    std::memset(&untouched, kUntouched, sizeof untouched);
    return pointer != untouched && pointer != nullptr;
}

template <typename T>
void keep(int& errors, T code) {
    errors += code != 0 ? 1 : 0;
}

size_t bytes_of(const Operand& operand) {
    size_t bytes = aclDataTypeSize(operand.type);
    for (const int64_t n : operand.dims) bytes *= static_cast<size_t>(n);
    return (bytes + 63) / 64 * 64;
}

bool is_float(aclDataType type) { return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16; }

}  // namespace

World::World(Extent extent, const Operator* op_) : op(op_ != nullptr ? op_ : operators().data()) {
    clear_out();
    if (extent == nothing) return;
    int errors = 0;
    void *p = nullptr, *q = nullptr;
    keep(errors, aclrtSetDevice(0));
    keep(errors, aclrtGetCurrentContext(&home));
    keep(errors, aclrtCreateContext(&context, 0));
    keep(errors, aclrtSetCurrentContext(home));
    keep(errors, aclrtCreateStream(&stream));
    for (aclrtEvent* e : {&event, &event2}) {
        keep(errors, aclrtCreateEvent(e));
        keep(errors, aclrtRecordEvent(*e, stream));
    }
    keep(errors, aclrtCreateEventWithFlag(&awaited, ACL_EVENT_SYNC));
    keep(errors, aclrtMalloc(&p, kBytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    keep(errors, aclrtMalloc(&q, kBytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    keep(errors, aclrtMallocHost(&host, 4096));
    device = static_cast<std::byte*>(p), workspace = static_cast<std::byte*>(q);

    const float numbers[] = {1, 2, 3};
    const int64_t values[] = {16, 32};
    const bool flags[] = {true, false};
    float number = 1;
    const auto make_tensor = [this] {
        return aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, device);
    };
    tensor = make_tensor();
    scalar = aclCreateScalar(&number, ACL_FLOAT);
    ints = aclCreateIntArray(values, 2);
    lengths = aclCreateIntArray(values, 2);
    floats = aclCreateFloatArray(numbers, 3);
    bools = aclCreateBoolArray(flags, 2);
    const aclTensor* const member = make_tensor();
    const aclScalar* const scalar_member = aclCreateScalar(&number, ACL_FLOAT);
    tensors = aclCreateTensorList(&member, 1);
    scalars = aclCreateScalarList(&scalar_member, 1);
    buffer = aclCreateDataBuffer(device, 64);

    size_t at = 0;
    for (size_t i = 0; i < op->operands.size(); ++i) {
        const Operand& o = op->operands[i];
        t[i] = aclCreateTensor(o.dims.data(), o.dims.size(), o.type, nullptr, 0, ACL_FORMAT_ND, o.dims.data(),
                               o.dims.size(), device + at);
        at += bytes_of(o);
    }
    made = errors == 0 && at <= kBytes && tensor && scalar && ints && lengths && floats && bools && tensors &&
           scalars && buffer;
    EXPECT_TRUE(made) << testing::take_message();
    fill_operands();
}

World::~World() {
    // Handles that the call has spent are refused, which is all the same here.
    gradusSetOption("precision", "fast"), gradusSetOption("soc_name", "Ascend910B1");
    if (home != nullptr) aclrtSetCurrentContext(home);
    while (HcclGroupEnd() == 0) {
    }
    if (comm != nullptr) HcclCommDestroy(comm);
    if (was_given(out.comm)) HcclCommDestroy(out.comm);
    if (stream != nullptr) aclrtUnSubscribeReport(pthread_self(), stream);
    for (aclrtEvent e : {event, event2, awaited}) aclrtDestroyEvent(e);  // first: streams may wait for one
    if (was_given(out.event)) aclrtDestroyEvent(out.event);
    for (aclOpExecutor* e : {executor, out.executor})
        if (was_given(e)) aclDestroyAclOpExecutor(e);
    for (aclTensor* x : t)
        if (x != nullptr) aclDestroyTensor(x);
    aclDestroyTensor(tensor), aclDestroyScalar(scalar), aclDestroyIntArray(ints), aclDestroyIntArray(lengths);
    aclDestroyFloatArray(floats), aclDestroyBoolArray(bools), aclDestroyTensorList(tensors);
    aclDestroyScalarList(scalars), aclDestroyDataBuffer(buffer);
    if (was_given(out.tensor)) aclDestroyTensor(out.tensor);
    if (was_given(out.scalar)) aclDestroyScalar(out.scalar);
    if (was_given(out.ints)) aclDestroyIntArray(out.ints);
    if (was_given(out.floats)) aclDestroyFloatArray(out.floats);
    if (was_given(out.bools)) aclDestroyBoolArray(out.bools);
    if (was_given(out.tensors)) aclDestroyTensorList(out.tensors);
    if (was_given(out.scalars)) aclDestroyScalarList(out.scalars);
    if (was_given(out.buffer)) aclDestroyDataBuffer(out.buffer);
    if (was_given(out.dims)) delete[] out.dims;
    for (void* memory : {static_cast<void*>(device), static_cast<void*>(workspace)}) aclrtFree(memory);
    if (was_given(out.device)) aclrtFree(out.device);
    aclrtFreeHost(host);
    if (was_given(out.host)) aclrtFreeHost(out.host);
    if (was_given(out.registered)) aclrtHostUnregister(out.registered);
    if (stream != nullptr) aclrtDestroyStream(stream);
    if (was_given(out.context)) aclrtSetCurrentContext(out.context);
    if (was_given(out.stream)) aclrtDestroyStream(out.stream);
    for (aclrtContext c : {context, out.context})
        if (was_given(c)) aclrtDestroyContext(c);
    aclrtResetDeviceForce(0), aclrtResetDeviceForce(1);
    aclFinalize();
    testing::take_message();
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

void World::clear_out() { std::memset(&out, kUntouched, sizeof out); }

bool World::out_untouched() const {
    Out untouched;
    std::memset(&untouched, kUntouched, sizeof untouched);
    return std::memcmp(&out, &untouched, sizeof out) == 0;
}

const char* World::broken() {
    aclrtContext current = nullptr;
    if (aclrtGetCurrentContext(&current) != 0 || current != home) return "the current context is another one";
    if (aclrtSynchronizeStreamWithTimeout(stream, kSoon) != 0) return "the stream does not come to an end";
    for (aclrtEvent e : {event, event2})
        if (aclrtSynchronizeEventWithTimeout(e, kSoon) != 0) return "an event that was recorded is not reached";
    if (aclrtMemsetAsync(host, 64, 1, 64, stream) != 0 || aclrtSynchronizeDeviceWithTimeout(kSoon) != 0)
        return "the stream takes no work";
    if (aclrtGetLastError(ACL_RT_THREAD_LEVEL) != 0) return "an error stays";
    return "";
}

const char* World::unusable() {
    uint64_t count = 0;
    aclDataType type = ACL_DT_UNDEFINED;
    if (was_given(out.stream) && (aclrtMemsetAsync(host, 64, 1, 64, out.stream) != 0 ||
                                  aclrtSynchronizeStreamWithTimeout(out.stream, kSoon) != 0))
        return "the new stream";
    if (was_given(out.event) &&
        (aclrtRecordEvent(out.event, nullptr) != 0 || aclrtSynchronizeEventWithTimeout(out.event, kSoon) != 0))
        return "the new event";
    for (void* memory : {out.device, out.host, out.registered})
        if (was_given(memory) && aclrtMemset(memory, 4096, 7, 4096) != 0) return "the new memory";
    if (was_given(out.tensor) && (aclGetDataType(out.tensor, &type) != 0 || type != ACL_FLOAT)) return "the new tensor";
    if (was_given(out.ints) && (aclGetIntArraySize(out.ints, &count) != 0 || count != 2)) return "the new array";
    if (was_given(out.floats) && (aclGetFloatArraySize(out.floats, &count) != 0 || count != 3)) return "the new array";
    if (was_given(out.bools) && (aclGetBoolArraySize(out.bools, &count) != 0 || count != 2)) return "the new array";
    if (was_given(out.tensors) && (aclGetTensorListSize(out.tensors, &count) != 0 || count != 1)) return "the new list";
    if (was_given(out.scalars) && (aclGetScalarListSize(out.scalars, &count) != 0 || count != 1)) return "the new list";
    if (was_given(out.buffer) && aclGetDataBufferAddr(out.buffer) != device) return "the new buffer";
    if (was_given(out.dims) && (out.count != 2 || out.dims[1] != (out.dims[0] == 2 ? 3 : 1))) return "the dims";
    if (was_given(out.executor) && run(op->launch, out.executor, out.size, stream) != 0) return "the new executor";
    return "";
}

void World::make_repeatable_executor() {
    int errors = 0;
    keep(errors, op->prepare(t, lengths, &size, &executor));
    keep(errors, aclSetAclOpExecutorRepeatable(executor));
    keep(errors, op->launch(workspace, size, executor, stream));
    keep(errors, aclrtSynchronizeStream(stream));
    EXPECT_EQ(errors, 0) << op->launch_name << ": " << testing::take_message();
    EXPECT_LE(size, kBytes);
    expected.assign(device, device + operand_bytes());
    fill_operands();
}

size_t World::operand_bytes() const {
    size_t bytes = 0;
    for (const Operand& o : op->operands) bytes += bytes_of(o);
    return bytes;
}

// Numbers about 0.01, indices and flags 0; outputs as no result is.
void World::fill_operands() {
    std::byte* at = device;
    for (const Operand& o : op->operands) {
        std::memset(at, o.output ? 0xFF : is_float(o.type) ? 0x3C : 0, bytes_of(o));
        at += bytes_of(o);
    }
}

int World::run(Launch launch, aclOpExecutor* with, uint64_t its_size, aclrtStream on) const {
    if (const int code = launch(workspace, its_size, with, on); code != 0) return code;
    if (const int code = aclrtSynchronizeStream(on); code != 0) return code;
    return expected.empty() || std::memcmp(device, expected.data(), expected.size()) == 0 ? 0 : -1;
}

}  // namespace gradus::faults
