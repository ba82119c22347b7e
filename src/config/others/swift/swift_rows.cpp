// How ms-swift finds the columns of a set: by their names, which the first row says.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/others/json_members.h"
#include "config/others/translation.h"
#include "config/write_plan.h"

namespace hone::config::swift {
namespace {

using base::Json;
using Names = std::vector<std::string>;

constexpr std::size_t kMostRow = std::size_t{1} << 20;    // bytes of the first row
constexpr std::size_t kMostFile = std::size_t{16} << 20;  // of a file that is one list

const Names& query_names() {
  static const Names names = {"query", "prompt", "input", "instruction", "question", "problem"};
  return names;
}
const Names& response_names() {
  static const Names names = {"response", "answer",   "output", "targets",    "target", "answer_key",
                              "answers",  "solution", "text",   "completion", "content"};
  return names;
}

// The first row of a .jsonl or .json file; null: there is none, or it is of another form.
Json first_row(const std::string& path) {
  std::error_code none;
  if (!base::fs::is_regular_file(path, none)) return {};
  Json row;
  if (path.ends_with(".jsonl")) {
    std::ifstream in(path);
    std::string line(kMostRow, '\0');
    in.getline(line.data(), static_cast<std::streamsize>(line.size()));
    if (in.gcount() <= 0 || (in.fail() && !in.eof())) return {};
    row = Json::parse(line.c_str(), nullptr, false);
  } else if (path.ends_with(".json") && base::fs::file_size(path, none) <= kMostFile) {
    const Json all = Json::parse(base::read_text(path), nullptr, false);
    if (all.is_array() && !all.empty()) row = all[0];
  }
  return row.is_object() ? row : Json();
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The row's column that takes the place of names[0]: the only one of the names, or that which is called so; ""
// where there is none, or where several are and ms-swift renames none.
std::string column_of(const Json& row, const Names& names) {
  Names found;
  for (const auto& [column, value] : row.items()) {
    if (std::find(names.begin(), names.end(), lower(column)) != names.end()) found.push_back(column);
  }
  if (found.size() == 1) return found[0];
  return row.contains(names[0]) ? names[0] : "";
}

struct Form {
  OtherRun& run;
  const OtherValue& set;  // of dataset_name or datasets

  void put(std::string_view option, Json value) const {
    if (run.find(option) == nullptr)
      run.options.push_back({std::string(option), std::move(value), set.from, set.where});
  }
  void put_columns(const Json& wanted) const {
    Json columns = Json::object();
    for (const auto& [column, name] : wanted.items()) {
      if (!column.empty() && name != column) columns[column] = name;
    }
    if (!columns.empty()) put("dataset_columns", columns);
  }
  // A text of ms-swift's marks what is trained; that of a model need not.
  void put_answers() const {
    if (run.method == Method::kSft && run.find("chat_template") != nullptr) put_every_answer();
  }
  void put_every_answer() const {
    put("assistant_only_loss", true);
    put("completion_only_loss", false);
  }
  void unknown(std::string why) const {
    run.unknown.push_back({set.where, set.from, std::move(why), "the form of the rows",
                           "write columns, or rows of messages, or of query and response"});
  }
};

void take_conversations(const Form& form, const Json& row, const std::string& column) {
  if (form.run.method != Method::kSft) {
    form.unknown(fmt::format("{} holds the prompt and the answer: hone {} reads them apart", column,
                             method_name(form.run.method)));
    return;
  }
  const Json& turns = row[column];
  const bool sharegpt = turns.is_array() && !turns.empty() && !member(turns[0], "from").is_null();
  if (turns.is_array() && !turns.empty() && member(turns[0], "role").is_null() && !sharegpt) {
    form.unknown(fmt::format("the turns of {} have neither role nor from", column));
    return;
  }
  if (sharegpt || row.contains("system")) form.put("row_format", "sharegpt");
  form.put_columns(Json::object({{column, sharegpt ? "conversations" : "messages"}}));
  form.put("assistant_only_loss", true);
}

// The answers in history are trained too, as ms-swift does by its loss_scale default.
void put_history(const Form& form, const Json& row) {
  if (!row.contains("history")) return form.put_answers();
  if (row["history"].empty() && form.run.find("chat_template") == nullptr) {
    form.run.notes.push_back(
        {form.set.where, form.set.from,
         "of rows whose history is not empty hone trains the last answer alone, ms-swift all of them"});
    return;
  }
  form.put_every_answer();
}

// Rows with columns of the turns before the prompt, which row_format alpaca has under these names too. False:
// there are none; what cannot be read so is told.
bool take_turns_before(const Form& form, const Json& row, const std::string& query,
                       const std::string& response) {
  constexpr const char* kBefore[] = {"system", "system_prompt", "history"};
  const auto has = [&](const char* column) { return !member(row, column).empty(); };
  const bool any = std::any_of(std::begin(kBefore), std::end(kBefore), has);
  if (!any) return false;
  const bool clashes = (row.contains("input") && query != "input") ||
                       (row.contains("instruction") && query != "instruction") ||
                       (row.contains("output") && response != "output") ||
                       (row.contains("system") && row.contains("system_prompt"));
  if (form.run.method != Method::kSft || clashes) {
    for (const char* before : kBefore) {
      if (has(before))
        form.unknown(fmt::format(
            "the column {} is turns before the prompt, which hone reads in messages alone", before));
    }
    return false;
  }
  form.put("row_format", "alpaca");
  form.put_columns(Json::object({{query, "instruction"},
                                 {response, "output"},
                                 {row.contains("system_prompt") ? "system_prompt" : "", "system"}}));
  form.put("make_conversation", true);
  put_history(form, row);
  return true;
}

void take_columns(const Form& form, const Json& row) {
  const std::string query = column_of(row, query_names()), response = column_of(row, response_names());
  if (query.empty() || (response.empty() && !samples(form.run.method))) {
    form.unknown(fmt::format("no single column of {} is the {}",
                             fmt::join(query.empty() ? query_names() : response_names(), ", "),
                             query.empty() ? "prompt" : "answer"));
    return;
  }
  if (!row[query].is_string()) return;  // rows in TRL's own form
  if (take_turns_before(form, row, query, response)) return;
  Json columns = Json::object({{query, "prompt"}});
  if (form.run.method == Method::kSft || form.run.method == Method::kKto) {
    columns[response] = "completion";
  } else if (!samples(form.run.method)) {
    columns[response] = "chosen";
    if (!row.contains("rejected_response")) form.unknown("there is no column rejected_response");
    if (row.contains("rejected_response")) columns["rejected_response"] = "rejected";
  }
  form.put_columns(columns);
  form.put("make_conversation", true);
  form.put_answers();
}

}  // namespace

void read_form(OtherRun& run, bool is_text) {
  const OtherValue* set = run.find("dataset_name");
  std::string path = set != nullptr && set->value.is_string() ? set->value.get<std::string>() : "";
  if (set == nullptr) {
    set = run.find("datasets");
    if (set != nullptr && set->value.is_array() && !set->value.empty()) path = text_of(set->value[0], "path");
  }
  if (set == nullptr || run.find("dataset_columns") != nullptr || run.find("row_format") != nullptr) return;
  const OtherValue kept = *set;
  const Form form{run, kept};
  const Json row = first_row(path);
  if (row.is_null()) {
    if (!is_text) form.put_answers();
    run.notes.push_back(
        {kept.where, kept.from,
         fmt::format("ms-swift maps columns by their names, which the rows say: messages or conversations; "
                     "instruction with input and output; or one of {} with one of {}",
                     fmt::join(query_names(), ", "), fmt::join(response_names(), ", "))});
    return;
  }
  if (is_text) {
    const std::string response = column_of(row, response_names());
    if (row.contains("messages") || !column_of(row, query_names()).empty()) {
      form.unknown("pt trains every token of prompt and answer, which hone reads as one column of text");
      return;
    }
    if (response.empty()) form.unknown("no single column holds the text");
    if (!response.empty()) form.put("dataset_text_field", response);
    return;
  }
  for (const char* column : {"messages", "conversation", "conversations"}) {
    if (row.contains(column)) return take_conversations(form, row, column);
  }
  const bool alpaca = row.contains("instruction") && row.contains("input") && row.contains("output");
  if (!alpaca || run.method != Method::kSft) return take_columns(form, row);
  form.put("row_format", "alpaca");
  form.put("make_conversation", true);
  put_history(form, row);
}

}  // namespace hone::config::swift
