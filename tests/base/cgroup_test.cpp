// Limits of control groups, read from trees made up in a folder for the time of a test.
#include "base/cgroup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

namespace {

long allocations = 0;

}  // namespace

// Not inline, or GCC sees memory of new that free takes.
[[gnu::noinline]] void* operator new(size_t size) {
    ++allocations;
    void* memory = std::malloc(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace gradus {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMiB = 1 << 20;
constexpr const char* kNoLimit = "9223372036854771712\n";  // of version 1

class Cgroup : public ::testing::Test {
  protected:
    Cgroup() {
        std::string name = (fs::temp_directory_path() / "cgroup_test.XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << name;
        root_ = name;
    }
    ~Cgroup() override { fs::remove_all(root_); }

    void put(const std::string& path, const std::string& text) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    void process(const std::string& text) { put("proc/self/cgroup", text); }
    void group(const std::string& path, const std::string& file, const std::string& text) {
        put("sys/fs/cgroup/" + path + "/" + file, text);
    }

    CgroupLimits limits() const {
        const std::string root = root_.string();
        const long before = allocations;
        const CgroupLimits found = cgroup_limits(root.c_str());
        EXPECT_EQ(allocations, before);
        return found;
    }
    void expect(std::optional<int> cpus, std::optional<size_t> memory, std::optional<size_t> used) const {
        const CgroupLimits found = limits();
        EXPECT_EQ(found.cpus, cpus);
        EXPECT_EQ(found.memory, memory);
        EXPECT_EQ(found.memory_used, used);
    }

    fs::path root_;
};

// A program may have closed its standard input: files are opened in its place.
TEST_F(Cgroup, DescriptorZero) {
    process("0::/a\n");
    group("a", "cpu.max", "150000 100000\n");
    const int kept = dup(0);
    close(0);
    expect(2, {}, {});
    EXPECT_EQ(dup(kept), 0) << "and closed again";
    close(kept);
}

// A number ends with its file, whatever was read into that place before.
TEST_F(Cgroup, NoLineBreak) {
    process("0::/a/b\n");
    group("a/b", "cpu.max", "200000 100000\n");
    group("a", "cpu.max", "1 1");
    expect(1, {}, {});
}

TEST_F(Cgroup, NothingThere) {
    expect({}, {}, {});
    process("0::/a\n");
    expect({}, {}, {});
    fs::create_directories(root_ / "sys/fs/cgroup/a");
    expect({}, {}, {});
}

TEST_F(Cgroup, QuotasRoundUp) {
    process("0::/a\n");
    for (const auto& [text, cpus] :
         std::initializer_list<std::pair<const char*, std::optional<int>>>{{"100000 100000\n", 1},
                                                                           {"100001 100000\n", 2},
                                                                           {"150000 100000", 2},
                                                                           {"200000 100000\n", 2},
                                                                           {"5000 100000\n", 1},
                                                                           {"30000 10000\n", 3},
                                                                           {"0 100000\n", 1},
                                                                           {"18446744073709551615 1\n", INT_MAX},
                                                                           {"max 100000\n", {}},
                                                                           {"max\n", {}},
                                                                           {"", {}},
                                                                           {"\n", {}},
                                                                           {"100000\n", {}},
                                                                           {"100000 0\n", {}},
                                                                           {"100000 x\n", {}},
                                                                           {"-100000 100000\n", {}},
                                                                           {"1e5 100000\n", {}},
                                                                           {"18446744073709551616 100000\n", {}},
                                                                           {"two words\n", {}}}) {
        group("a", "cpu.max", text);
        EXPECT_EQ(limits().cpus, cpus) << text;
    }
}

// Limits hold for all that lies below them: the lowest may be anywhere, CPUs here and memory there.
TEST_F(Cgroup, Nested) {
    process("0::/a/b/c\n");
    group("", "cgroup.controllers", "cpu memory\n");
    group("a/b/c", "cpu.max", "800000 100000\n");
    group("a/b", "cpu.max", "max 100000\n");
    group("a", "cpu.max", "350000 100000\n");
    group("a/b/c", "memory.max", "max\n");
    group("a/b/c", "memory.current", "1\n");
    group("a/b", "memory.max", std::to_string(64 * kMiB) + "\n");
    group("a/b", "memory.current", std::to_string(10 * kMiB) + "\n");
    group("a", "memory.max", std::to_string(512 * kMiB) + "\n");
    group("a", "memory.current", std::to_string(100 * kMiB) + "\n");
    group("a/b/other", "cpu.max", "100000 100000\n");
    group("a/b/other", "memory.max", "4096\n");
    expect(4, 64 * kMiB, 10 * kMiB);
    group("a/b/c", "cpu.max", "100000 100000\n");
    group("a/b/c", "memory.max", std::to_string(kMiB) + "\n");
    expect(1, kMiB, 1);
    fs::remove(root_ / "sys/fs/cgroup/a/b/c/memory.current");
    expect(1, kMiB, {});
    group("a", "memory.max", std::to_string(kMiB) + "\n");
    expect(1, kMiB, 100 * kMiB);
    group("a", "memory.max", "0\n");
    expect(1, 0, 100 * kMiB);
    group("", "memory.max", "0\n");  // the root of a namespace may have limits
    group("", "memory.current", "7\n");
    expect(1, 0, 7);
}

TEST_F(Cgroup, VersionOne) {
    process("9:name=systemd:/s\n5:cpuset:/x\n4:memory:/m/n\n3:cpuacct,cpu:/c/d\n2:pids:/p\n");
    group("cpu/c/d", "cpu.cfs_quota_us", "-1\n");
    group("cpu/c/d", "cpu.cfs_period_us", "100000\n");
    group("memory/m/n", "memory.limit_in_bytes", kNoLimit);
    group("memory/m/n", "memory.usage_in_bytes", "1\n");
    group("cpu/x", "cpu.cfs_quota_us", "100000\n");  // groups of other controllers
    group("cpu/x", "cpu.cfs_period_us", "100000\n");
    group("cpu/m/n", "memory.limit_in_bytes", "1\n");
    expect({}, {}, {});
    group("memory/m/n", "memory.limit_in_bytes", "9223372036854710272\n");  // pages of 64 KiB
    expect({}, {}, {});
    group("cpu/c", "cpu.cfs_quota_us", "250000\n");
    group("cpu/c", "cpu.cfs_period_us", "100000\n");
    group("memory/m", "memory.limit_in_bytes", std::to_string(8 * kMiB) + "\n");
    group("memory/m", "memory.usage_in_bytes", std::to_string(3 * kMiB) + "\n");
    expect(3, 8 * kMiB, 3 * kMiB);
    group("memory", "memory.limit_in_bytes", kNoLimit);
    expect(3, 8 * kMiB, 3 * kMiB);
}

TEST_F(Cgroup, ControllersMountedTogether) {
    process("3:cpu,cpuacct:/c\n");
    group("cpu,cpuacct/c", "cpu.cfs_quota_us", "250000\n");
    group("cpu,cpuacct/c", "cpu.cfs_period_us", "100000\n");
    expect(3, {}, {});
}

// Version 2 beside version 1: memory here, CPUs there, or the other way round.
TEST_F(Cgroup, Hybrid) {
    process("4:memory:/m\n0::/u/v\n");
    group("memory/m", "memory.limit_in_bytes", std::to_string(8 * kMiB) + "\n");
    group("memory/m", "memory.usage_in_bytes", "5\n");
    group("unified/u", "cpu.max", "150000 100000\n");
    group("unified/u/v", "cgroup.procs", "1\n");
    group("u", "cpu.max", "100000 100000\n");  // not where version 2 is
    expect(2, 8 * kMiB, 5);
    process("0::/u/v\n");
    expect(2, {}, {});
}

// Version 2 alone may have a group of that name.
TEST_F(Cgroup, GroupNamedUnified) {
    process("0::/u\n");
    group("", "cgroup.controllers", "cpu memory\n");
    group("u", "cpu.max", "300000 100000\n");
    group("unified", "cpu.max", "100000 100000\n");
    expect(3, {}, {});
}

// A container sees its own group as the whole tree, and calls it by its name outside.
TEST_F(Cgroup, OwnGroupMounted) {
    process("0::/system.slice/docker-1234.scope\n");
    group("", "cpu.max", "150000 100000\n");
    group("", "memory.max", std::to_string(8 * kMiB) + "\n");
    group("", "memory.current", "5\n");
    expect(2, 8 * kMiB, 5);
    process("0::/system.slice/docker-1234.scope/job\n");
    expect(2, 8 * kMiB, 5);
    group("job", "cpu.max", "100000 100000\n");
    expect(1, 8 * kMiB, 5);
    process("4:memory:/docker/1234\n2:cpu,cpuacct:/docker/1234\n0::/\n");
    fs::remove(root_ / "sys/fs/cgroup/cpu.max");
    fs::remove(root_ / "sys/fs/cgroup/memory.max");
    group("memory", "memory.limit_in_bytes", "4096\n");
    group("memory", "memory.usage_in_bytes", "4\n");
    group("cpu", "cpu.cfs_quota_us", "50000\n");
    group("cpu", "cpu.cfs_period_us", "10000\n");
    expect(5, 4096, 4);
}

TEST_F(Cgroup, Namespaces) {
    group("", "cpu.max", "250000 100000\n");
    put("sys/fs/cpu.max", "100000 100000\n");  // outside of the mount
    put("sys/fs/other/cpu.max", "100000 100000\n");
    group("other", "cpu.max", "100000 100000\n");  // not ours, but named like ours
    for (const char* path : {"/", "/..", "/../..", "/../other", "/../../other"}) {
        process(std::string("0::") + path + "\n");
        EXPECT_EQ(limits().cpus, 3) << path;
    }
}

TEST_F(Cgroup, Malformed) {
    group("", "cpu.max", "250000 100000\n");
    for (const std::string& text :
         {std::string(), std::string("\n\n"), std::string(":::"), std::string("0"), std::string("0:"),
          std::string("0::"), std::string("0::a\n"), std::string("cpu,memory\n"), std::string(100000, ':'),
          std::string(100000, 'x'), std::string(100, '\0'), std::string("1:,,,:/a\n")}) {
        process(text);
        EXPECT_EQ(limits().cpus, std::nullopt) << text.substr(0, 20);
    }
    // too long, too deep, without an end: what is found is the mount
    for (const std::string& text :
         {"0::/" + std::string(5000, 'x') + "\n", "0::/" + std::string(100000, 'x'), std::string("junk\n\n0::/\n"),
          std::string("0::/gone (deleted)\n"), std::string("0::/"), std::string("0:://\n")}) {
        process(text);
        EXPECT_EQ(limits().cpus, 3) << text.substr(0, 20);
    }
    std::string deep;
    for (int i = 0; i < 2500; ++i) deep += "/x";
    process("0::" + deep + "\n");
    EXPECT_EQ(limits().cpus, 3);
    const std::string long_root(10000, 'r');
    EXPECT_EQ(cgroup_limits(long_root.c_str()).cpus, std::nullopt);
}

// Neither a folder nor a pipe that nobody writes to, in the place of a file, stops it.
TEST_F(Cgroup, NotFiles) {
    process("0::/a/b\n");
    group("a/b", "memory.max", "4096\n");
    group("a", "cpu.max", "100000 100000\n");
    ASSERT_EQ(mkfifo((root_ / "sys/fs/cgroup/a/b/cpu.max").c_str(), 0600), 0);
    fs::create_directories(root_ / "sys/fs/cgroup/a/b/memory.current");
    fs::create_symlink("/dev/zero", root_ / "sys/fs/cgroup/a/memory.max");
    expect(1, 4096, {});
    fs::remove(root_ / "proc/self/cgroup");
    ASSERT_EQ(mkfifo((root_ / "proc/self/cgroup").c_str(), 0600), 0);
    expect({}, {}, {});
}

// Here and now, whatever the limits are.
TEST(CgroupOfThisProcess, IsPlausible) {
    const CgroupLimits found = cgroup_limits();
    EXPECT_GE(found.cpus.value_or(1), 1);
    EXPECT_TRUE(found.memory || !found.memory_used);
}

}  // namespace
}  // namespace gradus
