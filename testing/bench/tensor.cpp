#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "testing/bench/bench.h"
#include "testing/bench/team.h"

namespace gradus::bench {
namespace {

// Splitmix64: a number's bits, thoroughly mixed.
uint64_t mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

// A float is made of its parts: a random sign and fraction, and an exponent of -3 to 1.
template <typename Word>
void fill(std::byte* data, int64_t bytes, int fraction_bits, int bias) {
    constexpr int64_t kBlock = 1 << 16;
    auto* words = reinterpret_cast<Word*>(data);
    const int64_t count = bytes / static_cast<int64_t>(sizeof(Word));
    constexpr int kSign = 8 * sizeof(Word) - 1;
    team().run((count + kBlock - 1) / kBlock, [=](int64_t block) {
        const int64_t end = std::min(count, (block + 1) * kBlock);
        for (int64_t i = block * kBlock; i < end; ++i) {
            const uint64_t random = mixed(static_cast<uint64_t>(i));
            const uint64_t exponent = static_cast<uint64_t>(bias - 3) + (random >> 40) % 5;
            const uint64_t fraction = random & ((uint64_t{1} << fraction_bits) - 1);
            words[i] = static_cast<Word>((random >> 63) << kSign | exponent << fraction_bits | fraction);
        }
        return uint64_t{0};
    });
}

}  // namespace

std::string shape_text(const Shape& shape) {
    std::string text = "[";
    for (const int64_t size : shape) text.append(text.size() > 1 ? "," : "").append(std::to_string(size));
    return text + "]";
}

void check(int code, const char* what) {
    if (code == 0) return;
    const char* message = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(what) + " failed with " + std::to_string(code) +
                             (message == nullptr ? "" : std::string(": ") + message));
}

Tensor::Tensor(const Shape& shape, aclDataType dtype) : memory_(std::make_shared<Memory>()) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    memory_->bytes = count * static_cast<int64_t>(aclDataTypeSize(dtype));
    void* data = nullptr;
    check(aclrtMalloc(&data, static_cast<size_t>(memory_->bytes), ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    memory_->data = static_cast<std::byte*>(data);
    switch (dtype) {
        case ACL_FLOAT:
            fill<uint32_t>(memory_->data, memory_->bytes, 23, 127);
            break;
        case ACL_BF16:
            fill<uint16_t>(memory_->data, memory_->bytes, 7, 127);
            break;
        case ACL_FLOAT16:
            fill<uint16_t>(memory_->data, memory_->bytes, 10, 15);
            break;
        case ACL_BOOL:
        case ACL_UINT8:
        case ACL_INT32:
            std::memset(memory_->data, 0, static_cast<size_t>(memory_->bytes));
            break;
        default:
            throw std::logic_error("Tensor: no random numbers for this dtype");
    }
    memory_->tensor =
        aclCreateTensor(shape.data(), shape.size(), dtype, nullptr, 0, ACL_FORMAT_ND, shape.data(), shape.size(), data);
    if (memory_->tensor == nullptr) throw std::runtime_error("aclCreateTensor failed");
}

Tensor::Memory::~Memory() {
    aclDestroyTensor(tensor);
    if (data != nullptr) aclrtFree(data);
}

}  // namespace gradus::bench
