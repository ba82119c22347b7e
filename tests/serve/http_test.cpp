// The network's bounds: of answers that clients do not read, and of connections.
#include "serve/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace hone::serve {
namespace http_test {

constexpr std::size_t kLarge = std::size_t{12} << 20;  // more than a socket takes by itself

class Client {
 public:
  // Without a path it says nothing.
  Client(int port, const std::string& path) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const int small = 64 << 10;
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    if (path.empty()) return;
    const std::string asked = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::send(socket_, asked.data(), asked.size(), 0), static_cast<ssize_t>(asked.size()));
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // `most` bytes, or those until the server closes.
  std::string read(std::size_t most = std::string::npos) const {
    std::string out, part(64 << 10, '\0');
    while (out.size() < most) {
      const ssize_t got = ::recv(socket_, part.data(), std::min(part.size(), most - out.size()), 0);
      if (got <= 0) break;
      out.append(part, 0, static_cast<std::size_t>(got));
    }
    return out;
  }

 private:
  int socket_;
};

std::atomic<int> without_room = 0;  // answers that the server had no room for

void answer(const std::shared_ptr<Exchange>& one) {
  if (one->request.path == "/small") {
    one->answer({.body = "{}"});
  } else if (one->request.path == "/stream") {
    one->begin_stream(200, "text/event-stream");
    one->part(std::string(kLarge, 's'));
    one->end();
  } else {
    without_room += one->answer({.body = std::string(kLarge, 'a')}) == 503 ? 1 : 0;
  }
}

bool is_whole(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 200") && answer.ends_with(std::string(kLarge, 'a'));
}

TEST(HttpServer, AnswersThatNobodyReadsAreBoundedTogether) {
  std::signal(SIGPIPE, SIG_IGN);  // as hone serve does: clients leave
  HttpServer server({.held_bytes = 64 << 20, .all_answer_bytes = 20 << 20}, &answer);
  {
    const Client slow(server.port(), "/large");
    const std::string begin = slow.read(64);  // its answer waits now
    EXPECT_TRUE(begin.starts_with("HTTP/1.1 200")) << begin;
    const std::string refused = Client(server.port(), "/large").read();
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 503")) << refused.substr(0, 64);
    EXPECT_NE(refused.find("retry-after: 1"), std::string::npos) << refused.substr(0, 400);
    EXPECT_EQ(without_room, 1);
    const std::string cut = Client(server.port(), "/stream").read();
    EXPECT_LT(cut.size(), kLarge);
    EXPECT_FALSE(cut.ends_with("0\r\n\r\n")) << "closed, and not ended as a whole stream is";
    EXPECT_TRUE(Client(server.port(), "/small").read().ends_with("{}"));
    EXPECT_TRUE(is_whole(begin + slow.read()));
  }
  // What was read, or whose client has left, is free for others.
  EXPECT_TRUE(is_whole(Client(server.port(), "/large").read()));
  {
    const Client leaves(server.port(), "/large");
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (server.connections() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(is_whole(Client(server.port(), "/large").read()));
  EXPECT_EQ(without_room, 1);
  EXPECT_TRUE(server.drain(20));
}

TEST(HttpServer, WhoSaysNothingKeepsNobodyOut) {
  HttpServer server({.connections = 4, .held_bytes = 64 << 20}, &answer);
  const auto begin = std::chrono::steady_clock::now();
  const Client slow(server.port(), "/large");
  const std::string some = slow.read(64);  // the oldest, and it has asked
  const Client first(server.port(), ""), second(server.port(), ""), third(server.port(), "");
  EXPECT_TRUE(Client(server.port(), "/small").read().ends_with("{}"));
  EXPECT_EQ(first.read(), "") << "closed";
  EXPECT_TRUE(is_whole(some + slow.read()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << "nobody waited for read_seconds";
}

}  // namespace http_test
}  // namespace hone::serve
