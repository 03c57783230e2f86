#include "testing/call.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "testing/prepared.h"

namespace gradus::testing {
namespace {

aclrtStream opened = nullptr;

aclrtStream open_stream() {
    aclInit(nullptr);
    if (aclrtSetDevice(0) != 0 || aclrtCreateStream(&opened) != 0) ADD_FAILURE() << take_message();
    return opened;
}

// Nothing is left when the tests are over, or each of them would have a leak.
class ClosesTheStream : public ::testing::Environment {
    void TearDown() override {
        if (opened == nullptr) return;
        EXPECT_EQ(aclrtSetDevice(0), 0) << take_message();
        EXPECT_EQ(aclrtDestroyStream(opened), 0) << take_message();
        EXPECT_EQ(aclrtResetDevice(0), 0) << take_message();
    }
};
[[maybe_unused]] const auto* const at_the_end = ::testing::AddGlobalTestEnvironment(new ClosesTheStream);

}  // namespace

Option::Option(const char* name, const std::string& value) : name_(name), before_(gradusGetOption(name)) {
    EXPECT_EQ(gradusSetOption(name, value.c_str()), 0) << take_message();
}

Option::~Option() { EXPECT_EQ(gradusSetOption(name_.c_str(), before_.c_str()), 0) << take_message(); }

std::vector<std::string> instruction_sets() {
    static const std::vector<std::string> found = [] {
        const std::string best = gradusGetOption("max_isa");
        std::vector<std::string> isas;
        for (const char* isa : {"scalar", "neon", "avx2", "avx512", "avx512_bf16", "amx"}) {
            if (gradusSetOption("max_isa", isa) == 0) isas.emplace_back(isa);
            if (isa == best) break;  // GRADUS_MAX_ISA: those within it
        }
        take_message();  // of those it has not
        gradusSetOption("max_isa", best.c_str());
        return isas;
    }();
    return found;
}

aclrtStream stream() {
    static aclrtStream const the_one = open_stream();
    return the_one;
}

GuardedPages::GuardedPages(size_t bytes, bool at_end) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inside = std::max(page, (bytes + page - 1) / page * page);
    mapped_ = inside + 2 * page;
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + page, inside, PROT_READ | PROT_WRITE), 0);
    data_ = at_end ? base_ + page + inside - bytes : base_ + page;
}

GuardedPages::~GuardedPages() { munmap(base_, mapped_); }

Call& Call::in(const std::string& name, const Array& values, std::optional<Layout> where) {
    tensors.push_back({name, values, where.value_or(dense(values.shape)), false, {}, {}});
    return *this;
}

Call& Call::out(const std::string& name, aclDataType type, const Shape& shape, std::optional<Layout> where) {
    tensors.push_back({name, Array(type, shape), where.value_or(dense(shape)), true, {}, {}});
    return *this;
}

Call& Call::integer(const std::string& name, int64_t value) {
    attributes_.push_back({name, named(name, GRADUS_INT), {}, {}});
    attributes_.back().value.value.i = value;
    return *this;
}

Call& Call::real(const std::string& name, double value) {
    attributes_.push_back({name, named(name, GRADUS_DOUBLE), {}, {}});
    attributes_.back().value.value.d = value;
    return *this;
}

Call& Call::boolean(const std::string& name, bool value) {
    attributes_.push_back({name, named(name, GRADUS_BOOL), {}, {}});
    attributes_.back().value.value.b = value;
    return *this;
}

Call& Call::words(const std::string& name, const char* value) {
    attributes_.push_back({name, named(name, GRADUS_STRING), value, {}});
    return *this;
}

Call& Call::integers(const std::string& name, const std::vector<int64_t>& value) {
    attributes_.push_back({name, named(name, GRADUS_INT_ARRAY), {}, value});
    return *this;
}

Call::Tensor& Call::tensor(const std::string& name) {
    for (Tensor& t : tensors)
        if (t.name == name) return t;
    ADD_FAILURE() << op << " has no tensor " << name;
    return tensors.front();
}

std::vector<std::string> Call::names() const {
    std::vector<std::string> all;
    for (const Tensor& t : tensors) all.push_back(t.name);
    for (const Attribute& attribute : attributes_) all.push_back(attribute.name);
    return all;
}

Call& Call::layout(const std::string& name, const Layout& where) {
    tensor(name).layout = where;
    return *this;
}

Call::Answer Call::ask() {
    Prepared prepared(*this);
    const bool wrote = prepared.size != Prepared::kUntouched ||
                       prepared.executor != reinterpret_cast<aclOpExecutor*>(Prepared::kUntouched);
    if (prepared.code == 0) EXPECT_EQ(aclDestroyAclOpExecutor(prepared.executor), 0);
    return {prepared.code, take_message(), wrote};
}

Call::Results Call::run() {
    Prepared prepared(*this);
    if (prepared.code != 0) {
        ADD_FAILURE() << "phase one: " << prepared.code << " " << take_message();
        return {};
    }
    workspace = prepared.size;
    EXPECT_EQ(workspace % 512, 0u) << op;
    if (max_workspace) EXPECT_LE(workspace, static_cast<uint64_t>(*max_workspace)) << op;
    void* allocated = nullptr;
    std::byte* scratch = nullptr;
    if (workspace > 0) {
        const size_t bytes = workspace_shift + workspace + kGuard;
        EXPECT_EQ(aclrtMalloc(&allocated, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
        EXPECT_EQ(aclrtMemset(allocated, bytes, 0xFF, bytes), 0);
        scratch = static_cast<std::byte*>(allocated) + workspace_shift;
    }
    const int code = gradusLaunch(scratch, workspace, prepared.executor, stream());
    EXPECT_EQ(code, 0) << "phase two: " << take_message();
    if (destroy_early)
        for (auto& placed : prepared.placed)
            if (placed) placed->destroy();
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0) << take_message();
    if (scratch != nullptr) {
        std::vector<std::byte> tail(kGuard);
        EXPECT_EQ(aclrtMemcpy(tail.data(), kGuard, scratch + workspace, kGuard, ACL_MEMCPY_DEVICE_TO_HOST), 0);
        EXPECT_EQ(tail, std::vector<std::byte>(kGuard, kPoison))
            << op << ": wrote behind its workspace of " << workspace;
        EXPECT_EQ(aclrtFree(allocated), 0);
    }
    Results results;
    if (code != 0) return results;
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (!prepared.placed[i]) continue;
        Array now = prepared.placed[i]->collect(op);
        if (tensors[i].output) results.emplace(tensors[i].name, std::move(now));
    }
    return results;
}

}  // namespace gradus::testing
