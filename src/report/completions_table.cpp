#include "report/completions_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/json.h"
#include "report/dialogue_turns.h"
#include "report/terminal/text_width.h"

namespace hone::report {

namespace {

constexpr int kWithoutTerminal = 100;
constexpr int kIndent = 4, kGap = 2;
constexpr int kLeastText = 16;                  // columns of a completion
constexpr int kLeastNumber = 7, kMaxName = 24;  // columns of a number: "-100.00"
constexpr int kMaxExtra = 24;
constexpr std::string_view kCut = " (truncated)";
constexpr std::size_t kMostTurns = 16;  // lines of a dialogue; those in its middle are left out

std::string number(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.2f}", value);
}

std::string extra_text(const base::Json& value) {
  return value.is_string() ? value.get<std::string>() : base::dump_json(value);
}

// A text on `width` columns, to the right for numbers.
std::string cell(std::string_view text, int width, bool right) {
  const std::string fitted = fit_line(text, width);
  const auto fill = static_cast<std::size_t>(std::max(0, width - columns_of(fitted)));
  const std::string spaces(fill, ' ');
  return right ? spaces + fitted : fitted + spaces;
}

struct Column {
  std::string name;
  bool right = true;
  int width = 0;
  std::vector<std::string> cells;  // one a shown completion
};

std::vector<std::size_t> chosen(const train::RolloutFacts& facts, const CompletionsTableOptions& shown) {
  std::vector<std::size_t> all;
  std::set<std::string_view> prompts;
  for (std::size_t i = 0; i < facts.completions.size(); ++i) {
    const bool first = prompts.insert(facts.completions[i].prompt).second;
    if (first || !shown.unique_prompts) all.push_back(i);
  }
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(0, shown.most));
  if (most == 0 || most >= all.size()) return all;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < most; ++i) out.push_back(all[i * all.size() / most]);
  return out;
}

// Everything but prompt and completion.
std::vector<Column> make_columns(const train::RolloutFacts& facts, const std::vector<std::size_t>& rows) {
  std::vector<Column> out;
  for (std::size_t k = 0; k < facts.reward_names.size(); ++k) {
    out.push_back({.name = facts.reward_names[k]});
    for (const std::size_t row : rows)
      out.back().cells.push_back(number(facts.completions[row].rewards.at(k)));
  }
  out.push_back({.name = "advantage"});
  for (const std::size_t row : rows) out.back().cells.push_back(number(facts.completions[row].advantage));
  if (rows.empty()) return out;
  for (std::size_t k = 0; k < facts.completions[rows.front()].extra.size(); ++k) {
    out.push_back({.name = facts.completions[rows.front()].extra[k].first, .right = false});
    for (const std::size_t row : rows) {
      const auto& extra = facts.completions[row].extra;
      out.back().cells.push_back(k < extra.size() ? extra_text(extra[k].second) : "-");
    }
  }
  return out;
}

// Natural widths; then, where that leaves too little for the text, names and extra columns shrink.
void set_widths(std::vector<Column>& columns, int for_columns) {
  int total = 0;
  for (Column& column : columns) {
    int cells = column.right ? kLeastNumber : 1;
    for (const std::string& each : column.cells) cells = std::max(cells, columns_of(each));
    if (!column.right) cells = std::min(cells, kMaxExtra);
    column.width = std::max(cells, std::min(columns_of(column.name), kMaxName));
    total += column.width + kGap;
  }
  while (total > for_columns) {
    const auto widest = std::max_element(columns.begin(), columns.end(),
                                         [](const Column& a, const Column& b) { return a.width < b.width; });
    if (widest->width <= kLeastNumber) return;
    widest->width -= 1;
    total -= 1;
  }
}

std::string turn_text(const DialogueTurn& turn) {
  switch (turn.kind) {
    case DialogueTurn::Kind::kReasoning:
      return "(thinks) " + turn.text;
    case DialogueTurn::Kind::kSaid:
      return turn.text;
    case DialogueTurn::Kind::kCall:
      return "-> " + turn.name + " " + turn.text;
    case DialogueTurn::Kind::kResult:
      break;
  }
  return "<- " + turn.name + (turn.failed ? " failed: " : ": ") + turn.text +
         (turn.unread ? " (not read)" : "");
}

// One line for each thing that was said. What the model drew is green, a result is not.
std::vector<std::string> completion_lines(const train::CompletionFacts& completion, int width,
                                          const Terminal& terminal) {
  if (completion.messages.is_null()) return {terminal.green(fit_line(completion.completion, width))};
  const std::vector<DialogueTurn> turns = dialogue_turns(completion.messages, calls_json(completion.calls));
  std::vector<std::string> out;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (turns.size() > kMostTurns && i == kMostTurns / 2) {
      const std::size_t left = turns.size() - kMostTurns;
      out.push_back(terminal.dim(fit_line(fmt::format("... {} more ...", left), width)));
      i += left;
    }
    const std::string text = fit_line(turn_text(turns[i]), width);
    out.push_back(turns[i].kind == DialogueTurn::Kind::kResult ? text : terminal.green(text));
  }
  if (out.empty()) out.emplace_back();
  return out;
}

}  // namespace

std::string completions_table(const train::RolloutFacts& facts, const CompletionsTableOptions& shown,
                              const Terminal& terminal) {
  const int width = terminal.columns > 0 ? terminal.columns : kWithoutTerminal;
  const std::vector<std::size_t> rows = chosen(facts, shown);
  std::vector<Column> columns = make_columns(facts, rows);
  set_widths(columns, width - kIndent - kLeastText);
  int left = kIndent;
  for (const Column& column : columns) left += column.width + kGap;
  const int text_width = std::max(kLeastText, width - left);

  const std::string indent(kIndent, ' '), gap(kGap, ' ');
  std::string header = indent;
  for (const Column& column : columns) header += cell(column.name, column.width, column.right) + gap;
  header += "completion";

  std::string out = terminal.bold(fmt::format("completions of step {}", facts.step)) + "\n";
  const std::string* prompt = nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& completion = facts.completions[rows[i]];
    if (prompt == nullptr || *prompt != completion.prompt) {
      constexpr std::string_view kPrompt = "  prompt  ";
      const std::string& text = completion.asked.empty() ? completion.prompt : completion.asked;
      out += std::string(kPrompt) + fit_line(text, width - static_cast<int>(kPrompt.size())) + "\n";
      out += terminal.dim(header) + "\n";
      prompt = &completion.prompt;
    }
    std::string line = indent;
    for (const Column& column : columns) line += cell(column.cells[i], column.width, column.right) + gap;
    const int mark = completion.truncated ? static_cast<int>(kCut.size()) : 0;
    const std::vector<std::string> texts =
        completion_lines(completion, std::max(1, text_width - mark), terminal);
    for (const std::string& text : texts) {
      const bool is_last = &text == &texts.back();
      out += line + text + (is_last && completion.truncated ? terminal.dim(kCut) : "") + "\n";
      line.assign(static_cast<std::size_t>(left), ' ');
    }
  }
  return out;
}

}  // namespace hone::report
