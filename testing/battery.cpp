#include "testing/battery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace gradus::testing {
namespace {

constexpr aclFormat kLabels[] = {ACL_FORMAT_NCHW,  ACL_FORMAT_NHWC, ACL_FORMAT_HWCN, ACL_FORMAT_NCDHW,
                                 ACL_FORMAT_NDHWC, ACL_FORMAT_NC,   ACL_FORMAT_NCL};
constexpr aclFormat kPrivate[] = {ACL_FORMAT_NC1HWC0,    ACL_FORMAT_FRACTAL_Z, ACL_FORMAT_NC1HWC0_C04,
                                  ACL_FORMAT_FRACTAL_NZ, ACL_FORMAT_NDC1HWC0,  ACL_FRACTAL_Z_3D};

void expect_refusal(Call call, const Refusal& row) {
    SCOPED_TRACE(call.op + ": " + row.what);
    row.change(call);
    const Call::Answer answer = call.ask();
    EXPECT_EQ(answer.code, row.code) << answer.message;
    EXPECT_FALSE(answer.wrote) << "a refused call wrote workspaceSize or executor";
    EXPECT_NE(answer.message.find(call.op + ": "), std::string::npos) << answer.message;
    EXPECT_NE(answer.message.find(row.message), std::string::npos) << answer.message;
}

}  // namespace

void expect_refusals(const std::function<Call()>& good, const std::vector<Refusal>& rows) {
    const Call::Answer answer = good().ask();
    ASSERT_EQ(answer.code, 0) << answer.message;
    for (const Refusal& row : rows) expect_refusal(good(), row);
}

void expect_common_refusals(const std::function<Call()>& good, const Traits& traits) {
    const Call pattern = good();
    std::vector<Refusal> rows;
    const Call::Tensor* last_required = nullptr;
    for (const Call::Tensor& t : pattern.tensors) {
        const std::string name = t.name;
        const bool optional = std::count(traits.optional_tensors.begin(), traits.optional_tensors.end(), name) > 0;
        if (!optional) {
            rows.push_back({name + " NULL", [name](Call& c) { c.tensor(name).null = true; }, name + ": NULL", 161001});
            last_required = &t;
        }
        rows.push_back({name + " DOUBLE", [name](Call& c) { c.tensor(name).type = ACL_DOUBLE; }, name + ": dtype f64"});
        rows.push_back({name + " larger than its storage",
                        [name](Call& c) { c.tensor(name).storage_dims = {c.tensor(name).layout.storage - 1}; }, name});
        rows.push_back({name + " with a negative stride", [name](Call& c) { c.tensor(name).layout.stride[0] = -1; },
                        name + ": stride -1"});
        rows.push_back({name + " with one more dim",
                        [name](Call& c) {
                            Call::Tensor& tensor = c.tensor(name);
                            tensor.values.shape.insert(tensor.values.shape.begin(), 1);
                            tensor.layout.stride.insert(tensor.layout.stride.begin(), 1);
                        },
                        ""});
        if (t.output)
            rows.push_back({name + " overlaps itself",
                            [name](Call& c) {
                                Call::Tensor& tensor = c.tensor(name);
                                const auto longest =
                                    std::max_element(tensor.values.shape.begin(), tensor.values.shape.end());
                                tensor.layout.stride[static_cast<size_t>(longest - tensor.values.shape.begin())] = 0;
                            },
                            name});
        for (const aclFormat format : kPrivate)
            rows.push_back({name + " in format " + std::to_string(format),
                            [name, format](Call& c) { c.tensor(name).format = format; }, name + ": format"});
        for (const aclFormat format : kLabels) {
            const auto label = [name, format](Call& c) { c.tensor(name).format = format; };
            if (traits.strict_formats) {
                rows.push_back({name + " in format " + std::to_string(format), label, name + ": format"});
            } else {
                Call call = good();
                label(call);
                EXPECT_EQ(call.ask().code, 0) << name << " in format " << format;
            }
        }
    }
    ASSERT_NE(last_required, nullptr);
    const std::string first = pattern.tensors.front().name, last = last_required->name;
    rows.push_back({"NULL is judged before a wrong dtype",
                    [first, last](Call& c) {
                        c.tensor(first).type = ACL_DOUBLE;
                        c.tensor(last).null = true;
                    },
                    last + ": NULL", 161001});
    expect_refusals(good, rows);
}

void expect_same_bits(const std::function<Call()>& call) {
    const Option off("limits", "off");
    const Call::Results want = call().run();
    ASSERT_FALSE(want.empty());
    const auto compare = [&](Call again, const std::string& how) {
        const Call::Results got = again.run();
        for (const auto& [name, array] : want) {
            ASSERT_TRUE(got.count(name)) << how;
            EXPECT_EQ(first_difference(got.at(name), array), -1) << again.op << " " << name << ", " << how;
        }
    };
    for (const char* threads : {"1", "2", "7"}) {
        const Option guard("num_threads", threads);
        compare(call(), std::string(threads) + " threads");
    }
    for (const int64_t shift : {1, 2, 3, 5, 7, 13, 31}) {
        Call moved = call();
        moved.shift = shift;
        compare(moved, "moved by " + std::to_string(shift) + " elements");
    }
    for (const size_t shift : {1, 8, 32, 63}) {
        Call moved = call();
        moved.workspace_shift = shift;
        compare(moved, "workspace moved by " + std::to_string(shift) + " bytes");
    }
    for (const Memory memory : {Memory::page_end, Memory::page_begin}) {
        const Option any("memory", "any");
        Call edge = call();
        edge.memory = memory;
        compare(edge, memory == Memory::page_end ? "at the end of a page" : "at the beginning of a page");
    }
    Call early = call();
    early.destroy_early = true;
    compare(early, "tensors destroyed early");
}

void expect_same_bits_past_cache(const std::function<Call()>& call) {
    constexpr int64_t kLarge = (32 << 20) + (1 << 20);
    const Option off("limits", "off");
    const Call::Results want = call().run();
    ASSERT_FALSE(want.empty());
    for (const int64_t shift : {0, 3}) {
        Call large = call();
        int64_t most = 0;
        for (const Call::Tensor& t : large.tensors)
            if (t.output) most = std::max(most, static_cast<int64_t>(t.values.bytes.size()));
        const auto times = static_cast<size_t>(kLarge / most + 1);
        for (Call::Tensor& t : large.tensors) {
            const size_t once = t.values.bytes.size();
            t.values.bytes.resize(times * once);
            for (size_t k = 1; k < times; ++k)
                std::memcpy(t.values.bytes.data() + k * once, t.values.bytes.data(), once);
            t.values.shape[0] *= static_cast<int64_t>(times);
            t.layout = dense(t.values.shape);
        }
        large.shift = shift;
        const Call::Results got = large.run();
        for (const auto& [name, array] : want) {
            ASSERT_TRUE(got.count(name));
            const Array& all = got.at(name);
            for (size_t k = 0; k < times; ++k) {
                const size_t size = array.bytes.size();
                ASSERT_EQ(std::memcmp(all.bytes.data() + k * size, array.bytes.data(), size), 0)
                    << large.op << " " << name << ", copy " << k << " of " << times << ", moved by " << shift;
            }
        }
    }
}

void expect_products(const std::function<Call()>& good, const std::vector<std::string>& supported) {
    for (const std::string soc :
         {"Ascend910B1", "Ascend910B4", "Ascend910_9392", "Ascend910_9589", "Ascend310P3", "Ascend910A"}) {
        const Option name("soc_name", soc);
        const bool listed = std::any_of(supported.begin(), supported.end(), [&](const std::string& prefix) {
            return soc.compare(0, prefix.size(), prefix) == 0;
        });
        SCOPED_TRACE(soc);
        const Call::Answer answer = good().ask();
        EXPECT_EQ(answer.code, listed ? 0 : 361001) << answer.message;
        if (!listed) EXPECT_NE(answer.message.find(soc), std::string::npos) << answer.message;
        Call null = good();
        null.tensors.front().null = true;
        EXPECT_EQ(null.ask().code, 161001) << "nulls come before the product";
        const Option off("limits", "off");
        EXPECT_EQ(good().ask().code, 0) << "with limits off every product will do";
    }
}

}  // namespace gradus::testing
