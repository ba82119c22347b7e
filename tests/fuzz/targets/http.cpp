// Bytes that a client sends to a server on this machine, which has to stay.
#include "serve/http.h"
#include "base/json.h"
#include "fuzz/targets/target.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

namespace {

using hone::serve::Exchange;
using hone::serve::HttpServer;

void handle(const std::shared_ptr<Exchange>& one) {
  hone::serve::percent_decoded(one->request.path);
  const bool is_json = one->request.has_type("application/json");
  if (one->request.method == "GET") {
    one->begin_stream(200, "text/event-stream");
    one->part("data: a\n\n");
    one->end();
    return;
  }
  std::string said = "{}";
  try {
    if (is_json) said = hone::base::dump_json(hone::base::parse_json(one->request.body, "body"));
  } catch (const hone::base::UserError&) {
    said = "no JSON";
  }
  one->answer({.body = said});
}

// Sends the bytes, ends its side, and reads to the end. False: the server did not answer a connection.
bool sent(int port, std::string_view bytes) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval most{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  const linger at_once{.l_onoff = 1, .l_linger = 0};  // thousands of connections would wait for their port
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  bool ended = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (ended) {
    ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(socket, SHUT_WR);
    char answer[4096];
    ssize_t got = 0;
    do got = ::recv(socket, answer, sizeof answer, 0);
    while (got > 0);
    ended = got == 0 || errno == ECONNRESET;
  }
  ::close(socket);
  return ended;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  static HttpServer server({.port = 0, .body_bytes = 1 << 16, .read_seconds = 5}, handle);
  return fuzz::one_input(data, size, [](std::string_view bytes) {
    if (!sent(server.port(), bytes)) fuzz::finding("the server does not end a connection");
  });
}
