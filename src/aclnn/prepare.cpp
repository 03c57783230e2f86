// Phase one.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "aclnn/api.h"
#include "aclnn/executor.h"
#include "aclnn/phases.h"
#include "base/check.h"
#include "runtime/float_environment.h"
#include "runtime/foreign.h"

namespace gradus {
namespace {

// "with X twice", of the known "without X".
bool is_twice(std::string_view name, std::string_view known) {
    constexpr std::string_view kWith = "with ", kWithout = "without ", kTwice = " twice";
    return name.starts_with(kWith) && name.ends_with(kTwice) && known.starts_with(kWithout) &&
           name.substr(kWith.size(), name.size() - kWith.size() - kTwice.size()) == known.substr(kWithout.size());
}

// "with 0.1 added to the sum", of the known "with # added to the sum".
std::optional<double> amount_of(std::string_view name, std::string_view known) {
    const size_t mark = known.find('#');
    if (mark == std::string_view::npos || name.size() < known.size()) return {};
    const std::string_view before = known.substr(0, mark), after = known.substr(mark + 1);
    if (!name.starts_with(before) || !name.ends_with(after)) return {};
    const char* const begin = name.data() + before.size();
    const char* const end = name.data() + name.size() - after.size();
    double amount = 0;
    const auto [last, error] = std::from_chars(begin, end, amount);
    if (error != std::errc() || last != end || !std::isfinite(amount)) return {};
    return amount;
}

}  // namespace

Product product_of(const char* soc_name) {
    const char* name = std::strncmp(soc_name, "Ascend", 6) == 0 ? soc_name + 6 : soc_name;
    const auto begins = [name](const char* prefix) { return std::strncmp(name, prefix, std::strlen(prefix)) == 0; };
    if (begins("910B")) return Product::a2;
    if (begins("910_93")) return Product::a3;
    if (begins("910_95")) return Product::p910_95;
    if (begins("310P")) return Product::inference;
    return Product::unknown;
}

class Preparation {
  public:
    Preparation(const Operator& op, std::span<const Value> values) : op_(op), values_(values) {}

    Status check_nulls() const {
        for (size_t i = 0; i < values_.size(); ++i) {
            const Argument& argument = op_.arguments[i];
            const bool pointer =
                argument.is_tensor() || argument.kind == GRADUS_INT_ARRAY || argument.kind == GRADUS_STRING;
            if (pointer && !argument.optional) GRADUS_TRY(not_null(kAclnn, argument.name, values_[i].tensor));
        }
        if (const int i = op_.missing != nullptr ? op_.missing(values_) : -1; i >= 0)
            return {ACLNN_ERR_PARAM_NULLPTR,
                    concat(op_.arguments[static_cast<size_t>(i)].name, ": NULL, expected with the other arguments")};
        return {};
    }

    Result<std::shared_ptr<Executor>> run(const Result<Config>& config) const {
        if (!config.ok()) return Status(ACLNN_ERR_PARAM_INVALID, config.status().message());
        GRADUS_TRY(check_no_foreign_cann(ACLNN_ERR_INNER));
        Config options = *config;
        GRADUS_TRY(find_mistake(options));
        Call call(values_, options);
        if (config->limits) GRADUS_TRY(check_product(config->soc_name));
        GRADUS_TRY(resolve(call));
        for (size_t i = 0; i < values_.size(); ++i)
            if (call.tensors_[i]) GRADUS_TRY(check_tensor(op_.arguments[i], call.tensors_[i]->view, *config));
        GRADUS_TRY(check_doubles(call));
        GRADUS_TRY(op_.check(call));

        Planned planned = op_.plan(call);
        if (planned.scratch.overflow()) return Status(ACLNN_ERR_RUNTIME_ERROR, "the workspace would exceed 2^63 bytes");
        return make_executor(call, std::move(planned));
    }

  private:
    // "without delta", "with 0.1 added to the sum", or of a sum "without a part of the sum [112,128)", "with a part of
    // the sum twice [112,128)", "without a part of the sum [15,128) by 16".
    Status find_mistake(Config& options) const {
        std::string_view name = options.mistake;
        if (name == "none") return {};
        if (!options.golden())
            return invalid("mistake", "'", name, "', expected none: only golden makes mistakes on purpose");
        Mistake& found = options.known_mistake;
        if (const size_t bracket = name.rfind(" ["); bracket != std::string_view::npos) {
            long long begin = 0, end = 0, step = 1;
            if (std::sscanf(options.mistake + bracket, " [%lld,%lld) by %lld", &begin, &end, &step) < 2 || step < 1)
                return invalid("mistake", "'", name, "', expected [begin,end) or [begin,end) by step after the name");
            found.begin = begin, found.end = end, found.step = step;
            name = name.substr(0, bracket);
        }
        Text names;
        for (const NamedMistake& known : op_.trials->mistakes) {
            if (known.golden == 0) continue;
            const bool sum = *known.terms != '\0';
            found.twice = sum && is_twice(name, known.name);
            const std::optional<double> amount = amount_of(name, known.name);
            found.amount = amount.value_or(0);
            if (found.twice || amount || name == known.name) return found.which = known.golden, Status();
            append(names, ", '", known.name, "'");
        }
        return invalid("mistake", "'", name, "', expected none", names);
    }

    Status check_product(const char* soc_name) const {
        const Product product = product_of(soc_name);
        const Products& listed = op_.products;
        if ((product == Product::a2 && listed.a2) || (product == Product::a3 && listed.a3) ||
            (product == Product::p910_95 && listed.p910_95) || (product == Product::inference && listed.inference))
            return {};
        return {ACLNN_ERR_RUNTIME_ERROR, concat("not supported by the product ", soc_name,
                                                " (a limit of the device: GRADUS_LIMITS=off lifts it)")};
    }

    Status resolve(Call& call) const {
        for (size_t i = 0; i < values_.size(); ++i) {
            const Value& value = values_[i];
            const char* name = op_.arguments[i].name;
            if (value.kind == GRADUS_TENSOR && value.tensor != nullptr) {
                call.tensors_[i] = Tensors::instance().find(value.tensor);
                if (!call.tensors_[i]) return {ACLNN_ERR_PARAM_NULLPTR, concat(name, ": not a live aclTensor")};
            } else if (value.kind == GRADUS_INT_ARRAY && value.array != nullptr) {
                call.arrays_.resize(values_.size());
                call.arrays_[i] = IntArrays::instance().find(value.array);
                if (!call.arrays_[i]) return {ACLNN_ERR_PARAM_NULLPTR, concat(name, ": not a live aclIntArray")};
            }
        }
        return {};
    }

    // What holds for every tensor of every operator.
    Status check_tensor(const Argument& argument, const TensorView& view, const Config& config) const {
        GRADUS_TRY(check_dtype(argument, view, config.golden()));
        GRADUS_TRY(check_format(argument.name, view.format));
        if (const Status extent = check_extent(view); !extent.ok())
            return {extent.code(), concat(argument.name, ": ", extent.message())};
        if (argument.direction == Direction::output && overlaps_itself(view))
            return invalid(argument.name, "elements of the view ", shape_text(view),
                           " share addresses, expected an output without overlap");
        return {};
    }

    Status check_dtype(const Argument& argument, const TensorView& view, bool golden) const {
        const bool is_double = argument.is_float() && view.dtype == DType::f64;
        if (is_double && golden) return {};
        Status status = expect_dtype(argument.name, view, argument.dtypes);
        if (!is_double) return status;
        return {status.code(), concat(status.message(), " (f64 only with precision golden or magnitude)")};
    }

    // f64 is for all float arguments, or for all float outputs.
    Status check_doubles(const Call& call) const {
        const auto first_double = [&](Direction direction) {
            for (size_t i = 0; i < values_.size(); ++i)
                if (call.tensors_[i] && op_.arguments[i].direction == direction &&
                    call.tensors_[i]->view.dtype == DType::f64)
                    return op_.arguments[i].name;
            return static_cast<const char*>(nullptr);
        };
        const char* const of_inputs = first_double(Direction::input);
        if (call.config.narrow() && of_inputs == nullptr)
            return invalid("precision", call.config.golden_path(), ", expected with f64 for all float arguments");
        const char* const any = of_inputs != nullptr ? of_inputs : first_double(Direction::output);
        if (any == nullptr) return {};
        for (size_t i = 0; i < values_.size(); ++i) {
            const Argument& argument = op_.arguments[i];
            const bool asked = argument.is_float() && (of_inputs != nullptr || argument.direction == Direction::output);
            if (asked && call.tensors_[i] && call.tensors_[i]->view.dtype != DType::f64)
                return invalid(argument.name, "dtype ", dtype_name(call.tensors_[i]->view.dtype), ", expected f64 as ",
                               any);
        }
        return {};
    }

    Status check_format(const char* argument, aclFormat format) const {
        switch (format) {
            case ACL_FORMAT_ND:
                return {};
            case ACL_FORMAT_NCHW:
            case ACL_FORMAT_NHWC:
            case ACL_FORMAT_HWCN:
            case ACL_FORMAT_NCDHW:
            case ACL_FORMAT_NDHWC:
            case ACL_FORMAT_NC:
            case ACL_FORMAT_NCL:
                if (op_.takes_labels) return {};
                [[fallthrough]];
            default:
                return invalid(argument, "format ", static_cast<int>(format), ", expected ND (2)");
        }
    }

    std::shared_ptr<Executor> make_executor(const Call& call, Planned planned) const {
        auto executor = std::make_shared<Executor>();
        executor->op = &op_;
        executor->limits = call.config.limits;
        executor->memory = call.config.memory;
        executor->slots.resize(values_.size());
        for (size_t i = 0; i < values_.size(); ++i)
            if (const auto& tensor = call.tensors_[i]) executor->slots[i] = {tensor, tensor->view.extent(), {}};
        if (log_enabled(LogLevel::info)) executor->summary = std::make_shared<const Text>(summarise(call, planned));
        executor->task = std::make_unique<LaunchTask>(values_.size());
        executor->planned = std::make_shared<const Planned>(std::move(planned));
        return executor;
    }

    Text summarise(const Call& call, const Planned& planned) const {
        Text text = op_.function;
        for (size_t i = 0; i < values_.size(); ++i)
            if (call.tensors_[i])
                append(text, " ", op_.arguments[i].name, shape_text(call.tensors_[i]->view), ":",
                       dtype_name(call.tensors_[i]->view.dtype));
        append(text, " path ", planned.path);
        if (*planned.why != '\0') append(text, " (", planned.why, ")");
        append(text, " workspace ", planned.scratch.bytes());
        return text;
    }

    const Operator& op_;
    std::span<const Value> values_;
};

namespace {

void tell_prepared(Executor& executor, const void* handle, std::span<const Value> values) {
    executor.handle = handle;
    std::vector<const void*> tensors(values.size());
    for (size_t i = 0; i < values.size(); ++i)
        if (values[i].kind == GRADUS_TENSOR) tensors[i] = values[i].tensor;
    const Lock lock = hold();
    observe([&](Observer& o) { o.on_prepare(handle, tensors); });
}

}  // namespace

Status make_ready(const Operator& op, std::span<const Value> values, uint64_t* workspace_size,
                  aclOpExecutor** executor) {
    observe([](Observer& o) { o.on_phase_one(); });
    // plans hold numbers that are computed here, which must not depend on the caller's rounding
    const DefaultFloatEnvironment environment;
    const Preparation preparation(op, values);
    GRADUS_TRY(preparation.check_nulls());
    GRADUS_TRY(not_null(kAclnn, "workspaceSize", workspace_size));
    GRADUS_TRY(not_null(kAclnn, "executor", static_cast<const void*>(executor)));
    const Result<std::shared_ptr<Executor>> made = preparation.run(config());
    if (!made.ok()) return made.status();
    const auto bytes = static_cast<uint64_t>((*made)->planned->scratch.bytes());
    *executor = static_cast<aclOpExecutor*>(Executors::instance().add(*made));
    if (observed()) tell_prepared(**made, *executor, values);
    *workspace_size = bytes;
    return {};
}

Status run_now(const Operator& op, std::span<const Value> values) {
    const DefaultFloatEnvironment environment;
    const Preparation preparation(op, values);
    GRADUS_TRY(preparation.check_nulls());
    const Result<std::shared_ptr<Executor>> made = preparation.run(config_without_device());
    return made.ok() ? run_here(**made) : made.status();
}

aclnnStatus prepare(const Operator& op, std::span<const Value> values, uint64_t* workspace_size,
                    aclOpExecutor** executor, const void* site) noexcept {
    const auto phase_one = [&] { return make_ready(op, values, workspace_size, executor); };
    return guarded(op.function, kAclnn, phase_one, site);
}

}  // namespace gradus
