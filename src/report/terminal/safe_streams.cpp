#include "report/terminal/safe_streams.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/strings/printable.h"

namespace hone::report {
namespace {

// Where a character of UTF-8 begins that `text` does not end, or text.size().
std::size_t begin_of_unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto lead = static_cast<unsigned char>(text[text.size() - back]);
    if ((lead & 0xC0U) == 0x80U) continue;
    const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
    return size > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace

bool SafeBuffer::put_all(std::string_view text) {
  return out_->sputn(text.data(), static_cast<std::streamsize>(text.size())) ==
         static_cast<std::streamsize>(text.size());
}

bool SafeBuffer::put(std::string_view text) {
  if (!terminal_) return put_all(base::printable(text));
  std::size_t plain = 0;  // text[plain, at) is still to be written
  for (std::size_t at = text.find_first_of("\x1b\r"); at != std::string_view::npos;
       at = text.find_first_of("\x1b\r", at)) {
    const auto ours = std::find_if(kOurs.begin(), kOurs.end(),
                                   [&](std::string_view one) { return text.substr(at).starts_with(one); });
    if (ours == kOurs.end()) {
      ++at;
      continue;
    }
    if (!put_all(base::printable(text.substr(plain, at - plain))) || !put_all(*ours)) return false;
    at += ours->size();
    plain = at;
  }
  return put_all(base::printable(text.substr(plain)));
}

std::streamsize SafeBuffer::xsputn(const char* text, std::streamsize size) {
  const std::lock_guard lock(one_at_a_time_);
  const std::string whole = tail_ + std::string(text, static_cast<std::size_t>(size));
  const std::size_t end = begin_of_unfinished(whole);
  tail_ = whole.substr(end);
  return put(std::string_view(whole).substr(0, end)) ? size : 0;
}

int SafeBuffer::overflow(int character) {
  if (character == traits_type::eof()) return traits_type::not_eof(character);
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

int SafeBuffer::sync() {
  const std::lock_guard lock(one_at_a_time_);
  const bool written = put_all(base::printable(tail_));
  tail_.clear();
  return written && out_->pubsync() == 0 ? 0 : -1;
}

SafeStreams::SafeStreams()
    : cout_(std::cout.rdbuf()),
      cerr_(std::cerr.rdbuf()),
      safe_cout_(cout_, isatty(STDOUT_FILENO) == 1),
      safe_cerr_(cerr_, isatty(STDERR_FILENO) == 1) {
  std::cout.rdbuf(&safe_cout_);
  std::cerr.rdbuf(&safe_cerr_);
}

SafeStreams::~SafeStreams() {
  std::cout.flush();
  std::cerr.flush();
  std::cout.rdbuf(cout_);
  std::cerr.rdbuf(cerr_);
}

}  // namespace hone::report
