#include "report/samples_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/strings/plural.h"
#include "report/terminal/text_width.h"

namespace hone::report {

namespace {

constexpr int kPlainColumns = 100, kSampleIndent = 10;
constexpr std::size_t kShown = 3;
constexpr std::string_view kTruncated = " (cut)";  // at the most new tokens

const std::string& asked_of(const train::CompletionFacts& one) {
  return one.asked.empty() ? one.prompt : one.asked;
}

std::string sample_line(std::string_view head, std::string_view text, std::string_view end, int width) {
  const int left = std::max(1, width - kSampleIndent - static_cast<int>(end.size()));
  return fmt::format("{:>8}  {}{}\n", head, fit_line(text, left), end);
}

std::string completion_line(const train::SampleFacts& facts, std::size_t i, int width) {
  const train::CompletionFacts& one = facts.completions[i];
  return sample_line(std::to_string(facts.step), one.completion.empty() ? "(empty)" : one.completion,
                     one.truncated ? kTruncated : "", width);
}

// Of the same prompts, as far as they are known.
bool is_earlier(const train::SampleFacts* first, const train::SampleFacts& now, std::size_t i) {
  return first != nullptr && first->step < now.step && i < first->completions.size() &&
         first->completions[i].prompt == now.completions[i].prompt;
}

std::string as_code(const std::string& text) {
  std::istringstream lines(visible_controls(text));
  std::string out;
  for (std::string one; std::getline(lines, one);) out += "    " + one + "\n";
  return out.empty() ? "    \n" : out;
}

}  // namespace

std::string samples_lines(const train::SampleFacts* first, const train::SampleFacts& now,
                          const Terminal& terminal) {
  const int width = terminal.columns > 0 ? terminal.columns : kPlainColumns;
  const std::size_t all = now.completions.size(), shown = std::min(all, kShown);
  const std::string of =
      shown < all ? fmt::format(", {} of {}", shown, base::counted(static_cast<std::int64_t>(all), "prompt"))
                  : "";
  std::string out = fmt::format("samples   step {}{}; those of all steps: samples.jsonl\n", now.step, of);
  for (std::size_t i = 0; i < shown; ++i) {
    out += terminal.dim(sample_line("prompt", asked_of(now.completions[i]), "", width));
    if (is_earlier(first, now, i)) out += completion_line(*first, i, width);
    out += completion_line(now, i, width);
  }
  return out;
}

std::string sample_markdown(const train::CompletionFacts& sample) {
  return "prompt\n\n" + as_code(asked_of(sample)) + "\ncompletion" + (sample.truncated ? " (cut)" : "") +
         "\n\n" + as_code(sample.completion);
}

}  // namespace hone::report
