// gradus.h: all operators as data, and the call by name.
#include <atomic>
#include <cstring>
#include <memory>

#include "aclnn/api.h"
#include "aclnn/phases.h"
#include "base/check.h"
#include "gradus/gradus.h"
#include "ops/catalogue_json.h"
#include "ops/families.h"

namespace gradus {
namespace {

// Calls visit for every operator.
template <typename Visit>
void each_operator(const Visit& visit) {
#define GRADUS_FAMILY(name) \
    for (const Operator& op : name##_operators()) visit(op);
#include "families.inc"
#undef GRADUS_FAMILY
}

Value absent(gradusKind kind) {
    switch (kind) {
        case GRADUS_TENSOR:
            return static_cast<const aclTensor*>(nullptr);
        case GRADUS_INT_ARRAY:
            return static_cast<const aclIntArray*>(nullptr);
        default:
            return static_cast<const char*>(nullptr);
    }
}

Value value_of(const gradusArg& arg) {
    switch (arg.kind) {
        case GRADUS_TENSOR:
            return arg.value.tensor;
        case GRADUS_INT_ARRAY:
            return arg.value.array;
        case GRADUS_INT:
            return arg.value.i;
        case GRADUS_DOUBLE:
            return arg.value.d;
        case GRADUS_BOOL:
            return arg.value.b;
        default:
            return arg.value.s;
    }
}

Text argument_names(const Operator& op) {
    Text names;
    for (const Argument& argument : op.arguments) append(names, names.empty() ? "" : ", ", argument.name);
    return names;
}

// Named arguments into C order.
Status arrange(const Operator& op, std::span<const gradusArg> args, std::vector<Value>& values) {
    std::vector<bool> seen(op.arguments.size());
    for (const Argument& argument : op.arguments) values.push_back(argument.preset.value_or(absent(argument.kind)));
    for (const gradusArg& arg : args) {
        const Text given = arg.name == nullptr ? "NULL" : arg.name;
        const char* const name = given.c_str();
        size_t i = 0;
        while (i < op.arguments.size() && given.view() != op.arguments[i].name) ++i;
        if (i == op.arguments.size()) return invalid(name, "unknown argument, expected one of ", argument_names(op));
        if (seen[i]) return invalid(name, "given twice");
        seen[i] = true;
        const gradusKind wanted = op.arguments[i].kind;
        if (arg.kind != wanted)
            return invalid(name, "kind ",
                           arg.kind <= GRADUS_STRING ? Text(kind_name(arg.kind)) : concat(static_cast<int>(arg.kind)),
                           ", expected ", kind_name(wanted));
        values[i] = value_of(arg);
    }
    for (size_t i = 0; i < values.size(); ++i) {
        const gradusKind kind = op.arguments[i].kind;
        const bool number = kind == GRADUS_INT || kind == GRADUS_DOUBLE || kind == GRADUS_BOOL;
        if (number && !seen[i] && !op.arguments[i].preset)
            return invalid(op.arguments[i].name, "missing, and it has no default");
    }
    return {};
}

const Operator* find_operator(const char* name) {
    const Operator* found = nullptr;
    each_operator([&](const Operator& op) {
        if (name != nullptr && std::strcmp(op.name, name) == 0) found = &op;
    });
    return found;
}

Status unknown_operator(const char* name) {
    Text names;
    each_operator([&](const Operator& op) {
        if (op.listed) append(names, names.empty() ? "" : ", ", op.name);
    });
    return invalid("op", name == nullptr ? "NULL" : name, ", expected one of ", names);
}

// Calls `then` with the operator and its arguments in C order; speaks under the operator's name.
template <typename Then>
aclnnStatus by_name(const char* function, const char* op, const gradusArg* args, uint64_t count, const Then& then,
                    const void* site = __builtin_return_address(0)) {
    const Operator* const found = find_operator(op);
    const auto body = [&]() -> Status {
        if (found == nullptr) return unknown_operator(op);
        if (args == nullptr && count > 0) return {ACLNN_ERR_PARAM_NULLPTR, concat("args: NULL with count ", count)};
        std::vector<Value> values;
        GRADUS_TRY(arrange(*found, {args, static_cast<size_t>(count)}, values));
        return then(*found, values);
    };
    return guarded(found != nullptr ? found->function : function, kAclnn, body, site);
}

std::string all_json() {
    std::string json = "[";
    each_operator([&](const Operator& op) {
        if (op.listed) json += (json.size() == 1 ? "" : ",\n ") + operator_json(op);
    });
    return json + "]\n";
}

// Null: not made yet. Made without a lock or a guard, which a fork could leave shut, and never freed.
constinit std::atomic<const std::string*> catalogue{nullptr};

}  // namespace
}  // namespace gradus

using namespace gradus;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* gradusCatalogue(void) {
    return guarded_value<const char*>(__func__, kAclnn, nullptr, []() -> Result<const char*> {
        const std::string* text = catalogue.load(std::memory_order_acquire);
        if (text == nullptr) {
            auto made = std::make_unique<const std::string>(all_json());
            // whoever comes second finds the first one's in `text`
            if (catalogue.compare_exchange_strong(text, made.get(), std::memory_order_acq_rel)) text = made.release();
        }
        return text->c_str();
    });
}

aclnnStatus gradusPrepare(const char* op, const gradusArg* args, uint64_t count, uint64_t* workspaceSize,
                          aclOpExecutor** executor) {
    return by_name(__func__, op, args, count, [&](const Operator& found, std::span<const Value> values) {
        return make_ready(found, values, workspaceSize, executor);
    });
}

aclnnStatus gradusRun(const char* op, const gradusArg* args, uint64_t count) {
    return by_name(__func__, op, args, count, run_now);
}

aclnnStatus gradusLaunch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
    return launch(nullptr, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
