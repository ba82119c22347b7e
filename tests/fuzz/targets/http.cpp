// Bytes that a client sends to a server on this machine, which has to stay.
#include "serve/http.h"
#include "base/json.h"
#include "fuzz/targets/target.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

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

// A connection to the server. libFuzzer's own clock interrupts it at times. Where no port of this machine is free, since
// each waits a while after its use, it waits for one.
int connected(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int tries = 0;; ++tries) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
    const int error = errno;
    ::close(socket);
    if ((error != EADDRNOTAVAIL && error != EINTR) || tries == 150)
      hone::fuzz::finding(std::string("the server takes no connection: ") + std::strerror(error));
    if (error == EADDRNOTAVAIL) ::usleep(100'000);
  }
}

// Sends the bytes, ends its side, and reads until the server has ended its own.
void send_and_read(int port, std::string_view bytes) {
  const int socket = connected(port);
  const timeval most{.tv_sec = 15,
                     .tv_usec = 0};  // less than libFuzzer's limit, so that the finding has its name
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(socket, SHUT_WR);
  char answer[4096];
  ssize_t got = 0;
  do got = ::recv(socket, answer, sizeof answer, 0);
  while (got > 0 || (got < 0 && errno == EINTR));
  const int error = got == 0 ? 0 : errno;
  ::close(socket);
  if (error == EAGAIN) hone::fuzz::finding("the server does not end a connection within 15 s");
  if (error != 0 && error != ECONNRESET) hone::fuzz::finding(std::string("recv: ") + std::strerror(error));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  static HttpServer server({.port = 0, .body_bytes = 1 << 16, .read_seconds = 5}, handle);
  return fuzz::one_input(data, size, [](std::string_view bytes) { send_and_read(server.port(), bytes); });
}
