#include "fuzz/call_bend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "aclnn/acl_meta.h"

namespace gradus::fuzz {
namespace {

constexpr const char* kNames[] = {
    "dtype", "rank", "size",     "stride",         "offset",     "storage",  "format",  "no address", "far",  "twice",
    "null",  "dead", "a number", "another object", "other kind", "left out", "doubled", "misnamed",   "value"};
constexpr int64_t kSizes[] = {0, 1, 2, -1, int64_t{1} << 31, int64_t{1} << 62, INT64_MAX, INT64_MIN};
constexpr int64_t kStrides[] = {0, 1, 2, 3, -1, 4096, int64_t{1} << 40, INT64_MAX};
constexpr int64_t kOffsets[] = {1, 64, -1, int64_t{1} << 20, int64_t{1} << 62, INT64_MAX};
constexpr int64_t kIntegers[] = {-1, 0, 1, 2, 3, 15, 16, 17, 128, int64_t{1} << 31, INT64_MAX, INT64_MIN};
constexpr double kReals[] = {0, -0.0, -1, 1e300, 5e-324, INFINITY, -INFINITY, NAN};
constexpr const char* kTexts[] = {"", "TND", "BSND", "tnd", "TND ", "%s%n"};

template <typename T, size_t kCount>
T nth(const T (&values)[kCount], uint64_t i) {
    return values[i % kCount];
}

// What a live tensor says of itself.
struct Description {
    explicit Description(const aclTensor* tensor) {
        shape = dims(tensor, aclGetViewShape), stride = dims(tensor, aclGetViewStrides);
        storage = dims(tensor, aclGetStorageShape);
        aclGetViewOffset(tensor, &offset), aclGetDataType(tensor, &type), aclGetFormat(tensor, &format);
        aclGetRawTensorAddr(tensor, &address);
    }
    aclTensor* make() const {
        return aclCreateTensor(shape.data(), shape.size(), type, stride.data(), offset, format, storage.data(),
                               storage.size(), address);
    }
    int64_t elements() const {
        int64_t n = 1;
        for (const int64_t dim : storage) n *= dim;
        return n;
    }

    std::vector<int64_t> shape, stride, storage;
    int64_t offset = 0;
    aclDataType type = ACL_FLOAT;
    aclFormat format = ACL_FORMAT_ND;
    void* address = nullptr;

  private:
    template <typename F>
    static std::vector<int64_t> dims(const aclTensor* tensor, F get) {
        int64_t* values = nullptr;
        uint64_t count = 0;
        if (get(tensor, &values, &count) != 0) return {};
        const std::unique_ptr<int64_t[]> owned(values);
        return {values, values + count};
    }
};

}  // namespace

Bend::Bend(Input& in, const testing::Call& call) {
    const std::vector<std::string> names = call.names();
    argument_ = in.pick(names);
    is_tensor_ = std::ranges::any_of(call.tensors, [&](const auto& t) { return t.name == argument_; });
    kind_ = static_cast<Kind>(is_tensor_ ? in.between(0, kKinds - 1) : in.between(kFirstOfAny, kKinds - 1));
    choice_ = in.below(1 << 16), other_ = in.below(256);
    misspelled_ = argument_ + (choice_ % 2 == 0 ? "x" : "");
    if (choice_ % 2 == 1) misspelled_[0] = static_cast<char>(misspelled_[0] ^ 0x20);
}

Bend::~Bend() { give_back(); }

void Bend::give_back() {
    for (const aclTensor* tensor : tensors_) aclDestroyTensor(tensor);
    for (const aclIntArray* array : arrays_) aclDestroyIntArray(array);
    tensors_.clear(), arrays_.clear();
}

std::string Bend::words() const {
    return argument_ + ": " + kNames[kind_] + " " + std::to_string(choice_) + " " + std::to_string(other_);
}

bool Bend::must_be_refused() const {
    return kind_ == dead || kind_ == number || kind_ == other_object || kind_ == other_kind || kind_ == doubled ||
           kind_ == misnamed;
}

void Bend::apply(std::vector<gradusArg>& args) {
    give_back();
    const auto found = std::ranges::find_if(args, [&](const gradusArg& arg) { return argument_ == arg.name; });
    if (found == args.end()) return;
    if (of_tensor())
        bend_tensor(*found, args);
    else
        bend_any(*found, args);
}

void Bend::bend_tensor(gradusArg& arg, const std::vector<gradusArg>& args) {
    Description d(arg.value.tensor);
    const size_t dim = d.shape.empty() ? 0 : choice_ % d.shape.size();
    switch (kind_) {
        case dtype:
            d.type = static_cast<aclDataType>(static_cast<int>(choice_ % 45) - 2);
            break;
        case rank:
            if (choice_ % 3 == 0 && !d.shape.empty()) {
                d.shape.pop_back(), d.stride.pop_back();
            } else {
                d.shape.resize(choice_ % 3 == 1 ? d.shape.size() + 1 : 24, 1);
                d.stride.resize(d.shape.size(), 1);
            }
            break;
        case size:
            if (!d.shape.empty()) d.shape[dim] = other_ % 2 == 0 ? nth(kSizes, other_ / 2) : d.shape[dim] + 1;
            break;
        case stride:
            if (!d.stride.empty()) d.stride[dim] = nth(kStrides, other_);
            break;
        case offset:
            d.offset = nth(kOffsets, other_);
            break;
        case storage:
            d.storage = {other_ % 3 == 0 ? nth(kSizes, choice_) : std::max<int64_t>(d.elements() - 1, 0)};
            break;
        case format:
            d.format = static_cast<aclFormat>(static_cast<int>(choice_ % 56) - 2);
            break;
        case no_address:
            d.address = nullptr;
            break;
        case far_address:  // at the end of its own allocation, or nowhere
            d.address = other_ % 2 == 0 ? static_cast<std::byte*>(d.address) + d.elements() * 8
                                        : reinterpret_cast<void*>(choice_ << (other_ % 48));  // NOLINT
            break;
        default: {  // twice: the first tensor stands here, too
            for (const gradusArg& other : args)
                if (other.kind == GRADUS_TENSOR && other.value.tensor != arg.value.tensor && other.value.tensor) {
                    arg.value.tensor = other.value.tensor;
                    return;
                }
            return;
        }
    }
    aclTensor* const bent = d.make();
    if (bent != nullptr) tensors_.push_back(bent);
    arg.value.tensor = bent;  // NULL where the tensor itself was refused
}

void Bend::bend_any(gradusArg& arg, std::vector<gradusArg>& args) {
    const bool array = arg.kind == GRADUS_INT_ARRAY;
    const int64_t numbers[] = {nth(kIntegers, choice_), nth(kIntegers, other_)};
    switch (kind_) {
        case null:
            if (is_tensor_ || array || arg.kind == GRADUS_STRING) arg.value.tensor = nullptr;
            return;
        case dead:
            if (is_tensor_) {
                aclTensor* const copy = Description(arg.value.tensor).make();
                aclDestroyTensor(copy);
                arg.value.tensor = copy;
            } else {
                aclIntArray* const gone = aclCreateIntArray(numbers, 2);
                aclDestroyIntArray(gone);
                arg.kind = GRADUS_INT_ARRAY, arg.value.array = gone;
            }
            return;
        case number:  // a handle that never was one
            if (!is_tensor_) arg.kind = GRADUS_INT_ARRAY;
            arg.value.tensor = reinterpret_cast<const aclTensor*>((choice_ + 1) << (other_ % 47));  // NOLINT
            return;
        case other_object:
            arrays_.push_back(aclCreateIntArray(numbers, 2));
            if (is_tensor_) {
                arg.value.tensor = reinterpret_cast<const aclTensor*>(arrays_.back());
            } else {
                const int64_t one = 1;
                tensors_.push_back(aclCreateTensor(&one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, nullptr));
                arg.kind = GRADUS_INT_ARRAY;
                arg.value.array = reinterpret_cast<const aclIntArray*>(tensors_.back());
            }
            return;
        case other_kind:
            // within the bits of the enumeration, beyond which the caller has no defined behaviour itself
            arg.kind = static_cast<gradusKind>((static_cast<uint64_t>(arg.kind) + 1 + choice_ % 7) % 8);
            return;
        case left_out:
            args.erase(args.begin() + (&arg - args.data()));
            return;
        case doubled: {
            const gradusArg copy = arg;
            args.push_back(copy);
            return;
        }
        case misnamed:
            arg.name = choice_ % 5 == 4 ? nullptr : misspelled_.c_str();
            return;
        default:
            if (arg.kind == GRADUS_INT) arg.value.i = numbers[0];
            if (arg.kind == GRADUS_DOUBLE) arg.value.d = nth(kReals, choice_);
            if (arg.kind == GRADUS_BOOL) arg.value.b = !arg.value.b;
            if (arg.kind == GRADUS_STRING) arg.value.s = nth(kTexts, choice_);
            if (array) {
                arrays_.push_back(aclCreateIntArray(numbers, other_ % 3));
                arg.value.array = arrays_.back();
            }
    }
}

}  // namespace gradus::fuzz
