// The names of signals, for messages and reports. Only signal_text allocates; the others are safe in a signal
// handler.
#pragma once

#include <array>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

namespace hone::base {

// These signals end a process; they are in the order of their numbers on Linux.
inline constexpr std::array<std::pair<int, std::string_view>, 15> kSignalNames = {{
    {SIGHUP, "SIGHUP"},
    {SIGINT, "SIGINT"},
    {SIGQUIT, "SIGQUIT"},
    {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"},
    {SIGABRT, "SIGABRT"},
    {SIGBUS, "SIGBUS"},
    {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"},
    {SIGSEGV, "SIGSEGV"},
    {SIGPIPE, "SIGPIPE"},
    {SIGALRM, "SIGALRM"},
    {SIGTERM, "SIGTERM"},
    {SIGXCPU, "SIGXCPU"},
    {SIGSYS, "SIGSYS"},
}};

// "SIGFPE"; "" for a signal that the table lacks.
constexpr std::string_view signal_name(int signal) {
  for (const auto& [number, name] : kSignalNames) {
    if (number == signal) return name;
  }
  return "";
}

// The signal of that name; 0: none.
constexpr int signal_number(std::string_view wanted) {
  for (const auto& [number, name] : kSignalNames) {
    if (name == wanted) return number;
  }
  return 0;
}

// "SIGFPE"; "signal 40" for one that the table lacks.
inline std::string signal_text(int signal) {
  const std::string_view name = signal_name(signal);
  return name.empty() ? "signal " + std::to_string(signal) : std::string(name);
}

}  // namespace hone::base
