#include "report/terminal/verdict_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/enum_names.h"
#include "report/fit_page.h"
#include "report/terminal/text_width.h"
#include "report/terminal/wrap_text.h"

namespace hone::report {

namespace {

using base::Level;
using base::Verdict;

constexpr int kScreen = 40;         // lines of an examination without -v
constexpr std::size_t kDetail = 8;  // columns before "evidence"
constexpr std::size_t kLabel = 11;  // "evidence   "

std::string colored(const Terminal& terminal, Level level, std::string_view text) {
  if (level == Level::kOk) return terminal.green(text);
  return level == Level::kNote ? std::string(text) : terminal.bold(text);
}

std::string fix_text(const Verdict& one) {
  return one.repair.empty() || one.fix.empty() ? one.fix : one.fix + "   [--fix applies it]";
}

// "evidence   ..." and its kin, each on lines of its own.
std::string detail_lines(const Verdict& one, const std::string& fix, std::size_t indent, std::size_t label,
                         std::size_t columns) {
  const std::array<std::pair<std::string_view, std::string_view>, 5> fields = {{{"evidence", one.evidence},
                                                                                {"cause", one.cause},
                                                                                {"not this", one.not_this},
                                                                                {"fix", fix},
                                                                                {"cost", one.cost}}};
  std::string out;
  for (const auto& [name, text] : fields) {
    if (text.empty()) continue;
    out += fmt::format("{:{}}{:<{}}{}\n", "", indent, name, label,
                       wrap_text(visible_controls(text), indent + label, columns));
  }
  return out;
}

int line_count(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

std::string describe_count(std::size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// A tiny run's examination takes tenths.
std::string short_seconds(double seconds) {
  return seconds < 9.95 ? fmt::format("{:.1f} s", seconds) : human_seconds(seconds);
}

std::string with_code(const Verdict& one) {
  return one.code.empty() ? one.what : one.code + "  " + one.what;
}

// What a part that is ok says in one line: as many of its facts as fit. What cannot happen is no fact of this
// run: -v.
std::string ok_text(const doctor::ExamPart& part, std::size_t columns) {
  std::string out;
  for (const Verdict& one : part.verdicts) {
    if (one.level != Level::kOk || one.what.empty() || one.what.starts_with("impossible")) continue;
    const std::string longer = out.empty() ? one.what : out + "; " + one.what;
    if (!out.empty() && static_cast<std::size_t>(columns_of(longer)) > columns) continue;
    out = longer;
  }
  return fit_line(out, static_cast<int>(columns));
}

}  // namespace

std::string_view level_name(Level level) {
  static constexpr std::array<std::string_view, 4> kNames = {"ok", "note", "warn", "FAIL"};
  return base::enum_name(kNames, level);
}

VerdictLines::VerdictLines(std::vector<std::string> parts, Terminal terminal, bool verbose)
    : parts_(std::move(parts)), terminal_(terminal), verbose_(verbose), lines_left_(kScreen) {
  lines_left_ -= static_cast<int>(parts_.size()) + 2;  // a line each, the header and the result
}

std::string VerdictLines::prefix(const std::string& name, Level level) const {
  const auto at = std::find(parts_.begin(), parts_.end(), name);
  const std::string total = std::to_string(parts_.size());
  const std::string number = fmt::format("[{:>{}}/{}]", at - parts_.begin() + 1, total.size(), total);
  return fmt::format("{} {:<10} {}", number, name,
                     colored(terminal_, level, fmt::format("{:<4}", level_name(level))));
}

// Without -v, lines are spent on failures first: a note has one line, and none when the screen is full.
std::string VerdictLines::verdict(const Verdict& one, const std::string& name) {
  const std::size_t columns = page_columns(terminal_.columns);
  const std::size_t indent = kDetail + kLabel;
  std::string head =
      prefix(name, one.level) + "  " + wrap_text(visible_controls(with_code(one)), indent, columns - 5);
  head += '\n';
  std::string detail;
  if (verbose_ || one.level >= Level::kWarn)
    detail = detail_lines(one, fix_text(one), kDetail, kLabel, columns);
  if (!verbose_) {
    const bool has_room = lines_left_ - line_count(head) - line_count(detail) >= 0;
    if (!has_room && one.level < Level::kFail) {
      hidden_ += 1;
      return "";
    }
    if (!has_room) {
      hidden_ += detail.empty() ? 0 : 1;
      detail.clear();
    }
  }
  lines_left_ -= line_count(head) + line_count(detail);
  return head + detail;
}

std::string VerdictLines::part(const doctor::ExamPart& part) {
  come_.push_back(part.name);
  std::string out;
  std::vector<const Verdict*> shown;
  for (const Verdict& one : part.verdicts) {
    errors_ += one.level == Level::kFail ? 1 : 0;
    warnings_ += one.level == Level::kWarn ? 1 : 0;
    if (one.level == Level::kFail && first_code_.empty())
      first_code_ = one.code.empty() ? part.name : one.code;
    if (verbose_ || one.level != Level::kOk) shown.push_back(&one);
  }
  const bool is_ok = std::none_of(part.verdicts.begin(), part.verdicts.end(),
                                  [](const Verdict& one) { return one.level >= Level::kWarn; });
  if (is_ok && (!verbose_ || shown.empty())) {
    const std::string text = ok_text(part, page_columns(terminal_.columns) - 24);
    out += prefix(part.name, Level::kOk) + (text.empty() ? "" : "  " + text) + "\n";
  }
  // The worst first.
  std::stable_sort(shown.begin(), shown.end(),
                   [](const auto* a, const auto* b) { return a->level > b->level; });
  for (const Verdict* one : shown) out += verdict(*one, part.name);
  if (verbose_ && part.seconds >= 0.05) {
    out += terminal_.dim(fmt::format("{:{}}{:.1f} s", "", kDetail, part.seconds)) + "\n";
  }
  return out;
}

std::vector<std::string> VerdictLines::blocked() const {
  std::vector<std::string> out;
  for (const std::string& name : parts_) {
    if (std::find(come_.begin(), come_.end(), name) == come_.end()) out.push_back(name);
  }
  return out;
}

std::string VerdictLines::not_run() const {
  const std::vector<std::string> names = blocked();
  if (names.empty()) return "";
  const std::string why = first_code_.empty() ? "" : fmt::format(" (blocked by {})", first_code_);
  return fit_page(fmt::format("not run  {}{}\n", fmt::join(names, ", "), why), terminal_.columns);
}

int VerdictLines::exit_code(bool strict) const {
  if (errors_ > 0) return 2;
  return strict && warnings_ > 0 ? 1 : 0;
}

std::string VerdictLines::result(double seconds, bool strict) const {
  const int code = exit_code(strict);
  std::string words = fmt::format("{}, {}.", describe_count(come_.size(), "part"), short_seconds(seconds));
  if (errors_ > 0) {
    words =
        fmt::format("{}{}. Nothing was trained; the checks took {}.", describe_count(errors_, "error"),
                    warnings_ > 0 ? ", " + describe_count(warnings_, "warning") : "", short_seconds(seconds));
  } else if (warnings_ > 0) {
    words = fmt::format("{}, {}, {}.", describe_count(warnings_, "warning"),
                        describe_count(come_.size(), "part"), short_seconds(seconds));
  }
  if (hidden_ > 0) words += fmt::format(" {} more with -v.", describe_count(hidden_, "remark"));
  const Level level = errors_ > 0 ? Level::kFail : warnings_ > 0 ? Level::kWarn : Level::kOk;
  const std::string_view word = errors_ > 0 ? "FAIL" : "OK";
  words += fmt::format("   exit {}", code);
  if (terminal_.columns > 0) words = wrap_text(words, 14, page_columns(terminal_.columns));
  return fmt::format("{}  {}  {}\n", terminal_.bold("RESULT"),
                     colored(terminal_, level, fmt::format("{:<4}", word)), words);
}

std::string run_verdict_lines(const Verdict& verdict, std::int64_t step, const Terminal& terminal) {
  const std::size_t columns = page_columns(terminal.columns);
  const std::string when = step > 0 ? fmt::format("step {}  ", step) : "";
  std::string out =
      fmt::format("doctor    {}{}  {}\n", when, colored(terminal, verdict.level, level_name(verdict.level)),
                  wrap_text(visible_controls(with_code(verdict)), 20, columns));
  if (verdict.level < Level::kWarn) return out;
  return out + detail_lines(verdict, verdict.fix, 10, 10, columns);
}

base::Json verdict_json(const Verdict& verdict) {
  base::Json out;
  std::string level(level_name(verdict.level));
  if (verdict.level == Level::kFail) level = "fail";
  out["code"] = verdict.code;
  out["level"] = level;
  out["part"] = verdict.part;
  out["what"] = verdict.what;
  const auto add = [&out](const char* name, const std::string& text) {
    if (!text.empty()) out[name] = text;
  };
  add("evidence", verdict.evidence);
  add("cause", verdict.cause);
  add("not_this", verdict.not_this);
  add("fix", verdict.fix);
  add("cost", verdict.cost);
  for (const auto& [option, value] : verdict.repair) out["repair"][option] = value;
  return out;
}

base::Json examination_json(const std::vector<doctor::ExamPart>& parts,
                            const std::vector<std::string>& planned, double seconds, bool strict) {
  VerdictLines lines(planned, {}, true);
  base::Json list = base::Json::array();
  Level worst = Level::kOk;
  for (const doctor::ExamPart& part : parts) {
    lines.part(part);
    base::Json verdicts = base::Json::array();
    for (const Verdict& one : part.verdicts) {
      verdicts.push_back(verdict_json(one));
      worst = std::max(worst, one.level);
    }
    list.push_back({{"name", part.name}, {"seconds", part.seconds}, {"verdicts", std::move(verdicts)}});
  }
  base::Json out;
  out["result"] = worst == Level::kFail ? "fail" : worst == Level::kWarn ? "warn" : "ok";
  out["exit"] = lines.exit_code(strict);
  out["seconds"] = seconds;
  out["parts"] = std::move(list);
  out["not_run"] = lines.blocked();
  return out;
}

}  // namespace hone::report
