// hone report --serve: who knows the address gets the page, nobody else gets anything.
#include "report/page/serve_page.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"

namespace hone::report {
namespace page_serve_test {

class ServedPage : public testing::Test {
 protected:
  void SetUp() override {
    thread_ = std::thread([this] { server_.serve(stop_); });
  }
  void TearDown() override {
    stop_ = true;
    thread_.join();
  }

  int connection() const {
    const int out = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(port_);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(out, reinterpret_cast<sockaddr*>(&there), sizeof(there)), 0);
    return out;
  }
  std::string asked(const std::string& request) const {
    const int socket = connection();
    ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    ::shutdown(socket, SHUT_WR);
    std::string out(1 << 16, '\0');
    std::size_t size = 0;
    for (ssize_t more = 1; more > 0; size += static_cast<std::size_t>(std::max<ssize_t>(more, 0)))
      more = ::recv(socket, out.data() + size, out.size() - size, 0);
    ::close(socket);
    out.resize(size);
    return out;
  }
  std::string get(const std::string& path, const std::string& host, const std::string& method = "GET") const {
    return asked(method + " " + path + " HTTP/1.1\r\nUser-Agent: test\r\nHost: " + host + "\r\n\r\n");
  }

  std::atomic<int> made_ = 0;
  PageServer server_{0, [this] {
                       if (++made_ == 3)
                         throw base::UserError(
                             {.where = "runs/first", .expected = "metrics", .found = "none", .fix = "look"});
                       return "<p>page " + std::to_string(made_) + "</p>";
                     }};
  std::string address_ = server_.address();
  std::uint16_t port_ = static_cast<std::uint16_t>(std::stoi(address_.substr(17)));
  std::string path_ = address_.substr(address_.find('/', 17));
  std::string host_ = "127.0.0.1:" + std::to_string(port_);
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_F(ServedPage, AnswersWhoHasTheToken) {
  EXPECT_EQ(path_.size(), 34U);
  const std::string first = get(path_, host_);
  EXPECT_TRUE(first.starts_with(
      "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 13\r\n"))
      << first;
  EXPECT_TRUE(first.ends_with("\r\n\r\n<p>page 1</p>")) << first;
  for (const char* header : {"Referrer-Policy: no-referrer", "X-Frame-Options: DENY",
                             "Cache-Control: no-store", "X-Content-Type-Options: nosniff"})
    EXPECT_NE(first.find(header), std::string::npos) << header;
  EXPECT_TRUE(get(path_ + "?x=1", "localhost:" + std::to_string(port_)).ends_with("<p>page 2</p>"));
  EXPECT_TRUE(get(path_, host_).starts_with("HTTP/1.1 500")) << "the run is gone";
  const std::string head = get(path_, host_, "HEAD");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n")) << head;
}

TEST_F(ServedPage, AnswersNobodyElse) {
  const std::string other(32, '0');
  for (const std::string& path : {std::string("/"), "/" + other + "/", "/" + path_.substr(1, 31),
                                  path_ + "../" + other, std::string("//"), path_ + "x"})
    EXPECT_TRUE(get(path, host_).starts_with("HTTP/1.1 404")) << path;
  EXPECT_TRUE(get(path_, "evil.example:" + std::to_string(port_)).starts_with("HTTP/1.1 421"))
      << "a name that was made to point here";
  EXPECT_TRUE(get(path_, "").starts_with("HTTP/1.1 421"));
  EXPECT_TRUE(get(path_, host_, "POST").starts_with("HTTP/1.1 405"));
  EXPECT_EQ(asked("GET " + path_), "") << "no whole request";
  EXPECT_EQ(asked(std::string(100'000, 'x')).find("page"), std::string::npos);
  EXPECT_EQ(made_, 0);
}

TEST_F(ServedPage, APortThatIsTakenIsASentence) {
  try {
    const PageServer second(port_, [] { return std::string(); });
    ADD_FAILURE() << "expected a UserError";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("a port of this machine that is free"), std::string::npos);
  }
}

TEST_F(ServedPage, TokensDiffer) {
  const PageServer second(0, [] { return std::string(); });
  EXPECT_NE(second.address().substr(second.address().find('/', 17)), path_);
}

}  // namespace page_serve_test
}  // namespace hone::report
