#include "data/forms/preferences.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "data/files/row_threads.h"
#include "data/forms/row_checks.h"
#include "data/forms/row_encoder.h"
#include "data/forms/rows.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

constexpr std::array<const char*, 3> kColumns = {"prompt", "chosen", "rejected"};

// ---- rows

[[noreturn]] void throw_absent(const Json& row, const char* column, const std::string& where) {
  const bool single = row.contains("completion") || row.contains("messages") || row.contains("text");
  const bool tokens = row.contains(std::string(column) + "_ids") || row.contains("input_ids");
  throw UserError({.where = where,
                   .expected = std::string("a column '") + column + "': text, or a list of messages",
                   .found = columns_found(row, column),
                   .cause = single ? "the rows have one answer each; dpo compares two"
                            : tokens
                                ? "the rows are tokenized, and TRL reads such rows only in sft and reward"
                                : "",
                   .fix = single   ? "`hone sft` trains on rows with one answer"
                          : tokens ? "give the rows as text or messages"
                                   : "rename the column"});
}

void require_kind(const Json& row, const char* column, const std::string& where) {
  if (!row.contains(column)) throw_absent(row, column, where);
  const Json& value = row.at(column);
  if (value.is_array()) {
    check_messages(row, column, where);
    return;
  }
  if (value.is_string()) return;
  throw UserError({.where = where + " " + column,
                   .expected = "text, or a list of messages",
                   .found = value.is_null() ? "null" : value.type_name(),
                   .cause = "",
                   .fix = "write both completions into this row, or remove the row"});
}

// As Python compares dictionaries: keys in any order.
bool same_value(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    std::map<std::string_view, const Json*> others;
    for (const auto& [key, value] : b.get_ref<const Json::object_t&>()) others.emplace(key, &value);
    for (const auto& [key, value] : a.get_ref<const Json::object_t&>()) {
      const auto other = others.find(key);
      if (other == others.end() || !same_value(value, *other->second)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same_value);
  }
  return a == b;
}

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// Where the character before `at` begins.
std::size_t character_before(const std::string& text, std::size_t at) {
  while (at > 0 && continues_character(text[at - 1])) --at;
  return at == 0 ? 0 : at - 1;
}

// Bytes of the prompt that two texts share.
std::size_t shared_text(const std::string& chosen, const std::string& rejected) {
  const std::size_t least = std::min(chosen.size(), rejected.size());
  std::size_t at = 0;
  while (at < least && chosen[at] == rejected[at]) ++at;
  if (at == least) {
    // One is the beginning of the other: TRL leaves the last of its characters to the completions.
    return character_before(chosen.size() <= rejected.size() ? chosen : rejected, least);
  }
  while (at > 0 && (continues_character(chosen[at]) || continues_character(rejected[at]))) --at;
  return at > 0 && chosen[at - 1] == ' ' ? at - 1 : at;
}

std::size_t shared_messages(const Json& chosen, const Json& rejected) {
  const std::size_t least = std::min(chosen.size(), rejected.size());
  std::size_t at = 0;
  while (at < least && same_value(chosen.at(at), rejected.at(at))) ++at;
  return at == least ? at - 1 : at;
}

}  // namespace

void extract_prompt(PreferenceRow& row, const std::string& where) {
  if (row.chosen.is_string()) {
    const std::string chosen = row.chosen, rejected = row.rejected;
    const std::size_t shared = shared_text(chosen, rejected);
    row.prompt = chosen.substr(0, shared);
    row.chosen = chosen.substr(shared);
    row.rejected = rejected.substr(shared);
    return;
  }
  const std::size_t shared = shared_messages(row.chosen, row.rejected);
  if (shared == 0) {
    throw UserError(
        {.where = where,
         .expected = "chosen and rejected with the same messages at the beginning, which are the prompt",
         .found = "no common message at the beginning",
         .cause = "the rows have no column 'prompt'",
         .fix = "add the question to both, or a column 'prompt'"});
  }
  const auto from = static_cast<Json::difference_type>(shared);
  row.prompt = Json(row.chosen.begin(), row.chosen.begin() + from);
  row.chosen = Json(row.chosen.begin() + from, row.chosen.end());
  row.rejected = Json(row.rejected.begin() + from, row.rejected.end());
}

namespace {

class PairReader {
 public:
  explicit PairReader(PreferenceRows& out)
      : takes_(out.prompts != ImplicitPrompts::kKeep),
        takes_mixed_(out.prompts == ImplicitPrompts::kExtractMixed),
        is_first_(!std::exchange(out.begun, true)),
        out_(out) {}

  PreferenceRow read(Json row, const std::string& where) const {
    if (is_first_) refuse_columns(row, takes_ ? pair_columns() : reward_columns(), where);
    if (!takes_) rename_input_ids(row);
    if (!takes_ && (out_.tokenized || (is_first_ && begins_ids(row)))) return read_ids(row, where);
    for (const char* column : {"chosen", "rejected"}) require_kind(row, column, where);
    const bool repeated =
        takes_mixed_ && row.at("chosen").is_array() && row.contains("prompt") && row.at("prompt").is_string();
    const bool has_prompt = !repeated && row.contains("prompt") && !row.at("prompt").is_null();
    if (is_first_) {
      out_.implicit = !has_prompt;
      out_.conversational = row.at("chosen").is_array();
    }
    if (out_.implicit == has_prompt) throw_mixed_prompts(has_prompt, where);
    if (has_prompt) require_kind(row, "prompt", where);
    check_template_columns(row, where);
    for (const char* column : kColumns) {
      const bool there = std::string_view(column) != "prompt" || has_prompt;
      if (there) require_one_kind(row.at(column), column, where);
    }
    PreferenceRow taken;
    taken.chosen = std::move(row["chosen"]);
    taken.rejected = std::move(row["rejected"]);
    if (has_prompt) taken.prompt = std::move(row["prompt"]);
    if (row.contains("tools")) taken.tools = std::move(row["tools"]);
    if (row.contains("chat_template_kwargs")) taken.template_kwargs = std::move(row["chat_template_kwargs"]);
    if (out_.implicit && takes_) extract_prompt(taken, where);
    if (!takes_) take_margin(row, where, taken);
    return taken;
  }

 private:
  // Both: TRL makes the tokens itself where one is missing.
  static bool has_ids(const Json& row) { return row.contains("chosen_ids") && row.contains("rejected_ids"); }

  // Half of a pair of tokens is an error about the other half, where there are no texts.
  static bool begins_ids(const Json& row) {
    return has_ids(row) ||
           (!row.contains("chosen") && (row.contains("chosen_ids") || row.contains("rejected_ids")));
  }

  // The columns' names in former versions of TRL, where the new ones are not there.
  static void rename_input_ids(Json& row) {
    if (has_ids(row) || !row.contains("chosen_input_ids") || !row.contains("rejected_input_ids")) return;
    const Json chosen = row["chosen_input_ids"], rejected = row["rejected_input_ids"];
    row["chosen_ids"] = chosen;
    row["rejected_ids"] = rejected;
  }

  PreferenceRow read_ids(const Json& row, const std::string& where) const {
    PreferenceRow taken;
    for (const auto& [column, to] :
         {std::pair{"chosen_ids", &taken.chosen}, std::pair{"rejected_ids", &taken.rejected}}) {
      if (!row.contains(column)) throw_absent(row, column, where);
      *to = row.at(column);
      const bool ids =
          to->is_array() && !to->empty() && std::all_of(to->begin(), to->end(), [](const Json& id) {
            return id.is_number_integer() && id.get<std::int64_t>() >= 0 &&
                   id.get<std::int64_t>() <= 0x7FFFFFFF;
          });
      if (!ids) {
        throw UserError({.where = where + " " + column,
                         .expected = "a list of token ids",
                         .found = base::short_json(*to, 60),
                         .cause = "",
                         .fix = "write the ids, or text in chosen and rejected"});
      }
    }
    take_margin(row, where, taken);
    out_.tokenized = out_.implicit = true;
    return taken;
  }

  void take_margin(const Json& row, const std::string& where, PreferenceRow& taken) const {
    const bool has = row.contains("margin") && !row.at("margin").is_null();
    if (has && !row.at("margin").is_number()) {
      throw UserError({.where = where + " margin",
                       .expected = "a number",
                       .found = base::short_json(row.at("margin"), 60),
                       .cause = "",
                       .fix = "write by how much chosen should be better, or leave the column out"});
    }
    if (is_first_) out_.margins = has;
    if (has != out_.margins) {
      throw UserError(
          {.where = where,
           .expected = std::string(has ? "no column" : "a column") + " 'margin', as in the first row",
           .found = has ? "one" : "none",
           .cause = "rows with and without a margin in one file",
           .fix = "give every row its margin; 0 means no margin"});
    }
    if (has) taken.margin = row.at("margin").get<double>();
  }

  [[noreturn]] void throw_mixed_prompts(bool has_prompt, const std::string& where) const {
    throw UserError({.where = where,
                     .expected = std::string("rows like the first one, ") +
                                 (out_.implicit ? "without" : "with") + " a column 'prompt'",
                     .found = has_prompt ? "a prompt" : "none",
                     .cause = "rows with and without a prompt in one file",
                     .fix = "give every row its prompt"});
  }

  void require_one_kind(const Json& value, const char* column, const std::string& where) const {
    if (value.is_array() == out_.conversational) return;
    const bool whole = std::string_view(column) == "prompt" && !value.is_array();
    throw UserError(
        {.where = where + " " + column,
         .expected = out_.conversational ? "a list of messages, as in the other columns and rows"
                                         : "text, as in the other columns and rows",
         .found = kind_of(value),
         .cause = whole ? "chosen and rejected are conversations that already contain the prompt" : "",
         .fix = whole ? "remove the column 'prompt': the prompt is then the longest common prefix of both "
                        "conversations"
                      : "write prompt, chosen and rejected in the same form"});
  }

  bool takes_, takes_mixed_, is_first_;
  PreferenceRows& out_;
};

// ---- tokens

std::size_t shared_tokens(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

class DpoTokenizer {
 public:
  DpoTokenizer(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
               const text::ChatTemplate* chat_template, const PairOptions& options)
      : rows_(rows),
        encoder_(rows.conversational, tokenizer, chat_template, options.vocab_size),
        options_(options) {}

  void prepare(std::size_t begin, std::size_t end) {
    encoder_.prepare([&](RowEncoder::Expected& expected) {
      for (std::size_t i = begin; i < end; ++i) {
        const PreferenceRow& row = rows_.rows[i];
        const RowName where = [this, i] { return rows_.where(i); };
        const EncodedRow parts = {row.prompt, row.tools, row.template_kwargs, where};
        expected.prompt(parts);
        expected.whole(parts, row.chosen);
        expected.whole(parts, row.rejected);
      }
    });
  }

  PairDone row(std::size_t index) const {
    const PreferenceRow& row = rows_.rows[index];
    const RowName where = [&] { return rows_.where(index); };
    const EncodedRow parts = {row.prompt, row.tools, row.template_kwargs, where};
    const std::vector<std::int32_t> prompt = encoder_.prompt(parts);
    std::vector<std::int32_t> chosen = encoder_.whole(parts, row.chosen);
    std::vector<std::int32_t> rejected = encoder_.whole(parts, row.rejected);
    std::size_t length = std::min(shared_tokens(prompt, chosen), shared_tokens(prompt, rejected));
    PairDone done;
    done.boundary_mismatch = length < prompt.size();
    const auto kept = static_cast<std::size_t>(options_.max_prompt_length);
    if (kept > 0 && length > kept) {
      const auto lost = static_cast<std::ptrdiff_t>(length - kept);
      chosen.erase(chosen.begin(), chosen.begin() + lost);
      rejected.erase(rejected.begin(), rejected.begin() + lost);
      length = kept;
    }
    done.longest = static_cast<std::int64_t>(std::max(chosen.size(), rejected.size()));
    const auto limit = static_cast<std::size_t>(options_.max_length);
    const bool is_long = limit > 0 && static_cast<std::size_t>(done.longest) > limit;
    done.too_long = options_.drop_long && is_long;
    done.dropped = !done.too_long && limit > 0 && !options_.keep_end && length >= limit;
    if (done.dropped || done.too_long) return done;
    done.cut = is_long;
    add(Part::kChosen, chosen, length, where, done.record);
    add(Part::kRejected, rejected, length, where, done.record);
    return done;
  }

 private:
  void add(Part part, const std::vector<std::int32_t>& ids, std::size_t prompt, const RowName& where,
           Record& record) const {
    const char* const column = part == Part::kChosen ? "chosen" : "rejected";
    if (ids.size() <= prompt) throw_empty_completion(where() + " " + column);
    const auto limit = static_cast<std::size_t>(options_.max_length);
    std::size_t begin = 0, end = ids.size();
    if (limit > 0 && ids.size() > limit) {
      if (options_.keep_end) begin = end - limit;
      if (!options_.keep_end) end = limit;
    }
    const std::size_t first = std::max(begin, prompt);  // of the completion
    const std::size_t context = std::max(first, begin + 1);
    if (context >= end) throw_one_token(where() + " " + column);
    encoder_.check(ids, where);
    const std::span<const std::int32_t> all = ids;
    add_sequence(record, part, all.subspan(begin, context - begin), all.subspan(context, end - context),
                 static_cast<std::int64_t>(end - first));
  }

  const PreferenceRows& rows_;
  RowEncoder encoder_;
  const PairOptions& options_;
};

}  // namespace

PreferenceRow read_pair(Json row, const std::string& where, PreferenceRows& form) {
  return PairReader(form).read(std::move(row), where);
}

void add_row(Json row, int number, PreferenceRows& out) {
  out.rows.push_back(read_pair(std::move(row), out.names.of(number), out));
  out.lines.push_back(number);
}

PreferenceRows preference_rows(ImplicitPrompts implicit) {
  PreferenceRows out;
  out.prompts = implicit;
  return out;
}

std::vector<PairDone> make_dpo_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                     const text::ChatTemplate* chat_template, const PairOptions& options) {
  require_template_or_eos(rows.path, rows.conversational, tokenizer, chat_template, /*by_option=*/false);
  return made_rows<PairDone>(rows.rows.size(), rows.first == 0, options.threads,
                             [&] { return DpoTokenizer(rows, tokenizer, chat_template, options); });
}

}  // namespace hone::data
