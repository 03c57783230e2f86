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
        outside();
        overlap();
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
        EXPECT_NE(take_message().find("GRADUS_LIMITS"), std::string::npos);
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
