// The ring that records lie in, the file that a signal handler writes, and its name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "trace/chrome.h"
#include "trace/output.h"
#include "trace/paths.h"
#include "trace/ring.h"

namespace gradus::trace {
namespace {

using Record = std::array<uint64_t, 12>;
Record filled(uint64_t value) {
    Record record;
    record.fill(value);
    return record;
}

TEST(Ring, KeepsTheNewest) {
    Ring<Record> ring;
    Record record;
    ASSERT_TRUE(ring.open(8));
    EXPECT_GT(ring.first(), ring.last());
    EXPECT_FALSE(ring.get(1, record));
    for (uint64_t i = 1; i <= 20; ++i) ring.add(filled(i));
    EXPECT_EQ(ring.first(), 13U);
    EXPECT_EQ(ring.last(), 20U);
    EXPECT_EQ(ring.lost(), 12U);
    for (uint64_t i = 1; i <= 22; ++i) {
        const bool there = ring.get(i, record);
        EXPECT_EQ(there, i >= 13 && i <= 20) << i;
        if (there) {
            EXPECT_EQ(record, filled(i));
        }
    }
}

TEST(Ring, NumbersOfOthers) {
    Ring<Record> ring;
    Record record;
    ASSERT_TRUE(ring.open(4));
    ring.put(2, filled(2));
    EXPECT_FALSE(ring.get(1, record));  // was never there
    ring.put(5, filled(5));
    ring.put(6, filled(6));  // over 2
    ring.put(2, filled(22));
    EXPECT_FALSE(ring.get(2, record));
    ASSERT_TRUE(ring.get(6, record));
    EXPECT_EQ(record, filled(6));
    ring.put(5, filled(55));
    ASSERT_TRUE(ring.get(5, record));
    EXPECT_EQ(record, filled(55));
}

TEST(Ring, AChildBeginsAnew) {
    Ring<Record> ring;
    Record record;
    ASSERT_TRUE(ring.open(4));
    for (uint64_t i = 1; i <= 6; ++i) ring.put(i, filled(i));
    ring.forget_all();
    EXPECT_FALSE(ring.get(6, record));
    ring.put(6, filled(66));  // a task of the parent ends
    EXPECT_FALSE(ring.get(6, record));
    ring.put(7, filled(7));
    EXPECT_EQ(ring.first(), 7U);
    EXPECT_TRUE(ring.get(7, record));
    EXPECT_EQ(ring.lost(), 0U);
}

// Whoever reads while others write gets a record as it was written, or none.
TEST(Ring, NeverHalfOfOne) {
    using Large = std::array<uint64_t, 256>;  // so that it takes a while
    const auto filled = [](uint64_t value) {
        Large record;
        record.fill(value);
        return record;
    };
    Ring<Large> ring;
    ASSERT_TRUE(ring.open(2));
    std::atomic<bool> stop = false;
    const auto write = [&](uint64_t mark) {
        for (uint64_t i = 0; i < 60'000; ++i) ring.add(filled(mark + i));
    };
    uint64_t read = 0;
    std::thread reader([&] {
        Large record;
        while (!stop)
            for (uint64_t i = ring.first(); i <= ring.last(); ++i) {
                if (!ring.get(i, record)) continue;
                ++read;
                ASSERT_EQ(record, filled(record[0]));
            }
    });
    std::thread other(write, uint64_t{1} << 32);
    write(1);
    other.join();
    stop = true;
    reader.join();
    EXPECT_GT(read, 0U);
}

class Folder {
  public:
    Folder() {
        path = (std::filesystem::temp_directory_path() / "gradus_trace_XXXXXX").string();
        EXPECT_NE(mkdtemp(path.data()), nullptr);
    }
    ~Folder() {
        unlink((path + "/f").c_str());
        rmdir(path.c_str());
    }
    std::string path;
};

std::string written(void (*write)(Output&)) {
    const Folder folder;
    const std::string path = folder.path + "/f";
    const auto out = std::make_unique<Output>();
    EXPECT_TRUE(out->open(path.c_str()));
    write(*out);
    EXPECT_NE(access(path.c_str(), F_OK), 0);  // not before it is whole
    EXPECT_TRUE(out->close());
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TEST(Output, Numbers) {
    EXPECT_EQ(written([](Output& out) {
                  out << 7 << " " << int64_t{-12} << " " << UINT64_MAX << " ";
                  out.micros(1234567);
                  out << " ";
                  out.micros(5);
                  out << " ";
                  out.micros(-1005);
                  out << " ";
                  out.decimal(2.0006);
                  out << " ";
                  out.decimal(1e30);
              }),
              "7 -12 18446744073709551615 1234.567 0.005 -1.005 2.001 1000000000000000.000");
}

// What the sanitizer says is a mark on the later of its tasks, or on the row of the thread that heard it.
TEST(Chrome, Findings) {
    static Store& store = *new Store;
    ASSERT_TRUE(store.open());
    TaskRecord task{};
    task.name = "aclnnSwiGlu";
    task.kind = TaskKind::launch;
    task.state = TaskState::done;
    for (uint64_t ticket = 1; ticket <= 2; ++ticket) {
        task.stream = static_cast<uint32_t>(10 * ticket);
        task.asked = task.begin = static_cast<int64_t>(ticket) * 1000;
        task.end = task.begin + 500;
        store.tasks.put(ticket, task);
    }
    store.findings.add({.at = 9000, .id = "race", .tasks = {1, 2}, .thread = 5, .error = true, .text = "\"y\""});
    store.findings.add({.at = 9000, .id = "leak", .tasks = {0, 0}, .thread = 5, .error = false, .text = "a stream"});
    const std::string text = written([](Output& out) {
        Sites sites;
        const Snapshot snapshot(store);
        write_chrome(out, {store, snapshot, sites, 7, 0});
    });
    const auto has = [&](const char* line) { return text.find(line) != std::string::npos; };
    EXPECT_TRUE(
        has("{\"ph\":\"i\",\"pid\":3586,\"tid\":20,\"ts\":2.000,\"s\":\"t\",\"name\":\"race\",\"cat\":\"finding\","
            "\"args\":{\"level\":\"error\",\"tasks\":[1,2],\"text\":\"\\\"y\\\"\"}}"))
        << text;
    EXPECT_TRUE(
        has("{\"ph\":\"i\",\"pid\":3584,\"tid\":5,\"ts\":9.000,\"s\":\"t\",\"name\":\"leak\",\"cat\":\"finding\","
            "\"args\":{\"level\":\"warning\",\"tasks\":[0,0],\"text\":\"a stream\"}}"))
        << text;
}

// A collective, and an operator that begins while it runs and ends after it.
TEST(Chrome, Communication) {
    static Store& store = *new Store;
    ASSERT_TRUE(store.open());
    TaskRecord task{};
    task.state = TaskState::done;
    const auto put = [&](uint64_t ticket, TaskKind kind, int64_t begin, int64_t bytes) {
        task.kind = kind;
        task.name = kind == TaskKind::launch ? "aclnnSwiGlu" : "HcclAllReduce";
        task.stream = static_cast<uint32_t>(ticket);
        task.asked = task.begin = begin;
        task.end = begin + 2000;
        task.bytes = bytes;
        store.tasks.put(ticket, task);
    };
    put(1, TaskKind::collective, 1000, 2000);
    put(2, TaskKind::launch, 2000, 4000);
    const std::string text = written([](Output& out) {
        Sites sites;
        const Snapshot snapshot(store);
        write_chrome(out, {store, snapshot, sites, 7, 0});
    });
    for (const char* line :
         {"\"ts\":2.000,\"dur\":2.000,\"name\":\"Computing\"", "\"ts\":1.000,\"dur\":2.000,\"name\":\"Communication\"",
          "\"ts\":1.000,\"dur\":1.000,\"name\":\"Communication(Not Overlapped)\"",
          "\"ts\":1.000,\"name\":\"GB/s\",\"args\":{\"GB/s\":1.000}",
          "\"ts\":2.000,\"name\":\"GB/s\",\"args\":{\"GB/s\":3.000}",
          "\"ts\":3.000,\"name\":\"GB/s\",\"args\":{\"GB/s\":2.000}",
          "\"ts\":4.000,\"name\":\"GB/s\",\"args\":{\"GB/s\":0.000}"})
        EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
    EXPECT_EQ(text.find("\"name\":\"Free\",\"cat\""), std::string::npos) << text;
}

TEST(Output, OnlyJson) {
    EXPECT_EQ(written([](Output& out) { out.quoted("a\"b\\c\n\x7F 设备 \xF0\x9F\x98\x80"); }),
              "\"a\\\"b\\\\c?? 设备 \xF0\x9F\x98\x80\"");
    // cut off, too long, half a pair, beyond the last letter, never a first byte
    EXPECT_EQ(
        written([](Output& out) { out.quoted("\xE8\xAE|\xC0\x80|\xED\xA0\x80|\xF4\x90\x80\x80|\xFF|\xE0\x80\x80"); }),
        "\"??|??|???|????|?|???\"");
    EXPECT_EQ(written([](Output& out) { out.field("a,\"b\""); }), "\"a,\"\"b\"\"\"");
}

TEST(Output, MoreThanItsBuffer) {
    const std::string text = written([](Output& out) {
        for (int i = 0; i < 50'000; ++i) out << i << ",";
    });
    std::string expected;
    for (int i = 0; i < 50'000; ++i) expected += std::to_string(i) + ",";
    EXPECT_EQ(text, expected);
}

std::string name_of(const char* file, bool child, const char* table = nullptr) {
    FilePattern files;
    char path[PATH_MAX];
    EXPECT_TRUE(files.set(file));
    if (child) files.set_child();
    EXPECT_TRUE(table == nullptr ? files.timeline(42, path) : files.table(table, 42, path));
    return path;
}

TEST(FilePattern, Names) {
    EXPECT_EQ(name_of("/a/t.json", false), "/a/t.json");
    EXPECT_EQ(name_of("/a/t.json", true), "/a/t.42.json");
    EXPECT_EQ(name_of("/a.b/t", true), "/a.b/t.42");
    EXPECT_EQ(name_of("/a/%p/%p.json", true), "/a/42/42.json");
    EXPECT_EQ(name_of("/a/t.json", false, "op_"), "/a/op_t.csv");
    EXPECT_EQ(name_of("/a/t.json", true, "op_"), "/a/op_t.42.csv");
    EXPECT_EQ(name_of("/t", false, "op_"), "/op_t.csv");
    char here[PATH_MAX];
    ASSERT_NE(getcwd(here, sizeof here), nullptr);
    EXPECT_EQ(name_of("t.json", false), std::string(here) + "/t.json");
    FilePattern files;
    char path[PATH_MAX];
    EXPECT_FALSE(files.set(std::string(PATH_MAX, 'x').c_str()));
    ASSERT_TRUE(files.set(("/" + std::string(PATH_MAX - 10, 'x')).c_str()));
    EXPECT_FALSE(files.table("op_summary_", 1, path));
}

}  // namespace
}  // namespace gradus::trace
