// A server of one thread for tests: each connection is read to the end of its body and given what `answer`
// says.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace hone::rewards {

class HttpServer {
 public:
  // Gets the whole request; what it returns is sent as it is, "" closes the connection.
  explicit HttpServer(std::function<std::string(const std::string&)> answer, int port = 0)
      : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, plain, length) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, plain, &length) != 0) {
      throw std::runtime_error("no port for a test server");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  int port() const { return port_; }
  int calls() const { return calls_; }

  static std::string reply(const std::string& body, const std::string& status = "200 OK") {
    return "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static std::string body(const std::string& request) { return request.substr(request.find("\r\n\r\n") + 4); }

 private:
  void serve() {
    while (true) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const std::string request = read_request(connection);
      ++calls_;
      const std::string text = answer_(request);
      for (std::size_t sent = 0; sent < text.size();) {
        const ssize_t count = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<std::size_t>(count);
      }
      ::close(connection);
    }
  }

  static std::string read_request(int connection) {
    std::string request;
    std::array<char, 4096> bytes{};
    while (true) {
      const std::size_t head = request.find("\r\n\r\n");
      const std::size_t at = request.find("Content-Length: ");
      if (head != std::string::npos && at != std::string::npos &&
          request.size() >= head + 4 + std::stoul(request.substr(at + 16))) {
        return request;
      }
      const ssize_t count = ::recv(connection, bytes.data(), bytes.size(), 0);
      if (count <= 0) return request;
      request.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> calls_ = 0;
  std::thread thread_;
};

}  // namespace hone::rewards
