// Sockets that close themselves, in the child of a fork too: a connection that a child still had would keep its parent
// alive in the eyes of the others.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/status.h"
#include "hccl/transport.h"

namespace gradus::hccl {

class Socket {
  public:
    Socket() = default;
    explicit Socket(int descriptor) noexcept { take(descriptor); }
    Socket(Socket&& other) noexcept;
    Socket& operator=(Socket&& other) noexcept;
    ~Socket() { close(); }

    int get() const { return descriptor_; }
    bool open() const { return descriptor_ >= 0; }
    void close() noexcept;

  private:
    friend void close_after_fork() noexcept;
    void take(int descriptor) noexcept;

    int descriptor_ = -1;
    Socket *previous_ = nullptr, *next_ = nullptr;  // all of the process; behind the process lock
};

// An address of either kind.
struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;

    static Address unix_name(const std::string& name);  // in the abstract space of this network namespace
    static Result<Address> internet(const std::string& ip, uint16_t port);
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Socket> listen_at(const Address& address);
Result<Socket> connect_to(const Address& address, Clock::time_point deadline);

// Whole messages, until the deadline; a file descriptor may come along (−1: none).
Status send_all(const Socket& socket, const void* data, size_t bytes, int descriptor, Clock::time_point deadline);
Status receive_all(const Socket& socket, void* data, size_t bytes, int* descriptor, Clock::time_point deadline);

int milliseconds_until(Clock::time_point deadline);  // for poll()
Text error_text(int error);
std::string to_text(const sockaddr* address);  // the IP address

}  // namespace gradus::hccl
