// Who is not meant at the place where ranks meet: it listens where it was told to, drops who has not the key, whatever
// it sends, and believes nobody's lengths. By this machine's sockets and by TCP.
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

// The layout of a root info, and how a connection begins.
constexpr size_t kKeyAt = 8, kPortAt = 24, kNameAt = 26;
struct Hello {
    char magic[8];
    char key[16];
    uint32_t rank, ranks;
};
struct Frame {
    uint32_t type, key_bytes, value_bytes, code;
};

HcclRootInfo info_in(const std::string& path) {
    HcclRootInfo info;
    for (int i = 0; i < 10000 && access(path.c_str(), R_OK) != 0; ++i) usleep(1000);
    std::ifstream(path, std::ios::binary).read(info.internal, sizeof info.internal);
    return info;
}

Hello hello_of(const HcclRootInfo& info, uint32_t rank, uint32_t ranks) {
    Hello hello{{}, {}, rank, ranks};
    std::memcpy(hello.magic, "GRHCCL01", 8);
    std::memcpy(hello.key, info.internal + kKeyAt, 16);
    return hello;
}

// A connection to the meeting point whose root info is in a file; −1: it is over.
int knock(const std::string& path, bool by_tcp) {
    const HcclRootInfo info = info_in(path);
    sockaddr_storage where{};
    socklen_t size;
    if (by_tcp) {
        auto& at = reinterpret_cast<sockaddr_in&>(where);
        uint16_t port = 0;
        std::memcpy(&port, info.internal + kPortAt, sizeof port);
        at.sin_family = AF_INET;
        at.sin_port = htons(port);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        size = sizeof at;
    } else {
        auto& at = reinterpret_cast<sockaddr_un&>(where);
        const std::string name(info.internal + kNameAt);
        if (name.rfind("gradus-hccl-", 0) != 0) return -1;
        at.sun_family = AF_UNIX;
        std::memcpy(at.sun_path + 1, name.data(), name.size());
        size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    const int s = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(s, reinterpret_cast<sockaddr*>(&where), size) == 0) return s;
    close(s);
    return -1;
}

// Its ports are this test's own.
void open_to_tcp() {
    setenv("HCCL_IF_IP", "127.0.0.1", 1);
    setenv("HCCL_IF_BASE_PORT", std::to_string(23000 + getppid() % 20000).c_str(), 1);
}

// Two ranks, of which the second comes when the strangers have done their part.
std::vector<int> with_strangers(const Path& path, const std::function<int(uint32_t rank)>& strangers) {
    const Path done;
    return in_processes(3, [&](uint32_t rank) {
        open_to_tcp();
        if (rank == 2) {
            const int code = strangers(rank);
            std::ofstream(done.name) << "done";
            if (code == 0) sleep(2);  // while the ranks meet, its connections stay
            return code;
        }
        return whole_program(rank, 2, [&](HcclComm* comm) {
            for (int i = 0; rank == 1 && i < 10000 && access(done.name.c_str(), R_OK) != 0; ++i) usleep(1000);
            return init_by_file(path.name, 2, rank, comm);
        });
    });
}

class Strangers : public Processes {};

// Whoever has not the key is dropped, and those who have it meet all the same.
TEST_F(Strangers, AtTheDoor) {
    const Path path;
    const auto strangers = [&](uint32_t rank) {
        char nonsense[4096];
        std::memset(nonsense, 0x5A, sizeof nonsense);
        const Hello right = hello_of(info_in(path.name), 1, 2);
        std::vector<Hello> wrong(5, right);
        wrong[0].magic[7] = '2', wrong[1].key[0] ^= 1, wrong[2].key[15] ^= 1, wrong[3].rank = 2, wrong[4].ranks = ~0u;
        for (const bool by_tcp : {false, true})
            for (size_t i = 0; i < 100; ++i) {
                const int s = knock(path.name, by_tcp);
                EXPECT_RANK(s >= 0);
                if (i % 4 == 0) static_cast<void>(!send(s, nonsense, sizeof nonsense, MSG_NOSIGNAL));
                if (i % 4 == 1) EXPECT_RANK(send(s, &wrong[i / 4 % 5], sizeof(Hello), MSG_NOSIGNAL) == sizeof(Hello));
                if (i % 4 == 2) EXPECT_RANK(send(s, &right, 20, MSG_NOSIGNAL) == 20);  // and no more
                char answer;
                if (i % 4 < 2) EXPECT_RANK(recv(s, &answer, 1, 0) <= 0);  // dropped without a word
                if (i % 4 < 2) close(s);
            }
        return 0;
    };
    EXPECT_EQ(with_strangers(path, strangers), (std::vector<int>{0, 0, 0}));
}

// Half a greeting, or none: it is not waited for for ever.
TEST_F(Strangers, SayTooLittle) {
    const Path path;
    const auto strangers = [&](uint32_t rank) {
        const Hello right = hello_of(info_in(path.name), 1, 2);
        std::vector<int> sockets;
        for (const bool by_tcp : {false, true})
            for (const size_t bytes : {0, 20}) {
                sockets.push_back(knock(path.name, by_tcp));
                EXPECT_RANK(send(sockets.back(), &right, bytes, MSG_NOSIGNAL) >= 0);
            }
        const timeval patience{20, 0};
        for (const int s : sockets) {
            char answer;
            setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
            EXPECT_RANK(recv(s, &answer, 1, 0) == 0);
        }
        return 0;
    };
    EXPECT_EQ(with_strangers(path, strangers), (std::vector<int>{0, 0, 0}));
}

// More than the door has room for, who say nothing: a rank comes in all the same, and at once.
TEST_F(Strangers, InACrowd) {
    const Path path;
    const auto strangers = [&](uint32_t rank) {
        for (int i = 0; i < 400; ++i) EXPECT_RANK(knock(path.name, i % 2 == 1) >= 0);
        return 0;
    };
    EXPECT_EQ(with_strangers(path, strangers), (std::vector<int>{0, 0, 0}));
}

// One that has the key and sends lengths that nobody means, what is no message, or half of one: the ranks hear of it at
// once, and no memory is taken for it.
TEST_F(Strangers, WithTheKey) {
    for (const bool by_tcp : {false, true})
        for (const Frame& frame : {Frame{0, 4, 0xFFFFFFFF, 0}, Frame{0, 0xFFFFFFFF, 4, 0}, Frame{0, 257, 0, 0},
                                   Frame{99, 0, 0, 0}, Frame{2, 0, 0, 0}, Frame{0, 4, 8, 0}}) {
            const Path path;
            const bool half = frame.type == 0 && frame.value_bytes == 8;
            const auto program = [&](uint32_t rank) {
                open_to_tcp();
                if (rank == 1) {
                    const Hello hello = hello_of(info_in(path.name), 1, 2);
                    const int s = knock(path.name, by_tcp);
                    EXPECT_RANK(send(s, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
                    const Frame get{1, 6, 0, 0};  // what rank 0 has put there: then it has come
                    char answer[4096];
                    EXPECT_RANK(send(s, &get, sizeof get, MSG_NOSIGNAL) == sizeof get);
                    EXPECT_RANK(send(s, "card/0", 6, MSG_NOSIGNAL) == 6 && recv(s, answer, sizeof answer, 0) > 0);
                    EXPECT_RANK(send(s, &frame, sizeof frame, MSG_NOSIGNAL) == sizeof frame);
                    while (!half && recv(s, answer, sizeof answer, 0) > 0) {
                    }
                    close(s);
                    return 0;
                }
                HcclComm comm = nullptr;
                EXPECT_RANK(aclrtSetDevice(0) == 0);
                const int code = init_by_file(path.name, 2, rank, &comm);
                const std::string message = take_message();
                const char* const words = half ? "rank 1 is gone: " : "rank 1 is gone: it sent nonsense";
                EXPECT_RANK((code == HCCL_E_REMOTE && message.find(words) != std::string::npos) ||
                            (std::fprintf(stderr, "%d: %s\n", code, message.c_str()), false));
                return 0;
            };
            EXPECT_EQ(in_processes(2, program, 20), (std::vector<int>{0, 0}))
                << frame.type << " " << frame.key_bytes << " " << frame.value_bytes << (by_tcp ? " by TCP" : "");
        }
}

int open_files() {
    int n = 0;
    DIR* const list = opendir("/proc/self/fd");
    while (readdir(list) != nullptr) ++n;
    closedir(list);
    return n;
}

// Files that come along with what a stranger sends are closed, however many.
TEST_F(Strangers, BringFiles) {
    const Path path;
    EXPECT_EQ(in_processes(1,
                           [&](uint32_t rank) {
                               EXPECT_RANK(aclrtSetDevice(0) == 0);
                               HcclRootInfo info;
                               EXPECT_RANK(HcclGetRootInfo(&info) == 0);
                               std::ofstream(path.name, std::ios::binary).write(info.internal, sizeof info.internal);
                               const int alone = open_files();
                               const int s = knock(path.name, false);
                               EXPECT_RANK(s >= 0);
                               const int before = alone + 2;  // both ends are in this process
                               for (int i = 0; i < 1000 && open_files() != before; ++i) usleep(10000);
                               union {
                                   cmsghdr header;
                                   char room[CMSG_SPACE(8 * sizeof(int))];
                               } control{};
                               control.header.cmsg_level = SOL_SOCKET;
                               control.header.cmsg_type = SCM_RIGHTS;
                               for (int files = 1; files <= 8; ++files) {
                                   char byte = 'G';
                                   iovec part{&byte, 1};
                                   msghdr message{};
                                   message.msg_iov = &part, message.msg_iovlen = 1;
                                   message.msg_control = &control;
                                   control.header.cmsg_len = CMSG_LEN(static_cast<size_t>(files) * sizeof(int));
                                   message.msg_controllen = control.header.cmsg_len;
                                   for (int i = 0; i < files; ++i)
                                       std::memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &s, sizeof s);
                                   EXPECT_RANK(sendmsg(s, &message, MSG_NOSIGNAL) == 1);
                               }
                               for (int i = 0; i < 100 && open_files() != before; ++i) usleep(10000);
                               usleep(100000);  // not yet read, they are not open either
                               EXPECT_RANK(open_files() == before);
                               return 0;
                           }),
              std::vector<int>{0});
}

// Where this process listens, of all TCP's addresses: "7F000001" is 127.0.0.1.
std::vector<std::string> doors() {
    std::vector<std::string> own, found;
    DIR* const list = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(list)) {
        char target[64] = {};
        const std::string link = std::string("/proc/self/fd/") + entry->d_name;
        if (readlink(link.c_str(), target, sizeof target - 1) > 0) own.emplace_back(target);
    }
    closedir(list);
    for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
        std::ifstream file(table);
        for (std::string line; std::getline(file, line);) {
            char address[64], state[8], inode[32];
            if (std::sscanf(line.c_str(), " %*s %32[0-9A-F]:%*s %*s %7s %*s %*s %*s %*s %*s %31s", address, state,
                            inode) != 3 ||
                std::string(state) != "0A")
                continue;
            const std::string socket = std::string("socket:[") + inode + "]";
            if (std::find(own.begin(), own.end(), socket) != own.end()) found.emplace_back(address);
        }
    }
    return found;
}

// To the network only where it was asked for, and on that address.
TEST_F(Strangers, HaveNoDoor) {
    const struct {
        const char *name, *value;
        std::vector<std::string> doors;
    } cases[] = {
        {"HCCL_WHITELIST_DISABLE", "1", {}},
        {"HCCL_IF_IP", "127.0.0.1", {"0100007F"}},
        {"HCCL_IF_IP", "127.0.0.9", {"0900007F"}},
        {"HCCL_SOCKET_IFNAME", "=lo", {"0100007F"}},
        {"HCCL_SOCKET_IFNAME", "nosuch,l", {"0100007F"}},
        {"HCCL_SOCKET_IFNAME", "^nosuch,eth,en,br,docker,veth,wl", {"0100007F"}},
    };
    for (const auto& c : cases)
        EXPECT_EQ(in_processes(1,
                               [&](uint32_t rank) {
                                   const Variable set(c.name, c.value);
                                   const Variable ports("HCCL_IF_BASE_PORT", std::to_string(24000 + getpid() % 20000));
                                   HcclRootInfo info;
                                   EXPECT_RANK(HcclGetRootInfo(&info) == 0);
                                   const std::vector<std::string> found = doors();
                                   for (const std::string& door : found) std::fprintf(stderr, "%s\n", door.c_str());
                                   EXPECT_RANK(found == c.doors);
                                   return 0;
                               }),
                  std::vector<int>{0})
            << c.name << "=" << c.value;
    // of several, one by which others can come
    bool has_network = false;
    ifaddrs* list = nullptr;
    ASSERT_EQ(getifaddrs(&list), 0);
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next)
        has_network |= i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) != 0 &&
                       (i->ifa_flags & IFF_LOOPBACK) == 0;
    freeifaddrs(list);
    EXPECT_EQ(in_processes(1,
                           [&](uint32_t rank) {
                               const Variable set("HCCL_SOCKET_IFNAME", "^nosuch");
                               const Variable ports("HCCL_IF_BASE_PORT", std::to_string(24000 + getpid() % 20000));
                               HcclRootInfo info;
                               EXPECT_RANK(HcclGetRootInfo(&info) == 0);
                               const std::vector<std::string> found = doors();
                               EXPECT_RANK(found.size() == 1 && (found[0] != "0100007F") == has_network);
                               return 0;
                           }),
              std::vector<int>{0});
    if (!gloo_is_there()) return;
    EXPECT_EQ(in_processes(1,
                           [&](uint32_t rank) {  // and Gloo's own connections
                               World w(3, "gloo");
                               for (const std::string& door : doors()) EXPECT_RANK(door == "0100007F");
                               return w.made ? 0 : 1;
                           }),
              std::vector<int>{0});
}

TEST_F(Strangers, AndAllPortsAreTaken) {
    EXPECT_EQ(in_processes(1,
                           [](uint32_t rank) {
                               const Variable ip("HCCL_IF_IP", "127.0.0.7");
                               const std::string first = std::to_string(25000 + getpid() % 20000);
                               const Variable ports("HCCL_IF_BASE_PORT", first);
                               HcclRootInfo info;
                               for (int i = 0; i < 32; ++i) EXPECT_RANK(HcclGetRootInfo(&info) == 0);
                               EXPECT_RANK(HcclGetRootInfo(&info) == HCCL_E_UNAVAIL);
                               EXPECT_RANK(take_message().find("the last of 32 ports, of which HCCL_IF_BASE_PORT") !=
                                           std::string::npos);
                               return 0;
                           }),
              std::vector<int>{0});
}

}  // namespace
}  // namespace gradus::testing
