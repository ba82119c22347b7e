// The last words of a process that a signal ends (SIGFPE, SIGSEGV, SIGILL, SIGBUS, SIGABRT): a paragraph in
// the doctor's voice, and a report. The writers run inside a signal handler: no allocation, no lock, nothing
// but stores into what they are given.
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
  const char* op = nullptr;  // base::Where, as it stood
  const char* dtype = nullptr;
  std::int64_t m = 0, n = 0, k = 0, layer = -1, step = 0, checkpoint = -1;
};

// base::where as it stands.
CrashFacts crash_facts(int signal, int code, std::int64_t pid);

// Texts of a fixed size, filled from a handler; what does not fit is cut.
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

// "NUM-07" for SIGFPE and SIGILL, which no option of a run causes; "" for others.
std::string_view crash_code(int signal);
std::string_view signal_name(int signal);

// What stderr gets. `folder`: output_dir; `report`: where the report was written, empty: nowhere.
void write_crash_message(FixedText& out, const CrashFacts& facts, std::string_view folder,
                         std::string_view report);
// The report, one JSON object. `folder` is JSON's text of output_dir with its quotes.
void crash_json(FixedText& out, const CrashFacts& facts, std::string_view folder);

// crash_json's object in words, for `hone explain`.
std::string explain_crash(const base::Json& report);

}  // namespace hone::doctor
