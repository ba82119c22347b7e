// A page at an address of this machine: 127.0.0.1 only, with a random token in the path, so that other users of the machine and
// pages of other sites cannot open it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hone::report {

class PageServer {
 public:
  // `make_page` is called for each request, on the thread of serve(). UserError when the port is taken. `port` 0: one that is free.
  PageServer(std::uint16_t port, std::function<std::string()> make_page);
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;
  ~PageServer();

  std::string address() const;  // "http://127.0.0.1:40123/0123456789abcdef0123456789abcdef/"
  // One request after another, each within kRequestSeconds, until `stop`.
  void serve(const std::atomic<bool>& stop);

  static constexpr int kRequestSeconds = 5;

 private:
  void answer(int connection) const;
  std::string response(std::string_view request) const;

  std::function<std::string()> make_page_;
  std::string token_;
  std::uint16_t port_ = 0;
  int socket_ = -1;
};

}  // namespace hone::report
