// Tensors, arrays, lists, executors, and both phases of every operator.
#include <array>

#include "cases.h"

namespace gradus::faults {
namespace {

constexpr int kNull = 161001, kInvalid = 161002, kDead = 561103;
constexpr auto& kDims = World::kDims;

int64_t not_an_object[8];
template <typename T>
T* bad() {
    return reinterpret_cast<T*>(not_an_object);
}

void add_tensors(Adder add) {
    add.works("aclCreateTensor", [](World& w) {
        return given(aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, nullptr), w.out.tensor);
    });
    add.refuses("aclCreateTensor", kInvalid, "26 dimensions", [](World& w) {
        return given(aclCreateTensor(kDims, 26, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, nullptr), w.out.tensor);
    });
    add.works("aclInitTensor", [](World& w) {
        return aclInitTensor(w.tensor, kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, nullptr);
    });
    add.refuses("aclInitTensor", kNull, "tensor: NULL", [](World&) {
        return aclInitTensor(nullptr, kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, nullptr);
    });
    add.works("aclDestroyTensor", [](World& w) { return aclDestroyTensor(w.tensor); });
    add.refuses("aclDestroyTensor", kNull, "not a live", [](World&) { return aclDestroyTensor(bad<aclTensor>()); });
    add.works("aclGetViewShape", [](World& w) { return aclGetViewShape(w.tensor, &w.out.dims, &w.out.count); });
    add.works("aclGetStorageShape", [](World& w) { return aclGetStorageShape(w.tensor, &w.out.dims, &w.out.count); });
    add.works("aclGetViewStrides", [](World& w) { return aclGetViewStrides(w.tensor, &w.out.dims, &w.out.count); });
    add.refuses("aclGetViewShape", kNull, "not a live",
                [](World& w) { return aclGetViewShape(bad<aclTensor>(), &w.out.dims, &w.out.count); });
    add.works("aclGetViewOffset", [](World& w) { return aclGetViewOffset(w.tensor, &w.out.number); });
    add.refuses("aclGetViewOffset", kNull, "NULL", [](World& w) { return aclGetViewOffset(w.tensor, nullptr); });
    add.works("aclGetFormat", [](World& w) { return aclGetFormat(w.tensor, as<aclFormat>(w.out.code)); });
    add.works("aclGetDataType", [](World& w) { return aclGetDataType(w.tensor, as<aclDataType>(w.out.code)); });
    add.works("aclSetRawTensorAddr", [](World& w) { return aclSetRawTensorAddr(w.tensor, w.device); });
    add.works("aclGetRawTensorAddr", [](World& w) { return aclGetRawTensorAddr(w.tensor, &w.out.address); });
    add.refuses("aclSetRawTensorAddr", kNull, "NULL", [](World&) { return aclSetRawTensorAddr(nullptr, nullptr); });
}

void add_arrays(Adder add) {
    static float number = 1;
    static const float numbers[] = {1, 2, 3};
    static const bool flags[] = {true, false};
    static const int64_t values[] = {16, 32};
    add.works("aclCreateScalar", [](World& w) { return given(aclCreateScalar(&number, ACL_FLOAT), w.out.scalar); });
    add.refuses("aclCreateScalar", kInvalid, "value: NULL",
                [](World& w) { return given(aclCreateScalar(nullptr, ACL_FLOAT), w.out.scalar); });
    add.works("aclDestroyScalar", [](World& w) { return aclDestroyScalar(w.scalar); });
    add.works("aclCreateIntArray", [](World& w) { return given(aclCreateIntArray(values, 2), w.out.ints); });
    add.works("aclCreateFloatArray", [](World& w) { return given(aclCreateFloatArray(numbers, 3), w.out.floats); });
    add.works("aclCreateBoolArray", [](World& w) { return given(aclCreateBoolArray(flags, 2), w.out.bools); });
    add.refuses("aclCreateIntArray", kNull, "value: NULL",
                [](World& w) { return given(aclCreateIntArray(nullptr, 2), w.out.ints); });
    add.works("aclDestroyIntArray", [](World& w) { return aclDestroyIntArray(w.ints); });
    add.works("aclDestroyFloatArray", [](World& w) { return aclDestroyFloatArray(w.floats); });
    add.works("aclDestroyBoolArray", [](World& w) { return aclDestroyBoolArray(w.bools); });
    add.works("aclGetIntArraySize", [](World& w) { return aclGetIntArraySize(w.ints, &w.out.count); });
    add.works("aclGetFloatArraySize", [](World& w) { return aclGetFloatArraySize(w.floats, &w.out.count); });
    add.works("aclGetBoolArraySize", [](World& w) { return aclGetBoolArraySize(w.bools, &w.out.count); });
    add.refuses("aclGetBoolArraySize", kNull, "not a live",
                [](World& w) { return aclGetBoolArraySize(bad<aclBoolArray>(), &w.out.count); });
    add.works("aclCreateTensorList", [](World& w) {
        const aclTensor* const member = w.tensor;
        return given(aclCreateTensorList(&member, 1), w.out.tensors);
    });
    add.works("aclCreateScalarList", [](World& w) {
        const aclScalar* const member = w.scalar;
        return given(aclCreateScalarList(&member, 1), w.out.scalars);
    });
    add.refuses("aclCreateTensorList", kNull, "value: NULL",
                [](World& w) { return given(aclCreateTensorList(nullptr, 1), w.out.tensors); });
    add.works("aclDestroyTensorList", [](World& w) { return aclDestroyTensorList(w.tensors); });
    add.works("aclDestroyScalarList", [](World& w) { return aclDestroyScalarList(w.scalars); });
    add.works("aclGetTensorListSize", [](World& w) { return aclGetTensorListSize(w.tensors, &w.out.count); });
    add.works("aclGetScalarListSize", [](World& w) { return aclGetScalarListSize(w.scalars, &w.out.count); });
    add.refuses("aclGetTensorListSize", kNull, "not a live",
                [](World& w) { return aclGetTensorListSize(bad<aclTensorList>(), &w.out.count); });
}

void with_executor(World& w) { w.make_repeatable_executor(); }

void add_executors(Adder add) {
    const auto with = [](Case& added) { added.prepare = with_executor; };
    with(
        add.works("aclSetAclOpExecutorRepeatable", [](World& w) { return aclSetAclOpExecutorRepeatable(w.executor); }));
    with(add.works("aclDestroyAclOpExecutor", [](World& w) { return aclDestroyAclOpExecutor(w.executor); }));
    with(add.works("aclSetInputTensorAddr",
                   [](World& w) { return aclSetInputTensorAddr(w.executor, 0, w.t[0], w.device); }));
    with(add.works("aclSetOutputTensorAddr",
                   [](World& w) { return aclSetOutputTensorAddr(w.executor, 0, w.t[1], w.device + 64); }));
    with(add.works("aclSetTensorAddr", [](World& w) { return aclSetTensorAddr(w.executor, 0, w.t[0], w.device); }));
    with(add.refuses("aclSetTensorAddr", kInvalid, "out of range",
                     [](World& w) { return aclSetTensorAddr(w.executor, 9, w.t[0], w.device); }));
    with(add.refuses("aclSetDynamicInputTensorAddr", kInvalid, "not a list",
                     [](World& w) { return aclSetDynamicInputTensorAddr(w.executor, 0, 0, w.tensors, w.device); }));
    with(add.refuses("aclSetDynamicOutputTensorAddr", kInvalid, "not a list",
                     [](World& w) { return aclSetDynamicOutputTensorAddr(w.executor, 0, 0, w.tensors, w.device); }));
    add.refuses("aclDestroyAclOpExecutor", kDead, "not alive",
                [](World&) { return aclDestroyAclOpExecutor(bad<aclOpExecutor>()); });
    add.refuses("aclSetInputTensorAddr", kDead, "NULL",
                [](World& w) { return aclSetInputTensorAddr(nullptr, 0, w.t[0], w.device); });
    with(add.works("gradusPath", [](World& w) { return is(gradusPath(w.executor) != nullptr); }));
    add.works("aclnnInit", [](World&) { return aclnnInit(nullptr); });
    add.works("aclnnFinalize", [](World&) { return aclnnFinalize(); });
}

std::array<gradusArg, 3> named_arguments(const World& w, const char* dim) {
    std::array<gradusArg, 3> args{};
    args[0].name = "x", args[0].value.tensor = w.t[0];
    args[1].name = dim, args[1].kind = GRADUS_INT, args[1].value.i = -1;
    args[2].name = "out", args[2].value.tensor = w.t[1];
    return args;
}
int prepare_by_name(World& w, const char* dim) {
    return gradusPrepare("SwiGlu", named_arguments(w, dim).data(), 3, &w.out.size, &w.out.executor);
}

void add_by_name(Adder add) {
    add.works("gradusCatalogue",
              [](World&) { return gradusCatalogue() != nullptr ? 0 : aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL); });
    add.works("gradusPrepare", [](World& w) { return prepare_by_name(w, "dim"); });
    add.refuses("gradusPrepare", kInvalid, "dimm: unknown argument",
                [](World& w) { return prepare_by_name(w, "dimm"); })
        .may_allocate = true;  // to put the arguments in order
    add.refuses("gradusPrepare", kInvalid, "expected one of",
                [](World& w) { return gradusPrepare("SwiGlo", nullptr, 0, &w.out.size, &w.out.executor); });
    add.works("gradusRun", [](World& w) { return gradusRun("SwiGlu", named_arguments(w, "dim").data(), 3); });
    add.refuses("gradusRun", kInvalid, "expected one of", [](World&) { return gradusRun("SwiGlo", nullptr, 0); });
    add.works("gradusLaunch", [](World& w) { return w.run(gradusLaunch, w.executor, w.size, w.stream); }).prepare =
        with_executor;
    add.refuses("gradusLaunch", kNull, "executor: NULL",
                [](World& w) { return gradusLaunch(w.workspace, w.size, nullptr, w.stream); });
}

void add_operator(Adder add, const Operator& op) {
    const auto of_op = [&op](Case& added) -> Case& { return added.op = &op, added; };
    const auto prepare = [&op](World& w) { return op.prepare(w.t, w.lengths, &w.out.size, &w.out.executor); };
    const auto launch = [&op](World& w) { return w.run(op.launch, w.executor, w.size, w.stream); };
    of_op(add.works(op.prepare_name, prepare)).prepare = with_executor;
    of_op(add.works(op.launch_name, launch)).prepare = with_executor;
    of_op(add.works(op.launch_name, launch)).prepare = [](World& w) {
        gradusSetOption("precision", "golden");
        w.make_repeatable_executor();
    };
    of_op(add.works(op.launch_name, [&op](World& w) {
        return w.run(op.launch, w.executor, w.size, nullptr);
    })).prepare = with_executor;  // makes the default stream

    of_op(add.refuses(op.prepare_name, kNull, ": NULL", prepare)).prepare = [](World& w) {
        aclDestroyTensor(w.t[0]);
        w.t[0] = nullptr;
    };
    Case& dead = of_op(add.refuses(op.prepare_name, kNull, "not a live aclTensor", prepare));
    dead.may_allocate = true;  // a place for what the handles stand for
    dead.prepare = [](World& w) { aclDestroyTensor(w.t[0]); };
    Case& type = of_op(add.refuses(op.prepare_name, kInvalid, "dtype int8", prepare));
    type.may_allocate = true;
    type.prepare = [](World& w) {
        aclInitTensor(w.t[0], kDims, 2, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, kDims, 2, w.device);
    };
    of_op(add.refuses(op.launch_name, kNull, "not alive",
                      [&op](World& w) { return op.launch(w.workspace, w.size, bad<aclOpExecutor>(), w.stream); }));
}

}  // namespace

void add_aclnn_cases(Cases& cases) {
    for (const auto add : {add_tensors, add_arrays, add_executors, add_by_name}) add(Adder(cases));
    for (const Operator& op : operators()) add_operator(Adder(cases), op);
}

}  // namespace gradus::faults
