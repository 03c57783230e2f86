#include "hccl/rendezvous.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/log.h"
#include "hccl/local.h"
#include "hccl/remote.h"
#include "hccl/shared.h"

namespace gradus::hccl {
namespace {

// ---- The root info: plain bytes of a fixed layout

struct Packed {
    static constexpr uint64_t kMagic = 0x3130'4F46'4E49'5247;  // "GRINFO01"
    uint64_t magic = kMagic;
    Key key{};
    uint16_t port = 0;
    char unix_name[96] = {}, ip[64] = {}, machine[128] = {};
};
static_assert(sizeof(Packed) <= sizeof(HcclRootInfo));

template <size_t kSize>
void pack(const std::string& text, char (&to)[kSize]) {
    std::memcpy(to, text.data(), std::min(text.size(), kSize - 1));
}

template <size_t kSize>
std::string unpack(const char (&from)[kSize]) {
    return {from, strnlen(from, kSize - 1)};
}

// ---- Addresses

// HCCL_SOCKET_IFNAME: names that begin so; "=": that are so; "^": all others.
bool interface_fits(std::string_view name, std::string_view wanted) {
    const bool exact = wanted.starts_with('='), others = wanted.starts_with('^');
    if (exact || others) wanted.remove_prefix(1);
    bool named = false;
    while (!wanted.empty()) {
        const std::string_view one = wanted.substr(0, wanted.find(','));
        named |= exact ? name == one : !one.empty() && name.starts_with(one);
        wanted.remove_prefix(std::min(wanted.size(), one.size() + 1));
    }
    return named != others;
}

// Where this process may be reached from other machines; empty: nowhere.
Result<std::string> own_ip(const HcclEnvironment& environment) {
    if (environment.if_ip != nullptr) return std::string(environment.if_ip);
    if (environment.socket_ifname == nullptr) return std::string();
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return Status(HCCL_E_SYSCALL, "getifaddrs failed");
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
    const int family = environment.ipv6 ? AF_INET6 : AF_INET;
    for (const unsigned loopback : {0u, unsigned{IFF_LOOPBACK}})  // last: nobody comes from another machine by it
        for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next)
            if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == family && (i->ifa_flags & IFF_UP) != 0 &&
                (i->ifa_flags & IFF_LOOPBACK) == loopback && interface_fits(i->ifa_name, environment.socket_ifname))
                return to_text(i->ifa_addr);
    return Status(HCCL_E_PARA, concat("HCCL_SOCKET_IFNAME: no interface fits '", environment.socket_ifname, "'"));
}

std::string hex(const Key& key) {
    char text[33];
    std::snprintf(text, sizeof text, "%016lx%016lx", key[0], key[1]);
    return text;
}

// ---- Cards: what ranks tell each other first

// Of this process and of none that it forks.
std::string process_token() {
    static constinit Key token{};
    static constinit bool made = false;
    auto fresh = random_key();
    const Lock lock = hold();
    if (!made && fresh.ok()) token = *fresh, made = true;
    return hex(token).append("-").append(std::to_string(getpid()));
}

struct Card {
    std::string machine, process;
    bool by_unix;
    int transport;

    std::string text() const {
        std::string text = machine;
        text.append("\n").append(process).append(by_unix ? "\nu" : "\nt").append(std::to_string(transport));
        return text;
    }
    static Card read(const std::string& text) {
        const size_t first = text.find('\n'), second = text.find('\n', first + 1);
        if (second == std::string::npos || second + 2 >= text.size()) return {"", "", false, -1};
        return {text.substr(0, first), text.substr(first + 1, second - first - 1), text[second + 1] == 'u',
                std::atoi(text.c_str() + second + 2)};
    }
};

std::string key_of(const char* name, uint32_t rank) {
    std::string key = name;
    return key.append("/").append(std::to_string(rank));
}

std::vector<std::string> keys_of_all(const char* name, uint32_t ranks) {
    std::vector<std::string> keys;
    for (uint32_t r = 0; r < ranks; ++r) keys.push_back(key_of(name, r));
    return keys;
}

constexpr const char* kWords[] = {"auto", "local", "shared", "gloo"};

Result<HcclTransport> choose(const std::vector<Card>& cards) {
    bool one_process = true, one_machine = true;
    for (size_t r = 0; r < cards.size(); ++r) {
        const Card &c = cards[r], &first = cards[0];
        one_process &= c.process == first.process;
        one_machine &= c.by_unix && c.machine == first.machine;
        if (c.transport != first.transport)
            return Status(HCCL_E_PARA, concat("GRADUS_HCCL_TRANSPORT: rank ", uint64_t{r}, " has ",
                                              kWords[std::clamp(c.transport, 0, 3)], ", rank 0 ",
                                              kWords[std::clamp(first.transport, 0, 3)]));
    }
    const auto asked = static_cast<HcclTransport>(cards[0].transport);
    if (asked == HcclTransport::local && !one_process)
        return Status(HCCL_E_PARA, "GRADUS_HCCL_TRANSPORT: local, and the ranks are not in one process");
    if (asked == HcclTransport::shared && !one_machine)
        return Status(HCCL_E_PARA, "GRADUS_HCCL_TRANSPORT: shared, and the ranks are not on one machine");
    if (asked != HcclTransport::automatic) return asked;
    return one_process ? HcclTransport::local : one_machine ? HcclTransport::shared : HcclTransport::gloo;
}

void share_machine(const std::vector<Card>& cards, uint32_t rank) {
    std::set<std::string> processes;
    for (const Card& c : cards)
        if (c.machine == cards[rank].machine) processes.insert(c.process);
    if (processes.size() < 2) return;
    share_cpus(static_cast<int>(processes.size()));
    log(LogLevel::info, concat("hccl: ", uint64_t{processes.size()},
                               " processes share this machine: ", config_or_default().num_threads, " threads here"));
}

Result<std::unique_ptr<Transport>> open_shared(Link& link, uint32_t rank, uint32_t ranks, Clock::time_point deadline) {
    Socket file;
    if (rank == 0) {
        auto made = make_segment(ranks);
        if (!made.ok()) return made.status();
        file = std::move(*made);
        GRADUS_TRY(link.put("segment", "", file.get()));
    } else {
        std::vector<std::string> value;
        GRADUS_TRY(link.get({"segment"}, value, deadline, "the shared memory did not come; missing: rank ", &file));
    }
    return open_segment(file, rank, ranks, [&link] { return link.news(); });
}

}  // namespace

// Not the key itself: names are shown to people.
std::string world_name(const Key& key) {
    char name[40];
    std::snprintf(name, sizeof name, "hccl_world_%016lx", key[0] ^ key[1]);
    return name;
}

Result<MeetingPoint> open_meeting_point(const HcclEnvironment& environment) {
    const auto key = random_key(), name = random_key();
    if (!key.ok()) return key.status();
    if (!name.ok()) return name.status();
    auto ip = own_ip(environment);
    if (!ip.ok()) return ip.status();
    MeetingPoint at;
    at.key = *key;
    at.machine = this_machine();
    at.unix_name = hex(*name).insert(0, "gradus-hccl-");
    at.ip = *ip;
    const std::chrono::seconds patience(environment.connect_timeout_s);
    constexpr int kPorts = 32;
    for (int port = environment.base_port;; ++port) {
        at.port = static_cast<uint16_t>(port);
        const Status started = start_hub(at, patience);
        if (started.ok()) return at;
        if (started.code() != HCCL_E_UNAVAIL || at.ip.empty()) return started;
        if (port + 1 == environment.base_port + kPorts)
            return Status(started.code(), concat(started.message(), ", the last of ", kPorts,
                                                 " ports, of which HCCL_IF_BASE_PORT says the first"));
    }
}

void write_root_info(const MeetingPoint& at, HcclRootInfo& to) noexcept {
    Packed packed;
    packed.key = at.key;
    packed.port = at.port;
    pack(at.unix_name, packed.unix_name);
    pack(at.ip, packed.ip);
    pack(at.machine, packed.machine);
    std::memset(&to, 0, sizeof to);
    std::memcpy(&to, &packed, sizeof packed);
}

Result<MeetingPoint> read_root_info(const HcclRootInfo& from) {
    Packed packed;
    std::memcpy(static_cast<void*>(&packed), &from, sizeof packed);
    if (packed.magic != Packed::kMagic) return Status(HCCL_E_PARA, "rootInfo: not one that HcclGetRootInfo has made");
    MeetingPoint at;
    at.key = packed.key;
    at.port = packed.port;
    at.unix_name = unpack(packed.unix_name);
    at.ip = unpack(packed.ip);
    at.machine = unpack(packed.machine);
    return at;
}

Result<std::shared_ptr<Communicator>> join(const MeetingPoint& at, const HcclEnvironment& environment,
                                           const std::string& ip, Membership membership) {
    const auto deadline = Clock::now() + std::chrono::seconds(environment.connect_timeout_s);
    const uint32_t rank = membership.rank, ranks = membership.ranks;
    if (membership.group.empty()) membership.group = world_name(at.key);
    if (membership.name.empty()) membership.name = membership.group;
    GRADUS_TRY(check_name(membership));
    auto connected = Link::connect(at, rank, ranks, deadline);
    if (!connected.ok()) return connected.status();
    std::unique_ptr<Link> link = std::move(*connected);
    Link& meets = *link;
    std::shared_ptr<Communicator> comm;
    const auto meet = [&]() -> Status {
        const Card mine{this_machine(), process_token(), meets.by_unix(), static_cast<int>(environment.transport)};
        GRADUS_TRY(meets.put(key_of("card", rank), mine.text()));
        std::vector<std::string> texts;
        const Text waited =
            concat("waited ", environment.connect_timeout_s, " s (HCCL_CONNECT_TIMEOUT); missing: rank ");
        GRADUS_TRY(meets.get(keys_of_all("card", ranks), texts, deadline, waited.c_str()));
        std::vector<Card> cards;
        cards.reserve(texts.size());
        for (const std::string& text : texts) cards.push_back(Card::read(text));
        const auto transport = choose(cards);
        if (!transport.ok()) return transport.status();

        if (*transport == HcclTransport::local) {
            auto group = join_local_group(at.key, ranks, rank);
            if (!group.ok()) return group.status();
            comm = make_local(std::move(*group), std::move(membership));
        } else {
            share_machine(cards, rank);
            const std::string own = !ip.empty()                    ? ip
                                    : environment.if_ip != nullptr ? environment.if_ip
                                                                   : meets.own_ip(at);
            auto opened = *transport == HcclTransport::shared ? open_shared(meets, rank, ranks, deadline)
                                                              : open_gloo(meets, own, rank, ranks, deadline);
            if (!opened.ok()) return opened.status();
            comm = make_remote(std::move(link), std::move(*opened), std::move(membership));
        }
        // nobody has a communicator before all have one
        GRADUS_TRY(meets.put(key_of("ready", rank), ""));
        GRADUS_TRY(meets.get(keys_of_all("ready", ranks), texts, deadline, waited.c_str()));
        GRADUS_TRY(meets.up());
        log(LogLevel::info, concat("hccl: rank ", rank, " of ", ranks, " in ", comm->is.name, " by ",
                                   kWords[static_cast<size_t>(*transport)]));
        return {};
    };
    if (const Status met = meet(); !met.ok()) return meets.give_up(met, rank);
    return comm;
}

Result<std::shared_ptr<Communicator>> split_remote(Link& link, std::span<const uint32_t> ids, uint64_t number,
                                                   Membership membership) {
    const auto environment = hccl_environment();
    if (!environment.ok()) return Status(HCCL_E_PARA, environment.status().message());
    const auto deadline = Clock::now() + std::chrono::seconds(environment->connect_timeout_s);
    const auto key = link.agree(number, ids, deadline);
    if (!key.ok() && key.status().code() == HCCL_E_TIMEOUT)
        return Status(HCCL_E_TIMEOUT, concat("waited ", environment->connect_timeout_s, " s (HCCL_CONNECT_TIMEOUT); ",
                                             key.status().message()));
    if (!key.ok()) return key.status();
    HcclRootInfo info;
    if (membership.rank == 0) {
        auto at = open_meeting_point(*environment);
        if (!at.ok()) return at.status();
        write_root_info(*at, info);
        GRADUS_TRY(link.put(*key, std::string(info.internal, sizeof info.internal)));
    } else {
        std::vector<std::string> values;
        GRADUS_TRY(link.get({*key}, values, deadline, "waited for the first member of the sub-communicator: rank "));
        if (values[0].size() != sizeof info.internal) return Status(HCCL_E_INTERNAL, "not a root info");
        std::memcpy(info.internal, values[0].data(), sizeof info.internal);
    }
    auto at = read_root_info(info);
    if (!at.ok()) return at.status();
    return join(*at, *environment, "", std::move(membership));
}

}  // namespace gradus::hccl
