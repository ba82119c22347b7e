#include "report/page/serve_page.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/strings/ascii.h"
#include "base/strings/lines.h"
#include "base/strings/printable.h"

namespace hone::report {

namespace {

constexpr std::size_t kMostRequest = 16'384;  // bytes of a request's head
constexpr int kStopPoll = 200;                // milliseconds between two looks at `stop`

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  base::require(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
                "report::PageServer", "random bytes of the kernel");
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

// In a time that does not tell how much of it is right.
bool same_secret(std::string_view found, std::string_view expected) {
  if (found.size() != expected.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < found.size(); ++i) difference |= static_cast<unsigned>(found[i] ^ expected[i]);
  return difference == 0;
}

std::string reply(std::string_view status, std::string_view type, std::string_view body, bool with_body) {
  std::string out = fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
      "X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\n",
      status, type, body.size());
  if (with_body) out += body;
  return out;
}

std::string_view header_of(std::string_view request, std::string_view name) {
  for (std::string_view line : base::line_views(request)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t colon = line.find(':');
    if (colon != name.size() || base::lower_ascii(std::string(line.substr(0, colon))) != name) continue;
    line.remove_prefix(colon + 1);
    while (line.starts_with(' ')) line.remove_prefix(1);
    return line;
  }
  return {};
}

// Until `end`; empty when nothing comes.
bool wait_for(int connection, short what, std::chrono::steady_clock::time_point end) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  pollfd one{.fd = connection, .events = what, .revents = 0};
  return left.count() > 0 && ::poll(&one, 1, static_cast<int>(left.count())) > 0;
}

}  // namespace

PageServer::PageServer(std::uint16_t port, std::function<std::string()> make_page)
    : make_page_(std::move(make_page)), token_(random_token()) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  base::require(socket_ >= 0, "report::PageServer", "a socket");
  const int yes = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_port = htons(port);
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  if (::bind(socket_, reinterpret_cast<sockaddr*>(&here), size) != 0 || ::listen(socket_, 8) != 0) {
    const std::string why = std::strerror(errno);
    ::close(socket_);
    throw base::UserError({.where = "--port",
                           .expected = "a port of this machine that is free",
                           .found = fmt::format("{}: {}", port, why),
                           .cause = "",
                           .fix = "leave --port out, and a free one is taken"});
  }
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&here), &size);
  port_ = ntohs(here.sin_port);
}

PageServer::~PageServer() {
  ::close(socket_);
}

std::string PageServer::address() const {
  return fmt::format("http://127.0.0.1:{}/{}/", port_, token_);
}

void PageServer::serve(const std::atomic<bool>& stop) {
  while (!stop.load()) {
    pollfd one{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&one, 1, kStopPoll) <= 0) continue;
    const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) continue;
    answer(connection);
    ::close(connection);
  }
}

void PageServer::answer(int connection) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kRequestSeconds);
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos) {
    std::array<char, 4096> part{};
    if (request.size() > kMostRequest || !wait_for(connection, POLLIN, end)) return;
    const ssize_t size = ::recv(connection, part.data(), part.size(), 0);
    if (size <= 0) return;
    request.append(part.data(), static_cast<std::size_t>(size));
  }
  const std::string text = response(request);
  for (std::size_t sent = 0; sent < text.size();) {
    if (!wait_for(connection, POLLOUT, end)) return;
    const ssize_t size = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) return;
    sent += static_cast<std::size_t>(size);
  }
}

std::string PageServer::response(std::string_view request) const {
  constexpr std::string_view kText = "text/plain";
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const bool head = line.starts_with("HEAD ");
  if (!head && !line.starts_with("GET "))
    return reply("405 Method Not Allowed", kText, "only GET and HEAD\n", true);
  // Another name in Host: a site whose name was made to point here.
  const std::string_view host = header_of(request, "host");
  const bool ours = host == fmt::format("127.0.0.1:{}", port_) || host == fmt::format("localhost:{}", port_);
  if (!ours) return reply("421 Misdirected Request", kText, "not this host\n", !head);
  const std::size_t begin = line.find('/');
  std::string_view path = begin == std::string_view::npos ? "" : line.substr(begin + 1);
  path = path.substr(0, path.find_first_of(" ?#"));
  if (path.ends_with('/')) path.remove_suffix(1);
  if (!same_secret(path, token_)) return reply("404 Not Found", kText, "nothing here\n", !head);
  try {
    return reply("200 OK", "text/html", make_page_(), !head);
  } catch (const base::UserError& error) {
    return reply("500 Internal Server Error", kText, base::printable(error.what()) + "\n", !head);
  }
}

}  // namespace hone::report
