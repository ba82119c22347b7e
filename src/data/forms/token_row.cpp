#include "data/forms/token_row.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "data/files/describe_row.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kIds = "input_ids";

[[noreturn]] void throw_column(const RowName& where, const std::string& column, std::string expected,
                               std::string found, std::string cause, std::string fix) {
  throw UserError({.where = where() + " " + column,
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .cause = std::move(cause),
                   .fix = std::move(fix)});
}

// "a list of 3"; what else it is.
std::string described(const Json& value) {
  if (value.is_array() && !value.empty()) return "a list of " + std::to_string(value.size());
  return value.is_structured() || value.is_null() ? a_type(value) : base::short_json(value, 60);
}

const Json& list_in(const Json& row, const char* column, const RowName& where) {
  const auto found = row.find(column);
  if (found != row.end() && found->is_array()) return *found;
  throw_column(where, column, "a list of whole numbers, as in the first row",
               found == row.end() ? "no such column" : described(*found), "", "write it, or remove the row");
}

// One that fits an id; -100 too, where `ignored`.
std::int32_t whole_number(const Json& value, const char* column, std::size_t at, const RowName& where) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  const bool fits =
      value.is_number_unsigned()
          ? value.get<std::uint64_t>() <= kMost
          : value.is_number_integer() && value.get<std::int64_t>() >= -static_cast<std::int64_t>(kMost);
  if (fits) return value.get<std::int32_t>();
  throw_column(where, std::string(column) + "[" + std::to_string(at) + "]", "a token id", described(value),
               value.is_array() ? "a batch of rows in one row" : "",
               value.is_array() ? "write one row for each list" : "tokenize the row again");
}

std::vector<std::int32_t> whole_numbers(const Json& list, const char* column, const RowName& where) {
  std::vector<std::int32_t> out;
  out.reserve(list.size());
  for (const Json& value : list) out.push_back(whole_number(value, column, out.size(), where));
  return out;
}

void require_length(std::size_t length, std::size_t ids, const char* column, const RowName& where) {
  if (length == ids) return;
  throw_column(where, column, "as many values as input_ids, " + std::to_string(ids), std::to_string(length),
               "the columns were cut or padded apart", "write the row again, all its columns of one length");
}

bool is_set(const Json& value, const char* column, std::size_t at, const RowName& where) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value != Json(0);
  throw_column(where, std::string(column) + "[" + std::to_string(at) + "]", "0 or 1", described(value), "",
               "write 1 for each token that is a target");
}

// 1 where every mask is set.
void apply_mask(const Json& row, const char* column, Record& example, const RowName& where) {
  const Json& mask = list_in(row, column, where);
  require_length(mask.size(), example.ids.size(), column, where);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (!is_set(mask[i], column, i, where)) example.supervised[i] = 0;
  }
}

void apply_labels(const Json& row, TokenRow& out, const RowName& where) {
  Record& example = out.example;
  std::vector<std::int32_t> labels = whole_numbers(list_in(row, "labels", where), "labels", where);
  require_length(labels.size(), example.ids.size(), "labels", where);
  bool own = false;
  std::size_t targets = 0, next = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    example.supervised[i] = labels[i] == kIgnore ? 0 : 1;
    if (example.supervised[i] == 0) continue;
    ++targets;
    own = own || labels[i] != example.ids[i];
    // The last one has nothing after it to compare with.
    next += i + 1 == labels.size() || labels[i] == example.ids[i + 1] ? 1 : 0;
  }
  out.labels_are_next = own && targets > 1 && next == targets;
  if (own) example.labels = std::move(labels);
}

bool is_conversation(const Json& row, const char* column) {
  const auto found = row.find(column);
  return found != row.end() && found->is_array() && !found->empty() && found->front().is_object() &&
         found->front().contains("role");
}

}  // namespace

TokenColumns token_columns(const Json& row) {
  constexpr std::array<const char*, 5> kMessages = {"prompt", "chosen", "rejected", "completion", "messages"};
  return {.labels = row.contains("labels"),
          .completion_mask = row.contains("completion_mask"),
          .assistant_masks = row.contains("assistant_masks"),
          .conversational = std::any_of(kMessages.begin(), kMessages.end(),
                                        [&row](const char* column) { return is_conversation(row, column); }),
          .completions = row.contains("prompt") && row.contains("completion")};
}

TokenRow token_row(const Json& row, const TokenColumns& columns, bool completion_only, const RowName& where) {
  TokenRow out;
  out.example.ids = whole_numbers(list_in(row, kIds, where), kIds, where);
  out.example.supervised.assign(out.example.ids.size(), 1);
  if (!columns.labels && row.contains("labels")) {
    throw_column(where, "labels", "no labels, as in the first row", described(row["labels"]),
                 "rows with and without labels in one file", "give every row its labels");
  }
  if (columns.labels) {
    apply_labels(row, out, where);
  } else {
    if (columns.completion_mask && completion_only) apply_mask(row, "completion_mask", out.example, where);
    if (columns.assistant_masks) apply_mask(row, "assistant_masks", out.example, where);
  }
  const auto attention = row.find("attention_mask");
  out.hides_attention = attention != row.end() && attention->is_array() &&
                        std::find(attention->begin(), attention->end(), Json(0)) != attention->end();
  return out;
}

void check_own_tokens(const Record& example, std::int64_t vocab_size, const RowName& where) {
  const auto check = [&](const std::vector<std::int32_t>& ids, const char* column, bool all) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!all && example.supervised[i] == 0) continue;
      if (ids[i] >= 0 && (vocab_size <= 0 || ids[i] < vocab_size)) continue;
      throw_column(where, column,
                   vocab_size > 0 ? "token ids from 0 to " + std::to_string(vocab_size - 1) +
                                        ", the rows of the model's embedding (DATA-10)"
                                  : "token ids from 0",
                   std::to_string(ids[i]),
                   ids[i] < 0 ? "a padding or label value among the tokens"
                              : "the tokens are of another model's tokenizer",
                   "tokenize the rows with this model's tokenizer, or give them as text");
    }
  };
  check(example.ids, kIds, /*all=*/true);
  check(example.labels, "labels", /*all=*/false);
}

}  // namespace hone::data
