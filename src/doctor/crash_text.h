// The message and the report of a process that a signal ends (SIGFPE, SIGSEGV, SIGILL, SIGBUS, SIGABRT). They
// are written inside a signal handler: without allocation or locks, only with stores into the given buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/where.h"

namespace hone::doctor {

inline constexpr const char* kCrashFormat = "hone-crash-1";

struct CrashFacts {
  int signal = 0, code = 0;  // siginfo's si_code
  std::int64_t pid = 0;
  const char* op = nullptr;  // base::Where at the crash
  const char* dtype = nullptr;
  std::int64_t m = 0, n = 0, k = 0, layer = -1, step = 0, checkpoint = -1;
};

// The current base::where.
CrashFacts crash_facts(int signal, int code, std::int64_t pid);

// Texts of a fixed size, filled from a handler; longer text is cut.
class FixedText {
 public:
  FixedText& operator<<(std::string_view text);
  FixedText& operator<<(std::int64_t number);
  std::string_view view() const { return {text_, size_}; }
  const char* c_str();

 private:
  static constexpr std::size_t kRoom = 4096;
  char text_[kRoom] = {};
  std::size_t size_ = 0;
};

// "NUM-07" for SIGFPE and SIGILL, which no option can cause; "" for others.
std::string_view crash_code(int signal);

// The message for stderr. `folder`: output_dir; `report`: where the report was written, empty: nowhere.
void write_crash_message(FixedText& out, const CrashFacts& facts, std::string_view folder,
                         std::string_view report);
// The report, one JSON object. `folder` is output_dir as a JSON string, with quotes.
void crash_json(FixedText& out, const CrashFacts& facts, std::string_view folder);

// crash_json's object as text, for `hone explain`.
std::string explain_crash(const base::Json& report);

}  // namespace hone::doctor
