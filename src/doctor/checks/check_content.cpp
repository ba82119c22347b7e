// DATA-12: special tokens in the texts of messages.
#include <map>
#include <span>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/first_rows.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kContentRows = 500;

// Which of a tokenizer's ids are special tokens, asked once each.
class SpecialIds {
 public:
  explicit SpecialIds(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  bool operator()(std::int32_t id) {
    const auto [at, is_new] = known_.try_emplace(id, false);
    const std::span<const std::int32_t> one(&id, 1);
    if (is_new) at->second = tokenizer_.decode(one, true).empty() && !tokenizer_.decode(one, false).empty();
    return at->second;
  }

 private:
  const text::Tokenizer& tokenizer_;
  std::map<std::int32_t, bool> known_;
};

struct Found {
  std::int64_t rows = 0;
  std::string where, token, text;  // of the first
};

// What a template puts around an assistant's turn (<think>, <tool_call>) may be in its text; what ends a turn may not.
bool counts(const std::string& role, std::int32_t id, const train::RunView& run,
            std::optional<std::int32_t> end) {
  const bool ends = id == end || id == run.text->tokenizer.eos_id();
  return ends || (role != "assistant" && role != "gpt");
}

// The first special token in a row's messages: its id, and the text that it is in.
std::optional<std::pair<std::int32_t, std::string>> special_in(const Json& row, const train::RunView& run,
                                                               std::optional<std::int32_t> end,
                                                               SpecialIds& is_special) {
  for (const Json& messages : conversations_of(row)) {
    for (const Json& message : messages) {
      if (!message.is_object()) continue;
      const std::string text = content_of(message);
      // No tokenizer that is read here has a special token without one of these.
      if (text.find_first_of("<[") == std::string::npos) continue;
      const std::string role = message.value("role", message.value("from", ""));
      for (const std::int32_t id : run.text->tokenizer.encode(text, false).ids) {
        if (is_special(id) && counts(role, id, run, end)) return std::pair(id, text);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Verdicts check_content(const train::RunView& run) {
  if (!run.start.conversational) return {};
  const std::vector<FirstRow> rows = read_first_rows(run, kContentRows);
  const std::optional<std::int32_t> end = answer_end(run);
  SpecialIds is_special(run.text->tokenizer);
  Found found;
  for (const FirstRow& one : rows) {
    const auto special = special_in(one.row, run, end, is_special);
    if (!special) continue;
    if (found.rows++ > 0) continue;
    found.where = one.where;
    found.token = run.text->tokenizer.id_to_token(special->first).value_or("");
    const std::size_t at = special->second.find(found.token);
    const std::size_t from = at == std::string::npos || at < 20 ? 0 : at - 20;
    found.text = format::shown(std::string_view(special->second).substr(from));
  }
  Verdict out{.code = "DATA-12"};
  const std::string looked = "the first " + format::counted(static_cast<std::int64_t>(rows.size()), "row");
  if (found.rows == 0) {
    out.what = "no special token in the messages' texts of " + looked;
    return {out};
  }
  out.level = Level::kWarn;
  out.what = "the text of messages holds special tokens, in " + std::to_string(found.rows) + " of " + looked;
  out.evidence = found.where + ": `" + found.text + "` is read as the token " + found.token;
  out.cause =
      "suspected: texts that were rendered with a chat template already, or copied from a model's output";
  out.not_this = "the run's own template: these are the rows as they are in the file";
  out.fix = "remove such tokens from the texts; rows that are rendered already belong into a column text";
  out.cost = "turns that end or begin inside a message, in training as in use";
  return {out};
}

}  // namespace hone::doctor
