// What the two phases promise for every operator.
#include <gtest/gtest.h>

#include <thread>

#include "aclnn/aclnn_base.h"
#include "testing/battery.h"
#include "testing/prepared.h"

namespace gradus::testing {
namespace {

// Workspace of a prepared call.
class Workspace {
  public:
    explicit Workspace(uint64_t size) {
        if (size > 0) EXPECT_EQ(aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST), 0) << take_message();
    }
    ~Workspace() {
        if (address != nullptr) EXPECT_EQ(aclrtFree(address), 0);
    }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    void* address = nullptr;
};

// The bytes from a tensor's address to its first element and behind its last one.
struct Extent {
    explicit Extent(const Call::Tensor& t) : begin(t.layout.offset * t.values.item()) {
        int64_t last = t.layout.offset;
        for (size_t d = 0; d < t.values.shape.size(); ++d) last += (t.values.shape[d] - 1) * t.layout.stride[d];
        end = (last + 1) * t.values.item();
    }
    int64_t begin, end;
};

// What the catalogue says: whether an output may be exactly that input.
bool may_be(const std::string& op, const std::string& output, const std::string& input) {
    const std::string text = gradusCatalogue();
    const size_t begin = text.find("\"name\": \"" + output + "\"", text.find("\"name\": \"" + op + "\""));
    const std::string argument = text.substr(begin, text.find('}', begin) - begin);
    const size_t list = argument.find("\"in_place\": [");
    if (list == std::string::npos) return false;
    return argument.substr(list, argument.find(']', list) - list).find("\"" + input + "\"") != std::string::npos;
}

class Rules {
  public:
    explicit Rules(const std::function<Call()>& make) : make_(make), call_(make()), want_(Call(call_).run()) {}

    void all() {
        spent();
        handles();
        workspace();
        repeatable();
        raw_address();
        freed_early();
        queued();
        outside();
        overlap();
        in_place();
        beside_workspace();
        threads();
    }

  private:
    int launch(Prepared& p, const Workspace& w, aclrtStream on) {
        return gradusLaunch(w.address, p.size, p.executor, on);
    }

    void expect_results(Prepared& p, const Call& call, const Call::Results& want, const std::string& what) {
        EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
        for (size_t i = 0; i < call.tensors.size(); ++i) {
            if (!p.placed[i] || !call.tensors[i].output) continue;
            const Array got = p.placed[i]->collect(call.op);
            EXPECT_EQ(first_difference(got, want.at(call.tensors[i].name)), -1) << what << ", " << call.tensors[i].name;
        }
    }

    void spent() {
        Prepared p(call_);
        const Workspace w(p.size);
        EXPECT_EQ(launch(p, w, stream()), 0) << take_message();
        EXPECT_EQ(launch(p, w, stream()), 161001) << "a spent executor";
        expect_results(p, call_, want_, "first launch");
    }

    void handles() {
        uint64_t junk[64] = {};
        EXPECT_EQ(gradusLaunch(nullptr, 0, nullptr, stream()), 161001);
        EXPECT_EQ(gradusLaunch(nullptr, 0, reinterpret_cast<aclOpExecutor*>(junk), stream()), 161001);
        EXPECT_EQ(aclSetInputTensorAddr(nullptr, 0, nullptr, nullptr), 561103);
        EXPECT_EQ(aclSetAclOpExecutorRepeatable(nullptr), 561103);
        {
            Prepared p(call_);
            const Workspace w(p.size);
            EXPECT_EQ(launch(p, w, junk), 361001) << "a foreign stream";
            EXPECT_EQ(launch(p, w, stream()), 161001) << "spent by the failure";
        }
        {
            Prepared p(call_);
            const Workspace w(p.size);
            aclrtStream dead = nullptr;
            EXPECT_EQ(aclrtCreateStream(&dead), 0);
            EXPECT_EQ(aclrtDestroyStream(dead), 0);
            EXPECT_EQ(launch(p, w, dead), 361001) << "a dead stream";
        }
        Prepared p(call_);
        const Workspace w(p.size);
        EXPECT_EQ(launch(p, w, nullptr), 0) << "NULL is the default stream: " << take_message();
        EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);
        expect_results(p, call_, want_, "default stream");
    }

    void workspace() {
        Prepared p(call_);
        if (p.size == 0) {
            const Workspace more(512);
            EXPECT_EQ(gradusLaunch(more.address, 512, p.executor, stream()), 0) << "more than asked for";
            expect_results(p, call_, want_, "more workspace");
            return;
        }
        EXPECT_EQ(gradusLaunch(nullptr, p.size, p.executor, stream()), 161001) << "workspace NULL";
        Prepared small(call_);
        const Workspace w(small.size);
        EXPECT_EQ(gradusLaunch(w.address, small.size - 1, small.executor, stream()), 161002) << "one byte too small";
        Prepared none(call_);
        EXPECT_EQ(gradusLaunch(nullptr, 0, none.executor, stream()), 161002) << "none at all";
        take_message();
        Prepared leaves(call_), host(call_);
        void* one = nullptr;
        EXPECT_EQ(aclrtMalloc(&one, 1, ACL_MEM_MALLOC_HUGE_FIRST), 0);
        const Workspace big(p.size + 4096);
        void* const last = static_cast<std::byte*>(big.address) + p.size + 4095;
        EXPECT_EQ(gradusLaunch(p.size > 4096 ? one : last, p.size, leaves.executor, stream()), 161002)
            << "longer than its allocation";
        EXPECT_NE(take_message().find("workspace: "), std::string::npos);
        EXPECT_EQ(aclrtFree(one), 0);
        std::vector<std::byte> memory(p.size);
        EXPECT_EQ(gradusLaunch(memory.data(), p.size, host.executor, stream()), 161002) << "host memory";
        EXPECT_NE(take_message().find("workspace: an address outside"), std::string::npos);
    }

    void repeatable() {
        Prepared p(call_);
        const Workspace w(p.size);
        EXPECT_EQ(aclSetAclOpExecutorRepeatable(p.executor), 0);
        for (int i = 0; i < 3; ++i) EXPECT_EQ(launch(p, w, stream()), 0) << take_message();
        expect_results(p, call_, want_, "third run");

        Call other = make_();
        const Call::Results fresh = Call(other).run();
        Prepared q(other);
        size_t in = 0, out = 0;
        for (size_t i = 0; i < other.tensors.size(); ++i) {
            if (!p.placed[i]) {  // a NULL optional counts
                ++(other.tensors[i].output ? out : in);
                continue;
            }
            aclTensor* handle = p.placed[i]->handle;
            void* address = q.placed[i]->address();
            if (other.tensors[i].output)
                EXPECT_EQ(aclSetOutputTensorAddr(p.executor, out++, handle, address), 0);
            else
                EXPECT_EQ(aclSetInputTensorAddr(p.executor, in++, handle, address), 0);
        }
        EXPECT_EQ(launch(p, w, stream()), 0) << take_message();
        expect_results(q, other, fresh, "new addresses");
        EXPECT_EQ(aclSetInputTensorAddr(p.executor, 99, p.placed[0]->handle, nullptr), 161002);
        EXPECT_EQ(aclSetTensorAddr(p.executor, 99, p.placed[0]->handle, nullptr), 161002);
        EXPECT_EQ(aclSetInputTensorAddr(p.executor, 0, nullptr, nullptr), 161001);
        EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), 0);
        EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), 561103);
        EXPECT_EQ(launch(p, w, stream()), 161001) << "a destroyed executor";
        EXPECT_EQ(aclDestroyAclOpExecutor(q.executor), 0);
    }

    void raw_address() {  // set between the phases
        Prepared p(call_), q(call_);
        const Workspace w(p.size);
        for (size_t i = 0; i < call_.tensors.size(); ++i)
            if (p.placed[i] && call_.tensors[i].output)
                EXPECT_EQ(aclSetRawTensorAddr(p.placed[i]->handle, q.placed[i]->address()), 0);
        EXPECT_EQ(launch(p, w, stream()), 0) << take_message();
        expect_results(q, call_, want_, "address set between the phases");
        EXPECT_EQ(aclDestroyAclOpExecutor(q.executor), 0);
    }

    void freed_early() {
        {
            Prepared p(call_);
            const Workspace w(p.size);
            for (int i = 0; i < 4; ++i) {  // something for the stream to be busy with
                Prepared more(call_);
                const Workspace own(more.size);
                EXPECT_EQ(launch(more, own, stream()), 0);
            }
            EXPECT_EQ(launch(p, w, stream()), 0);
        }  // tensors, buffers and workspaces are gone here
        EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
    }

    // Phase two queues and returns, and what it queued needs nothing of the program any more.
    void queued() {
        Prepared p(call_);
        Gate gate;
        EXPECT_EQ(gate.hold(stream()), 0);
        gate.wait_until_reached();
        {
            const Workspace w(p.size);
            EXPECT_EQ(launch(p, w, stream()), 0) << take_message();
        }
        for (size_t i = 0; i < call_.tensors.size(); ++i) {
            if (!p.placed[i]) continue;
            if (call_.tensors[i].output) EXPECT_TRUE(p.placed[i]->untouched()) << call_.tensors[i].name;
            p.placed[i]->destroy();
            if (!call_.tensors[i].output) p.placed[i]->free();  // unmapped, unless the task owns it
        }
        gate.open();
        expect_results(p, call_, want_, "held");
    }

    void outside() {
        Prepared p(call_);
        const Workspace w(p.size);
        void* small = nullptr;
        EXPECT_EQ(aclrtMalloc(&small, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
        EXPECT_EQ(aclSetRawTensorAddr(p.placed[0]->handle, static_cast<std::byte*>(small) + 4096 - 1), 0);
        EXPECT_EQ(launch(p, w, stream()), 161002) << "past the footprint of its allocation";
        take_message();
        Prepared q(call_);
        EXPECT_EQ(aclSetRawTensorAddr(q.placed[0]->handle, nullptr), 0);
        EXPECT_EQ(launch(q, w, stream()), 161001) << "address NULL";
        take_message();
        Prepared r(call_);
        std::vector<std::byte> host(1 << 20);
        EXPECT_EQ(aclSetRawTensorAddr(r.placed[0]->handle, host.data()), 0);
        EXPECT_EQ(launch(r, w, stream()), 161002) << "host memory";
        EXPECT_NE(take_message().find("GRADUS_MEMORY"), std::string::npos);
        EXPECT_EQ(aclrtFree(small), 0);
    }

    void overlap() {
        for (size_t i = 0; i < call_.tensors.size(); ++i) {
            for (size_t o = 0; o < call_.tensors.size(); ++o) {
                if (call_.tensors[i].output || !call_.tensors[o].output) continue;
                Prepared p(call_);
                if (!p.placed[i] || !p.placed[o]) continue;
                const Workspace w(p.size);
                void* shared = nullptr;
                const auto storage = [&](size_t k) {
                    return call_.tensors[k].layout.storage * call_.tensors[k].values.item();
                };
                const auto bytes = static_cast<size_t>(storage(i) + storage(o)) + 64;
                EXPECT_EQ(aclrtMalloc(&shared, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
                EXPECT_EQ(aclSetRawTensorAddr(p.placed[i]->handle, shared), 0);
                EXPECT_EQ(aclSetRawTensorAddr(p.placed[o]->handle,
                                              static_cast<std::byte*>(shared) + call_.tensors[i].values.item()),
                          0);
                EXPECT_EQ(launch(p, w, stream()), 161002)
                    << call_.tensors[o].name << " one element into " << call_.tensors[i].name;
                EXPECT_NE(take_message().find("overlaps"), std::string::npos);
                EXPECT_EQ(aclrtFree(shared), 0);
            }
        }
    }

    // Exactly at an input is allowed where the catalogue says so, and nowhere else.
    void in_place() {
        for (const Call::Tensor& in : call_.tensors)
            for (const Call::Tensor& out : call_.tensors) {
                if (in.output || !out.output || in.null || out.null || in.values.shape != out.values.shape ||
                    in.values.type != out.values.type || in.layout.stride != out.layout.stride ||
                    in.layout.offset != out.layout.offset)
                    continue;
                Prepared p(call_);
                const Workspace w(p.size);
                Placed &from = *p.placed[static_cast<size_t>(&in - call_.tensors.data())],
                       &to = *p.placed[static_cast<size_t>(&out - call_.tensors.data())];
                EXPECT_EQ(aclSetRawTensorAddr(to.handle, from.address()), 0);
                const bool allowed = may_be(call_.op, out.name, in.name);
                EXPECT_EQ(launch(p, w, stream()), allowed ? 0 : 161002) << out.name << " is " << in.name;
                EXPECT_EQ(take_message().find(out.name + ": overlaps " + in.name) != std::string::npos, !allowed);
                EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
            }
    }

    // Each tensor right before and right behind the workspace, and a byte nearer. The workspace begins anywhere.
    void beside_workspace() {
        for (size_t i = 0; i < call_.tensors.size(); ++i)
            for (const bool before : {true, false})
                for (const int over : {0, 1}) {
                    Prepared p(call_);
                    if (!p.placed[i] || p.size == 0) continue;
                    const Call::Tensor& tensor = call_.tensors[i];
                    const Extent extent(tensor);
                    const int64_t bytes = extent.end - extent.begin, size = static_cast<int64_t>(p.size);
                    const Workspace both(static_cast<uint64_t>(bytes + size) + 64);
                    auto* const base = static_cast<std::byte*>(both.address) + 13;
                    std::byte* const first = before ? base : base + size - over;  // of the tensor's bytes
                    std::byte* const workspace = before ? base + bytes - over : base;
                    EXPECT_EQ(aclrtMemcpy(first, static_cast<size_t>(bytes), p.placed[i]->address() + extent.begin,
                                          static_cast<size_t>(bytes), ACL_MEMCPY_DEVICE_TO_DEVICE),
                              0);
                    EXPECT_EQ(aclSetRawTensorAddr(p.placed[i]->handle, first - extent.begin), 0);
                    const int code = gradusLaunch(workspace, p.size, p.executor, stream());
                    const std::string message = take_message();
                    EXPECT_EQ(code, over == 0 ? 0 : 161002) << tensor.name << (before ? " before" : " behind")
                                                            << " the workspace, " << over << " byte over";
                    EXPECT_EQ(message.find(tensor.name + ": overlaps the workspace") != std::string::npos, over == 1)
                        << message;
                    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
                    if (over == 0 && !tensor.output) expect_results(p, call_, want_, "beside the workspace");
                }
    }

    void threads() {
        const auto work = [this](int times) {
            EXPECT_EQ(aclrtSetDevice(0), 0);
            aclrtStream own = nullptr;
            EXPECT_EQ(aclrtCreateStream(&own), 0);
            Call call = call_;
            for (int i = 0; i < times; ++i) {
                Prepared p(call);
                const Workspace w(p.size);
                EXPECT_EQ(launch(p, w, own), 0) << take_message();
                EXPECT_EQ(aclrtSynchronizeStream(own), 0);
                for (size_t k = 0; k < call.tensors.size(); ++k)
                    if (p.placed[k] && call.tensors[k].output)
                        EXPECT_EQ(first_difference(p.placed[k]->collect(call.op), want_.at(call.tensors[k].name)), -1);
            }
            EXPECT_EQ(aclrtDestroyStream(own), 0);
            EXPECT_EQ(aclrtResetDevice(0), 0);
        };
        std::thread one(work, 8), two(work, 8);
        one.join();
        two.join();
    }

    std::function<Call()> make_;
    Call call_;
    Call::Results want_;
};

}  // namespace

void expect_executor_rules(const std::function<Call()>& make) { Rules(make).all(); }

}  // namespace gradus::testing
