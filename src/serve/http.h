// HTTP/1.1 over TCP, without TLS: requests come to a function, answers go back by it or later, whole or in
// parts. The sockets, the parser and the limits are hyper's and tokio's, behind the C ABI of text-ffi
// (http_ffi.h).
//
//   HttpServer server({.port = 8000}, [](std::shared_ptr<Exchange> one) { one->answer({.body = "{}"}); });
//   server.drain(30);
//
// One thread has all sockets, and calls the handler: it must not block, nor throw.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::uint64_t id = 0;      // 1, 2, 3, ... of a server
  std::string method, path;  // "POST", "/v1/completions": as sent, without the query
  std::string query;         // behind the '?', as sent
  Headers headers;           // in order; names in lower case
  std::string body;          // whole
  // The first value of a header, whose name is in lower case; empty: there is none.
  std::string_view header(std::string_view name) const;
  // Says whether `type` is its content-type, with or without parameters.
  bool has_type(std::string_view type) const;
};

std::string percent_decoded(std::string_view text);  // of a path; what is no %XX stays

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  Headers headers = {};  // beside content-type, content-length, date and connection
};

// One request and what becomes of it: exactly one answer, or one stream. All functions may be called from any
// thread, and none blocks. What is sent to a client that has left is dropped. An exchange that is destroyed
// without an answer gets a 500.
class Exchange {
 public:
  explicit Exchange(HttpRequest asked) : request(std::move(asked)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  const HttpRequest request;

  // Returns the status that the client gets: that of `answer`, or 503 (HttpOptions::all_answer_bytes).
  virtual int answer(HttpAnswer answer) = 0;
  // Parts are sent as they come. A client that does not read its stream loses the connection when
  // HttpOptions::held_bytes of it wait.
  virtual void begin_stream(int status, std::string type) = 0;
  virtual void part(std::string bytes) = 0;
  virtual void end() = 0;

  virtual bool gone() const = 0;  // the client has left
  // `left` is called once on the network's thread if the client leaves before the answer or the stream has
  // ended, now if it has left already. A second call replaces the first function, which may run at this
  // moment for the last time; an empty one takes it away.
  virtual void when_gone(std::function<void()> left) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address of this machine, or a name of it
  int port = 0;                    // 0: any that is free
  std::int64_t head_bytes = 32 << 10;
  std::int64_t body_bytes = 16 << 20;  // a stated length above it is refused before the body is read
  double read_seconds = 30;            // for a head, and for a body
  // At once. A further one has the oldest closed that has asked for nothing yet; if there is none, it waits.
  std::int64_t connections = 4096;
  std::int64_t held_bytes = 4 << 20;  // of a stream that its client does not read
  // The answers and streams that clients have not read yet hold so much together. A further answer is a 503 instead, and a
  // further part closes its connection.
  std::int64_t all_answer_bytes = 512 << 20;
  // Names that the Host header may have, beside the loopback names when host is loopback; "*": any. A page of
  // another site whose name was made to point here sends its own.
  std::vector<std::string> names = {};
};

class HttpServer {
 public:
  // Listens when it returns. UserError for an address that cannot be listened on.
  HttpServer(HttpOptions options, Handler handler);
  ~HttpServer();  // closes all connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::int64_t connections() const;  // open now
  // Accepts no more connections, closes those that are idle, and waits for the others to end. After `seconds`
  // they are closed. Says whether all ended by themselves.
  bool drain(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::serve
