#include "serve/http.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "http_ffi.h"
#include "text/ffi.h"

namespace hone::serve {

namespace {

constexpr double kWriteSeconds = 60;
constexpr std::uint64_t kAllBodies = 256 << 20;

hone_http_text view_of(const std::string& text) {
  return {.data = text.data(), .size = text.size()};
}

std::string copy_of(hone_http_text text) {
  return text.size == 0 ? std::string() : std::string(text.data, text.size);
}

class FfiExchange : public Exchange {
 public:
  FfiExchange(HttpRequest asked, hone_http_call* call) : Exchange(std::move(asked)), call_(call) {}
  ~FfiExchange() override { hone_http_free_call(call_); }

  int answer(HttpAnswer given) override {
    return head(given.status, given.type, given.headers, given.body, true);
  }
  void begin_stream(int status, std::string type) override {
    head(status, type, {{"cache-control", "no-cache"}}, "", false);
  }
  void part(std::string bytes) override { hone_http_part(call_, bytes.data(), bytes.size()); }
  void end() override { hone_http_end(call_); }
  bool gone() const override { return hone_http_gone(call_) != 0; }
  void when_gone(std::function<void()> left) override {
    if (!left) {
      hone_http_when_gone(call_, nullptr, nullptr, nullptr);
      return;
    }
    hone_http_when_gone(call_, &FfiExchange::call_left, &FfiExchange::free_left,
                        std::make_unique<std::function<void()>>(std::move(left)).release());
  }

 private:
  using Left = std::function<void()>;
  static void call_left(void* user) { (*static_cast<Left*>(user))(); }
  static void free_left(void* user) { const std::unique_ptr<Left> freed(static_cast<Left*>(user)); }

  int head(int status, const std::string& type, const Headers& more, const std::string& body, bool whole) {
    static const std::string kType = "content-type";
    std::vector<hone_http_header> headers = {{.name = view_of(kType), .value = view_of(type)}};
    for (const auto& [name, value] : more)
      headers.push_back({.name = view_of(name), .value = view_of(value)});
    return hone_http_answer(call_, static_cast<std::uint16_t>(status), headers.data(), headers.size(),
                            body.data(), body.size(), whole ? 1 : 0);
  }

  hone_http_call* const call_;
};

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == "[::1]";
}

// The name of a Host header, without the port, in lower case.
std::string name_in(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket))
    host = host.substr(0, colon);
  std::string out(host);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

bool may_have(const HttpOptions& options, std::string_view host) {
  const std::string name = name_in(host);
  if (is_loopback(options.host) && is_loopback(name)) return true;
  if (name == options.host) return true;
  return std::any_of(options.names.begin(), options.names.end(),
                     [&](const std::string& one) { return one == "*" || one == name; });
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto place =
      std::find_if(headers.begin(), headers.end(), [&](const auto& one) { return one.first == name; });
  return place == headers.end() ? std::string_view() : std::string_view(place->second);
}

bool HttpRequest::has_type(std::string_view type) const {
  const std::string_view given = header("content-type");
  return given.substr(0, given.find(';')) == type;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct HttpServer::Impl {
  HttpOptions options;
  Handler handler;
  hone_http_server* server = nullptr;

  static void receive(void* user, hone_http_call* call, const hone_http_request* asked) {
    const Impl& self = *static_cast<const Impl*>(user);
    HttpRequest request{.id = asked->id,
                        .method = copy_of(asked->method),
                        .path = copy_of(asked->path),
                        .query = copy_of(asked->query),
                        .headers = {},
                        .body = copy_of(asked->body)};
    for (std::size_t i = 0; i < asked->header_count; ++i)
      request.headers.emplace_back(copy_of(asked->headers[i].name), copy_of(asked->headers[i].value));
    const auto exchange = std::make_shared<FfiExchange>(std::move(request), call);
    if (!may_have(self.options, exchange->request.header("host"))) {
      exchange->answer({.status = 421,
                        .body = R"({"error":{"message":"the Host header names another server","type":)"
                                R"("invalid_request_error","param":null,"code":null}})"});
      return;
    }
    self.handler(exchange);
  }
};

HttpServer::HttpServer(HttpOptions options, Handler handler) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->handler = std::move(handler);
  const HttpOptions& given = impl_->options;
  const hone_http_options settings = {.host = view_of(given.host),
                                      .port = static_cast<std::uint16_t>(given.port),
                                      .head_bytes = static_cast<std::uint64_t>(given.head_bytes),
                                      .body_bytes = static_cast<std::uint64_t>(given.body_bytes),
                                      .all_body_bytes = kAllBodies,
                                      .held_bytes = static_cast<std::uint64_t>(given.held_bytes),
                                      .all_answer_bytes = static_cast<std::uint64_t>(given.all_answer_bytes),
                                      .connections = static_cast<std::uint64_t>(given.connections),
                                      .read_seconds = given.read_seconds,
                                      .write_seconds = kWriteSeconds};
  text::RustText error;
  if (hone_http_start(&settings, &Impl::receive, impl_.get(), &impl_->server, error.out()) == 0) return;
  throw base::UserError({.where = "port " + std::to_string(given.port),
                         .expected = "an address of this machine that is free: " + given.host,
                         .found = error.str(),
                         .cause = "another program listens there, or ports below 1024 are not for every user",
                         .fix = "write --port 0 for a free one, or another number"});
}

HttpServer::~HttpServer() {
  hone_http_free(impl_->server);
}

int HttpServer::port() const {
  return hone_http_port(impl_->server);
}

std::int64_t HttpServer::connections() const {
  return static_cast<std::int64_t>(hone_http_connections(impl_->server));
}

bool HttpServer::drain(double seconds) {
  return hone_http_drain(impl_->server, seconds) != 0;
}

}  // namespace hone::serve
