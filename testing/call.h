// One call of an operator through the public C interface, with everything a caller could check checked: guard bytes
// around every tensor and behind the workspace, padding and inputs untouched, results read through their view.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "gradus/gradus.h"
#include "testing/array.h"
#include "testing/runtime.h"

namespace gradus::testing {

// Sets an option for a scope.
class Option {
  public:
    Option(const char* name, const std::string& value);
    ~Option();
    Option(const Option&) = delete;
    Option& operator=(const Option&) = delete;

  private:
    std::string name_, before_;
};

std::vector<std::string> instruction_sets();  // of this CPU, within GRADUS_MAX_ISA, in its words

// Device 0 and a stream, for the whole test program.
aclrtStream stream();

// A tensor that has a shape and no memory: phase one asks for no more.
struct Bare {
    Bare(aclDataType t, const Shape& s)
        : tensor(aclCreateTensor(s.data(), s.size(), t, nullptr, 0, ACL_FORMAT_ND, s.data(), s.size(), nullptr)) {}
    ~Bare() { aclDestroyTensor(tensor); }
    Bare(const Bare&) = delete;
    Bare& operator=(const Bare&) = delete;
    aclTensor* tensor;
};

// Memory that ends (or begins) at a page nobody may touch. Not a device allocation: needs memory any.
class GuardedPages {
  public:
    GuardedPages(size_t bytes, bool at_end);
    ~GuardedPages();
    GuardedPages(const GuardedPages&) = delete;
    GuardedPages& operator=(const GuardedPages&) = delete;
    std::byte* data() const { return data_; }

  private:
    std::byte *base_, *data_;
    size_t mapped_;
};

enum class Memory { device, page_end, page_begin };

class Call {
  public:
    struct Tensor {
        std::string name;
        Array values;
        Layout layout;
        bool output = false;
        // Lies, for tests of the checks.
        std::optional<aclDataType> type;
        std::optional<std::vector<int64_t>> storage_dims;
        aclFormat format = ACL_FORMAT_ND;
        bool null = false;
    };

    explicit Call(std::string name) : op(std::move(name)) {}
    Call& in(const std::string& name, const Array& values, std::optional<Layout> where = {});
    Call& out(const std::string& name, aclDataType type, const Shape& shape, std::optional<Layout> where = {});
    Call& integer(const std::string& name, int64_t value);
    Call& real(const std::string& name, double value);
    Call& boolean(const std::string& name, bool value);
    Call& words(const std::string& name, const char* value);
    Call& integers(const std::string& name, const std::vector<int64_t>& value);

    Tensor& tensor(const std::string& name);
    std::vector<std::string> names() const;  // of all arguments
    Call& layout(const std::string& name, const Layout& where);

    using Results = std::map<std::string, Array>;
    // Both phases and the synchronisation. A failure is reported to GoogleTest and gives empty results.
    Results run();
    // Phase one alone.
    struct Answer {
        int code;
        std::string message;
        bool wrote;  // whether it touched workspaceSize or executor
    };
    Answer ask();

    std::string op;
    std::vector<Tensor> tensors;
    Memory memory = Memory::device;
    int64_t shift = 0;                                    // elements that every tensor is moved by, for alignment
    size_t workspace_shift = 0;                           // bytes that the workspace is moved by
    bool destroy_early = false;                           // tensors go before the stream is synchronised
    std::function<void(std::vector<gradusArg>&)> change;  // what phase one is given, made another just before
    std::optional<int64_t> max_workspace;
    uint64_t workspace = 0;  // of the last run

  private:
    friend class Prepared;
    struct Attribute {
        std::string name;
        gradusArg value;
        std::string words;
        std::vector<int64_t> integers;
    };
    std::vector<Attribute> attributes_;
};

}  // namespace gradus::testing
