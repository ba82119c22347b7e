// Makes std::cout and std::cerr escape control sequences in all text that is written to them.
#pragma once

#include <array>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace hone::report {

// Writes base::printable() of the text. hone's own sequences (Terminal's colors and the progress line) are
// kept, only for a terminal; each must be written in one piece. A UTF-8 character may be written in pieces;
// an incomplete one is escaped at a flush. JSON is passed through base::printable_json first.
class SafeBuffer : public std::streambuf {
 public:
  SafeBuffer(std::streambuf* out, bool terminal) : out_(out), terminal_(terminal) {}

  // The sequences that are kept.
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
  std::string tail_;  // the start of a character
  std::mutex one_at_a_time_;
};

// std::cout and std::cerr are safe while it lives.
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
