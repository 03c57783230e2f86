// Rank tables: every rank reads the same file, which says where all are. Rank 0 opens the meeting point, whose name and
// key are made of the file's content.
#include <unistd.h>
#include <map>
#include <thread>

#include "base/json.h"
#include "hccl/rendezvous.h"
#include "hccl/types.h"

namespace gradus::hccl {
namespace {

struct Device {
    std::string server, ip;
    uint16_t port = 0;
};

// A walk over JSON that is known to be sound: calls back with every string or number and the names above it.
class Walk {
  public:
    explicit Walk(std::string_view text) : text_(text) {}
    template <typename F>
    void values(const std::string& path, const F& f) {
        skip_blanks();
        const char c = peek();
        if (c == '{' || c == '[') {
            ++at_;
            for (size_t i = 0;; ++i) {
                skip_blanks();
                if (peek() == ',') ++at_, skip_blanks();
                if (peek() == '}' || peek() == ']') break;
                std::string name = std::to_string(i);
                if (c == '{') {
                    name = string();
                    skip_blanks();
                    ++at_;  // the colon
                }
                values(std::string(path).append("/").append(name), f);
            }
            ++at_;
        } else {
            f(path, c == '"' ? string() : word());
        }
    }

  private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '}'; }
    void skip_blanks() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    }
    std::string string() {
        std::string value;
        for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
            if (text_[at_] == '\\') ++at_;
            value += text_[at_];
        }
        ++at_;
        return value;
    }
    std::string word() {
        const size_t begin = at_;
        while (at_ < text_.size() && std::string_view(",]} \n\r\t").find(text_[at_]) == std::string_view::npos) ++at_;
        return std::string(text_.substr(begin, at_ - begin));
    }

    std::string_view text_;
    size_t at_ = 0;
};

Result<int> number(const std::string& what, const std::string& text, int most) {
    char* end = nullptr;
    const long value = std::strtol(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || value < 0 || value > most)
        return Status(HCCL_E_PARA, concat(what, ": '", text, "', expected a number up to ", most));
    return static_cast<int>(value);
}

// By rank.
Result<std::map<uint32_t, Device>> read_devices(const std::string& text) {
    if (const auto wrong = find_json_error(text))
        return Status(HCCL_E_PARA, concat("not JSON at byte ", uint64_t{*wrong}));
    std::map<std::string, std::string> all;
    Walk(text).values("", [&](const std::string& path, const std::string& value) { all[path] = value; });
    if (const auto status = all.find("/status"); status != all.end() && status->second != "completed")
        return Status(HCCL_E_PARA, concat("status: '", status->second, "', expected completed"));
    const auto value = [&](const std::string& path) {
        const auto it = all.find(path);
        return it != all.end() ? it->second : std::string();
    };
    if (const std::string servers = value("/server_count"); !servers.empty()) {
        uint64_t listed = 0;
        while (all.contains("/server_list/" + std::to_string(listed) + "/server_id")) ++listed;
        const auto count = number("server_count", servers, kMostRanks);
        if (!count.ok()) return count.status();
        if (static_cast<uint64_t>(*count) != listed)
            return Status(HCCL_E_PARA,
                          concat("server_count: ", *count, ", expected ", listed, ", those of server_list"));
    }
    std::map<uint32_t, Device> devices;
    for (const auto& [path, rank_text] : all) {
        const size_t end = path.rfind("/rank_id");
        if (end == std::string::npos || end + 8 != path.size()) continue;
        const std::string device = path.substr(0, end), server = device.substr(0, device.find("/device/"));
        const auto rank = number("rank_id", rank_text, kMostRanks - 1);
        if (!rank.ok()) return rank.status();
        Device d{value(server + "/server_id"), value(device + "/device_ip"), 0};
        if (const std::string port_text = value(device + "/device_port"); !port_text.empty()) {
            const auto port = number("device_port", port_text, 65535);
            if (!port.ok()) return port.status();
            d.port = static_cast<uint16_t>(*port);
        }
        if (d.server.empty()) return Status(HCCL_E_PARA, concat("rank_id ", *rank, ": its server has no server_id"));
        if (!devices.emplace(static_cast<uint32_t>(*rank), d).second)
            return Status(HCCL_E_PARA, concat("rank_id ", *rank, " is there twice"));
    }
    if (devices.empty()) return Status(HCCL_E_PARA, "server_list: no device with a rank_id");
    if (devices.rbegin()->first + 1 != devices.size())
        return Status(HCCL_E_PARA, concat("rank ids: ", uint64_t{devices.size()}, " up to ", devices.rbegin()->first,
                                          ", expected 0, 1, 2 … without a gap"));
    return devices;
}

// FNV-1a, twice. No secret, whatever the hash: all that it is made of is in the table.
Key key_of(const std::string& text) {
    Key key{0xCBF29CE484222325, 0x84222325CBF29CE4};
    for (const char c : text)
        for (uint64_t& word : key) word = (word ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return key;
}

}  // namespace

Result<std::shared_ptr<Communicator>> join_by_rank_table(const char* path, const HcclEnvironment& environment,
                                                         Membership membership) {
    constexpr size_t kMostTable = size_t{16} << 20;
    const std::optional<std::string> text = read_file(path, kMostTable);
    if (!text) return Status(HCCL_E_OPEN_FILE_FAILURE, concat("clusterInfo: cannot read '", path, "'"));
    if (text->size() > kMostTable)
        return Status(HCCL_E_PARA, concat("clusterInfo: ", path, ": longer than 16 MiB, not a rank table"));
    const auto devices = read_devices(*text);
    if (!devices.ok()) return Status(HCCL_E_PARA, concat("clusterInfo: ", path, ": ", devices.status().message()));
    const auto self = devices->find(membership.rank);
    if (self == devices->end())
        return Status(HCCL_E_PARA, concat("rank: ", membership.rank, ", expected a rank_id of ", path));
    membership.ranks = static_cast<uint32_t>(devices->size());

    const Device &mine = self->second, &root = devices->at(0);
    bool one_server = true;
    for (const auto& [rank, device] : *devices) one_server &= device.server == root.server;
    MeetingPoint at;
    at.key = key_of(*text);
    at.may_be_late = true;
    char name[64];
    std::snprintf(name, sizeof name, "gradus-hccl-table-%016lx-%u", at.key[0], getuid());
    if (mine.server == root.server) {
        at.unix_name = name;
        at.machine = this_machine();
    }
    if (!one_server) {
        if (root.ip.empty() || mine.ip.empty())
            return Status(HCCL_E_PARA, concat("clusterInfo: ", path, ": several servers, and rank ",
                                              root.ip.empty() ? 0 : membership.rank, " has no device_ip"));
        at.ip = root.ip;
        at.port = root.port != 0 ? root.port : static_cast<uint16_t>(environment.base_port);
    }
    if (membership.rank == 0) {
        const std::chrono::seconds patience(environment.connect_timeout_s);
        // the meeting point of a communicator that has just been destroyed may still be going away
        for (const auto end = Clock::now() + std::chrono::seconds(2);;) {
            const Status started = start_hub(at, patience);
            if (started.ok()) break;
            if (started.code() != HCCL_E_UNAVAIL) return started;
            if (Clock::now() > end) {  // who has the place knows why
                MeetingPoint there = at;
                there.ip.clear(), there.may_be_late = false;
                auto joined = join(there, environment, "", std::move(membership));
                return !joined.ok() && joined.status().code() == HCCL_E_TCP_CONNECT ? started : joined;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    return join(at, environment, one_server ? "" : mine.ip, std::move(membership));
}

}  // namespace gradus::hccl
