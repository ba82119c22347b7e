#include "doctor/crash_text.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/process/signal_names.h"

namespace hone::doctor {

namespace {

constexpr std::string_view kNotThis =
    "learning rate, warm-up, clipping, accumulation: the crash does not depend on them";

// What a compute library's instruction died of, as far as the kernel says.
std::string_view detail(int signal, int code) {
  if (signal == SIGFPE && code == FPE_INTDIV) return ", integer division by zero";
  if (signal == SIGILL) return ", an instruction that this processor does not have";
  if (signal == SIGSEGV) return ", memory that is not the program's";
  if (signal == SIGBUS) return ", memory that could not be read: a truncated file, or a full disk";
  if (signal == SIGABRT) return ", a library gave up";
  return "";
}

std::string_view cause_of(int signal) {
  switch (signal) {
    case SIGFPE:
    case SIGILL:
      return "a defect of the matrix library or of its choice of instructions on this machine, not your "
             "settings";
    case SIGBUS:
      return "suspected: the model's file changed or was removed while it was in use";
    default:
      return "suspected: a bug in hone or in a library";
  }
}

// `folder` is the run's, or empty.
void write_fix(FixedText& out, int signal, std::string_view folder) {
  switch (signal) {
    case SIGFPE:
    case SIGILL:
      out << "`hone doctor` tries every shape of this run in a child process; layer_form: plain and dtype: "
             "float32 use other kernels";
      return;
    case SIGBUS:
      out << "do not change the model's files during a run";
      return;
    default:
      out << "report this with your command and the file of `hone bug-report" << (folder.empty() ? "" : " ")
          << folder << "`, which has the report; layer_form: plain uses other kernels";
  }
}

FixedText& write_operator(FixedText& out, const CrashFacts& facts) {
  if (facts.op == nullptr) return out << "before the first operator";
  out << facts.op << " " << (facts.dtype != nullptr ? facts.dtype : "?");
  const bool attention = std::strncmp(facts.op, "attention", 9) == 0;
  if (attention) {
    out << " tokens=" << facts.m << " heads=" << facts.n << " head_dim=" << facts.k;
  } else {
    out << " m=" << facts.m << " n=" << facts.n << " k=" << facts.k;
  }
  if (facts.layer >= 0) out << ", layer " << facts.layer;
  return out;
}

}  // namespace

CrashFacts crash_facts(int signal, int code, std::int64_t pid) {
  const base::Where& where = base::where;
  const auto now = std::memory_order_relaxed;
  return {.signal = signal,
          .code = code,
          .pid = pid,
          .op = where.op.load(now),
          .dtype = where.dtype.load(now),
          .m = where.m.load(now),
          .n = where.n.load(now),
          .k = where.k.load(now),
          .layer = where.layer.load(now),
          .step = where.step.load(now),
          .checkpoint = where.checkpoint.load(now)};
}

FixedText& FixedText::operator<<(std::string_view text) {
  const std::size_t count = std::min(text.size(), kRoom - 1 - size_);
  std::memcpy(text_ + size_, text.data(), count);
  size_ += count;
  return *this;
}

FixedText& FixedText::operator<<(std::int64_t number) {
  char digits[24];
  std::size_t at = sizeof digits;
  std::uint64_t left =
      number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  do {
    digits[--at] = static_cast<char>('0' + left % 10);
    left /= 10;
  } while (left > 0);
  if (number < 0) digits[--at] = '-';
  return *this << std::string_view(digits + at, sizeof digits - at);
}

const char* FixedText::c_str() {
  text_[size_] = '\0';
  return text_;
}

std::string_view crash_code(int signal) {
  return signal == SIGFPE || signal == SIGILL ? "NUM-07" : "";
}

void write_crash_message(FixedText& out, const CrashFacts& facts, std::string_view folder,
                         std::string_view report) {
  out << "\nhone: CRASH " << crash_code(facts.signal) << (crash_code(facts.signal).empty() ? "" : "  ")
      << "signal " << static_cast<std::int64_t>(facts.signal) << " (" << base::signal_name(facts.signal)
      << detail(facts.signal, facts.code) << ")";
  if (facts.step > 0) out << " at step " << facts.step;
  write_operator(out << "\n  where:  ", facts);
  out << "\n  likely: " << cause_of(facts.signal);
  if (!crash_code(facts.signal).empty()) out << "\n  not:    " << kNotThis;
  if (facts.checkpoint >= 0) {
    out << "\n  saved:  " << folder << "/checkpoint-" << facts.checkpoint
        << " is complete: continue with --resume_from_checkpoint true";
  } else if (facts.step > 0) {
    out << "\n  saved:  no checkpoint yet";
  }
  write_fix(out << "\n  do:     ", facts.signal, folder);
  if (!report.empty()) out << "\n  report: " << report << "  (`hone explain` reads it)";
  out << "\n";
}

void crash_json(FixedText& out, const CrashFacts& facts, std::string_view folder) {
  out << "{\"format\": \"" << kCrashFormat << "\", \"code\": \"" << crash_code(facts.signal)
      << "\", \"signal\": " << static_cast<std::int64_t>(facts.signal) << ", \"signal_name\": \""
      << base::signal_name(facts.signal) << "\", \"signal_code\": " << static_cast<std::int64_t>(facts.code)
      << ", \"pid\": " << facts.pid << ", \"step\": " << facts.step
      << ", \"checkpoint\": " << facts.checkpoint << ", \"layer\": " << facts.layer << ", \"operator\": ";
  if (facts.op == nullptr) {
    out << "null";
  } else {
    out << "\"" << facts.op << "\", \"dtype\": \"" << (facts.dtype != nullptr ? facts.dtype : "?")
        << "\", \"m\": " << facts.m << ", \"n\": " << facts.n << ", \"k\": " << facts.k;
  }
  out << ", \"output_dir\": " << folder << "}\n";
}

std::string explain_crash(const base::Json& report) {
  const auto number = [&](const char* name, std::int64_t otherwise) {
    const auto found = report.find(name);
    return found != report.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
  };
  const auto text = [&](const char* name) {
    const auto found = report.find(name);
    return found != report.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string op = text("operator"), dtype = text("dtype"), folder = text("output_dir");
  const CrashFacts facts = {.signal = static_cast<int>(number("signal", 0)),
                            .code = static_cast<int>(number("signal_code", 0)),
                            .pid = number("pid", 0),
                            .op = op.empty() ? nullptr : op.c_str(),
                            .dtype = dtype.c_str(),
                            .m = number("m", 0),
                            .n = number("n", 0),
                            .k = number("k", 0),
                            .layer = number("layer", -1),
                            .step = number("step", 0),
                            .checkpoint = number("checkpoint", -1)};
  FixedText out;
  write_crash_message(out, facts, folder, "");
  return std::string(out.view().substr(1));  // without its empty line
}

}  // namespace hone::doctor
