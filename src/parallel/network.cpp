#include "parallel/network.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>

namespace hone::parallel {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses look_up(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

// A UDP socket that is connected has chosen its address, without a packet.
std::string address_of_way(const addrinfo& to) {
  const int fd = socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  sockaddr_storage own = {};
  socklen_t length = sizeof own;
  std::array<char, NI_MAXHOST> text{};
  const bool known = connect(fd, to.ai_addr, to.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text.data(), text.size(), nullptr,
                                 0, NI_NUMERICHOST) == 0;
  close(fd);
  return known ? text.data() : std::string();
}

std::string link_text(const char* path) {
  std::array<char, 64> text{};
  const ssize_t length = readlink(path, text.data(), text.size());
  return {text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

bool resolves(const std::string& host) {
  return look_up(host) != nullptr;
}

std::string address_towards(const std::string& host) {
  const Addresses all = look_up(host);
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    const std::string address = address_of_way(*one);
    if (!address.empty()) return address;
  }
  return {};
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string machine_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot + " " + link_text("/proc/self/ns/pid") + " " + link_text("/proc/self/ns/net");
}

}  // namespace hone::parallel
