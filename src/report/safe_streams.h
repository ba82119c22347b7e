// std::cout and std::cerr that cannot steer a terminal, whatever text is written to them.
#pragma once

#include <array>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace hone::report {

// Passes on base::printable() of what is written. Only to a terminal the sequences that hone itself makes
// (Terminal's colors and the line that rewrites itself) pass too; each has to be written in one piece. A
// character of UTF-8 may come in pieces; what is incomplete at a flush is spelled out. JSON goes through
// base::printable_json first.
class SafeBuffer : public std::streambuf {
 public:
  SafeBuffer(std::streambuf* out, bool terminal) : out_(out), terminal_(terminal) {}

  // The sequences that pass.
  static constexpr std::array<std::string_view, 5> kOurs = {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m",
                                                            "\r\x1b[K"};

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int overflow(int character) override;
  int sync() override;

 private:
  bool put(std::string_view text);
  bool put_all(std::string_view text);

  std::streambuf* out_;
  bool terminal_;
  std::string tail_;  // the begin of a character
  std::mutex one_at_a_time_;
};

// While it lives, std::cout and std::cerr are safe.
class SafeStreams {
 public:
  SafeStreams();
  SafeStreams(const SafeStreams&) = delete;
  SafeStreams& operator=(const SafeStreams&) = delete;
  ~SafeStreams();

 private:
  std::streambuf *cout_, *cerr_;
  SafeBuffer safe_cout_, safe_cerr_;
};

}  // namespace hone::report
