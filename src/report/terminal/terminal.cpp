#include "report/terminal/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

#include "base/files/file.h"
#include "base/strings/printable.h"

namespace hone::report {

namespace {

std::string wrap(bool on, std::string_view code, std::string_view text) {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace

std::string Terminal::bold(std::string_view text) const {
  return wrap(color, "1", text);
}
std::string Terminal::green(std::string_view text) const {
  return wrap(color, "32", text);
}
std::string Terminal::dim(std::string_view text) const {
  return wrap(color, "2", text);
}

Terminal terminal_of(int descriptor) {
  const bool interactive = isatty(descriptor) == 1;
  winsize size{};
  const bool known = interactive && ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return {.interactive = interactive, .color = interactive, .columns = known ? size.ws_col : 0};
}

std::string visible_controls(std::string_view text) {
  return base::printable(text);
}

std::string human_count(std::int64_t value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return value < 0 ? fmt::format("-{}", digits) : digits;
}

std::string human_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 1e3) return fmt::format("{} bytes", bytes);
  if (value < 1e6) return fmt::format("{:.1f} kB", value / 1e3);
  if (value < 1e9) return fmt::format("{:.1f} MB", value / 1e6);
  return base::gigabytes(bytes);
}

std::string human_seconds(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace hone::report
