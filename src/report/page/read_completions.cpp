#include "report/page/read_completions.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "report/dialogue_turns.h"
#include "report/page/read_metrics.h"
#include "report/page/spread.h"
#include "train/saves/run_folder.h"

namespace hone::report {

using base::Json;

namespace {

constexpr std::size_t kCellBytes = 200;  // of a value that is not a text of the model

std::string shown_text(const Json& value, std::size_t most) {
  if (value.is_null()) return "";
  const std::string text = value.is_string() ? value.get<std::string>() : base::dump_json(value);
  return base::printable(base::cut_text(text, most));
}

const Json& member(const Json& record, const std::string& name) {
  static const Json none;
  const auto found = record.find(name);
  return found == record.end() ? none : *found;
}

Json cell(const Json& value) {
  if (value.is_number() || value.is_boolean() || value.is_null()) return value;
  return shown_text(value, kCellBytes);
}

bool is_dialogue(const Json& record) {
  return member(record, "completion").is_array();
}

const char* word_of(DialogueTurn::Kind kind) {
  switch (kind) {
    case DialogueTurn::Kind::kReasoning:
      return "reasoning";
    case DialogueTurn::Kind::kSaid:
      return "said";
    case DialogueTurn::Kind::kCall:
      return "call";
    case DialogueTurn::Kind::kResult:
      break;
  }
  return "result";
}

// {"turns": [[kind, text, tool, failed, unread]], "spans": [[text, drawn]], "left_out": turns}. The texts of each have at
// most `most` bytes together, and a result at most a quarter of that.
Json dialogue(const Json& record, std::size_t most) {
  const std::vector<DialogueTurn> all = dialogue_turns(member(record, "completion"), member(record, "calls"));
  Json turns = Json::array(), spans = Json::array();
  std::size_t left = most;
  const auto cut = [&left](const std::string& text, std::size_t bound) {
    std::string out = shown_text(text, std::min(left, bound));
    left -= std::min(left, out.size());
    return out;
  };
  for (const DialogueTurn& turn : all) {
    if (left == 0) break;
    const bool given = turn.kind == DialogueTurn::Kind::kResult;
    const std::string text = cut(turn.text, given ? most / 4 : most);
    turns.push_back({word_of(turn.kind), text, shown_text(turn.name, kCellBytes), turn.failed, turn.unread});
  }
  left = most;
  const Json& written = member(record, "spans");
  for (const Json& span : written.is_array() ? written : Json::array()) {
    if (left == 0) break;
    if (span.is_array() && span.size() == 2 && span[0].is_string())
      spans.push_back({cut(span[0].get<std::string>(), most), span[1] == true});
  }
  const std::size_t left_out = all.size() - turns.size();
  return {{"turns", std::move(turns)}, {"spans", std::move(spans)}, {"left_out", left_out}};
}

// The columns of `record` after prompt and completion, added to those of the file.
void add_columns(const Json& record, std::vector<std::string>& columns) {
  for (const auto& [name, value] : record.items()) {
    if (name == "step" || name == "prompt" || name == "completion") continue;
    if (is_dialogue(record) && (name == "calls" || name == "spans")) continue;
    if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
  }
}

}  // namespace

const CompletionsReader::File& CompletionsReader::read_file(std::int64_t step, const base::fs::path& path,
                                                            std::size_t budget) {
  std::error_code gone;
  const std::uintmax_t size = base::fs::file_size(path, gone);
  File& out = read_[step];
  if (!gone && !out.content.is_null() && out.size == size && out.budget == budget) return out;
  out = {.size = size, .budget = budget};
  std::vector<Json> records;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    Json record = read_record(line);
    if (record.is_object() && record.contains("completion")) {
      records.push_back(std::move(record));
    } else if (!line.empty()) {
      ++out.skipped;
    }
  }
  std::vector<std::string> columns;
  Json prompts = Json::array(), rows = Json::array();
  std::unordered_map<std::string, std::size_t> known;
  std::size_t used = 0;
  for (const Json& record : records) {
    if (used >= budget && !rows.empty()) break;
    add_columns(record, columns);
    const std::string prompt = shown_text(member(record, "prompt"), limits_.prompt_bytes);
    const auto [place, is_new] = known.try_emplace(prompt, prompts.size());
    if (is_new) {
      prompts.push_back(prompt);
      used += prompt.size();
    }
    Json row = {place->second, is_dialogue(record) ? dialogue(record, limits_.completion_bytes)
                                                   : Json(shown_text(member(record, "completion"),
                                                                     limits_.completion_bytes))};
    used += row[1].is_string() ? row[1].get_ref<const std::string&>().size() : base::dump_json(row[1]).size();
    for (const std::string& column : columns) {
      row.push_back(cell(member(record, column)));
      used += 8;
    }
    rows.push_back(std::move(row));
  }
  out.content = {{"step", step},
                 {"rows", records.size()},
                 {"columns", columns},
                 {"prompts", std::move(prompts)},
                 {"completions", std::move(rows)}};
  for (auto& column : out.content["columns"]) column = shown_text(column, kCellBytes);
  return out;
}

CompletionsSample CompletionsReader::read() {
  std::vector<std::pair<std::int64_t, base::fs::path>> files;
  std::error_code none;
  for (const auto& entry : base::fs::directory_iterator(folder_, none)) {
    if (const auto step = train::completions_step(entry.path())) files.emplace_back(*step, entry.path());
  }
  std::ranges::sort(files);
  CompletionsSample out{.files = static_cast<std::int64_t>(files.size())};
  const std::vector<std::size_t> places = spread(files.size(), limits_.files);
  // A power of 2, so that it rarely changes: with another budget every file is read again.
  const std::size_t budget = limits_.bytes / std::bit_ceil(std::max<std::size_t>(1, places.size()));
  std::set<std::int64_t> shown;
  for (const std::size_t i : places) {
    const auto& [step, path] = files[i];
    const File& file = read_file(step, path, budget);
    out.skipped += file.skipped;
    out.steps.push_back(file.content);
    shown.insert(step);
  }
  std::erase_if(read_, [&shown](const auto& one) { return !shown.contains(one.first); });
  return out;
}

}  // namespace hone::report
