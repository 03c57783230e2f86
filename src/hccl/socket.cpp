#include "hccl/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/lock.h"

namespace gradus::hccl {

void close_after_fork() noexcept;

namespace {

constinit Socket* first = nullptr;

[[maybe_unused]] const bool sockets_prepared = [] {
    after_fork_in_child([] { close_after_fork(); });
    return true;
}();

Status failed(const char* what, int error, int code) { return {code, concat(what, ": ", error_text(error))}; }

// Until it can be read or written; false: the deadline.
bool wait_for(const Socket& socket, short events, Clock::time_point deadline) {
    for (;;) {
        pollfd p{socket.get(), events, 0};
        const int n = poll(&p, 1, milliseconds_until(deadline));
        if (n > 0) return true;
        if (n == 0 && Clock::now() >= deadline) return false;
    }
}

union Control {
    cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

}  // namespace

void close_after_fork() noexcept {
    for (Socket* s = std::exchange(first, nullptr); s != nullptr;) {
        Socket* const next = std::exchange(s->next_, nullptr);
        s->previous_ = nullptr;
        ::close(std::exchange(s->descriptor_, -1));
        s = next;
    }
}

void Socket::take(int descriptor) noexcept {
    if (descriptor < 0) return;
    const Lock lock = hold();
    descriptor_ = descriptor;
    previous_ = nullptr;
    next_ = first;
    if (first != nullptr) first->previous_ = this;
    first = this;
}

void Socket::close() noexcept {
    Lock lock = hold();
    if (descriptor_ < 0) return;
    (previous_ != nullptr ? previous_->next_ : first) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    ::close(std::exchange(descriptor_, -1));
}

Socket::Socket(Socket&& other) noexcept { *this = std::move(other); }

Socket& Socket::operator=(Socket&& other) noexcept {
    if (this == &other) return *this;
    close();
    const Lock lock = hold();
    if (other.descriptor_ < 0) return *this;
    descriptor_ = std::exchange(other.descriptor_, -1);
    previous_ = std::exchange(other.previous_, nullptr);
    next_ = std::exchange(other.next_, nullptr);
    (previous_ != nullptr ? previous_->next_ : first) = this;
    if (next_ != nullptr) next_->previous_ = this;
    return *this;
}

Address Address::unix_name(const std::string& name) {
    Address address;
    auto& a = reinterpret_cast<sockaddr_un&>(address.storage);
    a.sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof a.sun_path - 1);
    std::memcpy(a.sun_path + 1, name.data(), length);  // behind a zero
    address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    return address;
}

Result<Address> Address::internet(const std::string& ip, uint16_t port) {
    Address address;
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    if (inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        address.size = sizeof v4;
        return address;
    }
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    if (inet_pton(AF_INET6, ip.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        address.size = sizeof v6;
        return address;
    }
    return Status(HCCL_E_PARA, concat("'", ip, "' is not an IP address"));
}

Result<Socket> listen_at(const Address& address) {
    Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open()) return failed("socket", errno, HCCL_E_SYSCALL);
    const int yes = 1;
    if (address.storage.ss_family != AF_UNIX) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(socket.get(), address.get(), address.size) != 0) return failed("bind", errno, HCCL_E_UNAVAIL);
    if (listen(socket.get(), 128) != 0) return failed("listen", errno, HCCL_E_UNAVAIL);
    return socket;
}

Result<Socket> connect_to(const Address& address, Clock::time_point deadline) {
    Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open()) return failed("socket", errno, HCCL_E_SYSCALL);
    if (connect(socket.get(), address.get(), address.size) != 0) {
        // many come at once, and a queue of this machine's sockets is full
        while (errno == EAGAIN && Clock::now() < deadline) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (connect(socket.get(), address.get(), address.size) == 0) return socket;
        }
        if (errno != EINPROGRESS) return failed("connect", errno, HCCL_E_TCP_CONNECT);
        if (!wait_for(socket, POLLOUT, deadline)) return Status(HCCL_E_TIMEOUT, "connect: no answer");
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) return failed("connect", error, HCCL_E_TCP_CONNECT);
    }
    const int yes = 1;
    if (address.storage.ss_family != AF_UNIX) setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return socket;
}

Status send_all(const Socket& socket, const void* data, size_t bytes, int descriptor, Clock::time_point deadline) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        iovec part{const_cast<char*>(at), bytes};  // NOLINT: the interface of C
        Control control{};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        if (descriptor >= 0) {
            message.msg_control = &control;
            message.msg_controllen = sizeof control;
            control.header.cmsg_level = SOL_SOCKET;
            control.header.cmsg_type = SCM_RIGHTS;
            control.header.cmsg_len = CMSG_LEN(sizeof(int));
            std::memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
        }
        const ssize_t n = sendmsg(socket.get(), &message, MSG_NOSIGNAL);
        if (n > 0) {
            at += n, bytes -= static_cast<size_t>(n);
            descriptor = -1;
        } else if (errno == EAGAIN || errno == EINTR) {
            if (!wait_for(socket, POLLOUT, deadline)) return {HCCL_E_TIMEOUT, "the other side does not read"};
        } else {
            return failed("send", errno, HCCL_E_TCP_TRANSFER);
        }
    }
    return {};
}

Status receive_all(const Socket& socket, void* data, size_t bytes, int* descriptor, Clock::time_point deadline) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
        iovec part{at, bytes};
        Control control{};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = &control;
        message.msg_controllen = CMSG_LEN(sizeof(int));  // one file: padded, there would be room for two
        const ssize_t n = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
        if (n > 0) {
            at += n, bytes -= static_cast<size_t>(n);
            if (message.msg_controllen >= CMSG_LEN(sizeof(int)) && control.header.cmsg_type == SCM_RIGHTS) {
                int got = -1;
                std::memcpy(&got, CMSG_DATA(&control.header), sizeof got);
                if (descriptor != nullptr && *descriptor < 0)
                    *descriptor = got;
                else
                    ::close(got);
            }
        } else if (n == 0 || errno == ECONNRESET) {  // the same, with something unread
            return {HCCL_E_REMOTE, "the other side has closed the connection"};
        } else if (errno == EAGAIN || errno == EINTR) {
            if (!wait_for(socket, POLLIN, deadline)) return {HCCL_E_TIMEOUT, "nothing came"};
        } else {
            return failed("receive", errno, HCCL_E_TCP_TRANSFER);
        }
    }
    return {};
}

int milliseconds_until(Clock::time_point deadline) {
    if (deadline == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

std::string to_text(const sockaddr* address) {
    char text[INET6_ADDRSTRLEN] = {};
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
    if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
    return text;
}

Text error_text(int error) {
    char text[128];
    return strerror_r(error, text, sizeof text);
}

}  // namespace gradus::hccl
