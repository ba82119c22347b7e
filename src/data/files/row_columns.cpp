#include "data/files/row_columns.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_tools.h"

namespace hone::data {
namespace {

using base::Json;
using base::KeyUse;
using base::ReadKey;
using base::ReadKeys;

constexpr std::string_view kNoImages =
    "hone trains on text only, and TRL refuses images for a model that reads text";
constexpr std::string_view kAttends = "TRL reads it in no trainer: every token of a row is attended to";
constexpr std::string_view kOverwritten = "TRL makes it again from the row's texts";
constexpr std::string_view kNotLooked = "this trainer of TRL does not look at images";
constexpr std::string_view kReference = "the reference's log-probabilities are computed from the model";

constexpr ReadKey refused(std::string_view name) {
  return {.name = name, .use = KeyUse::kRefused, .why = kNoImages};
}
constexpr ReadKey neutral(std::string_view name, std::string_view why) {
  return {.name = name, .use = KeyUse::kNeutral, .why = why};
}

constexpr std::array kSft = {ReadKey{.name = "input_ids"},
                             ReadKey{.name = "labels"},
                             ReadKey{.name = "completion_mask"},
                             ReadKey{.name = "assistant_masks"},
                             ReadKey{.name = "prompt"},
                             ReadKey{.name = "completion"},
                             ReadKey{.name = "messages"},
                             ReadKey{.name = "conversations"},
                             ReadKey{.name = "tools"},
                             ReadKey{.name = "chat_template_kwargs"},
                             neutral("attention_mask", kAttends),
                             neutral("token_type_ids", kAttends),
                             neutral("special_tokens_mask", kAttends),
                             neutral("position_ids", "positions begin at 0 in each row"),
                             neutral("seq_lengths", "TRL reads it only of rows that its packing made"),
                             neutral("length", "lengths are counted"),
                             refused("image"),
                             refused("images")};
constexpr std::array kPairs = {ReadKey{.name = "prompt"},
                               ReadKey{.name = "chosen"},
                               ReadKey{.name = "rejected"},
                               ReadKey{.name = "tools"},
                               ReadKey{.name = "chat_template_kwargs"},
                               neutral("prompt_ids", kOverwritten),
                               neutral("chosen_ids", kOverwritten),
                               neutral("rejected_ids", kOverwritten),
                               neutral("ref_chosen_logps", kReference),
                               neutral("ref_rejected_logps", kReference),
                               refused("image"),
                               refused("images")};
constexpr std::array kCpo = {ReadKey{.name = "prompt"},
                             ReadKey{.name = "chosen"},
                             ReadKey{.name = "rejected"},
                             ReadKey{.name = "tools"},
                             ReadKey{.name = "chat_template_kwargs"},
                             neutral("image", kNotLooked),
                             neutral("images", kNotLooked)};
constexpr std::array kReward = {ReadKey{.name = "prompt"},
                                ReadKey{.name = "chosen"},
                                ReadKey{.name = "rejected"},
                                ReadKey{.name = "chosen_ids"},
                                ReadKey{.name = "rejected_ids"},
                                ReadKey{.name = "chosen_input_ids"},
                                ReadKey{.name = "rejected_input_ids"},
                                ReadKey{.name = "margin"},
                                ReadKey{.name = "tools"},
                                ReadKey{.name = "chat_template_kwargs"},
                                neutral("image", kNotLooked),
                                neutral("images", kNotLooked)};
constexpr std::array kKto = {ReadKey{.name = "prompt"},
                             ReadKey{.name = "completion"},
                             ReadKey{.name = "label"},
                             ReadKey{.name = "chosen"},
                             ReadKey{.name = "rejected"},
                             ReadKey{.name = "tools"},
                             ReadKey{.name = "chat_template_kwargs"},
                             neutral("prompt_ids", kOverwritten),
                             neutral("completion_ids", kOverwritten),
                             neutral("KL_completion_ids", kOverwritten),
                             neutral("ref_logps", kReference),
                             neutral("ref_KL_logps", kReference),
                             refused("image"),
                             refused("images")};
constexpr std::array kPrompts = {
    ReadKey{.name = "prompt"},
    ReadKey{.name = "tools"},
    ReadKey{.name = "chat_template_kwargs"},
    neutral("completion", "the model samples completions itself, and TRL gives rewards only those"),
    neutral("completion_ids", "the model samples completions itself, and TRL gives rewards only those"),
    ReadKey{.name = "environment"},
    refused("image"),
    refused("images")};

}  // namespace

const ReadKeys& sft_columns() {
  static constexpr ReadKeys kKeys("columns of sft", kSft);
  return kKeys;
}
const ReadKeys& cpo_columns() {
  static constexpr ReadKeys kKeys("columns of cpo and orpo", kCpo);
  return kKeys;
}

const ReadKeys& pair_columns() {
  static constexpr ReadKeys kKeys("columns of dpo", kPairs);
  return kKeys;
}
const ReadKeys& reward_columns() {
  static constexpr ReadKeys kKeys("columns of reward", kReward);
  return kKeys;
}
const ReadKeys& kto_columns() {
  static constexpr ReadKeys kKeys("columns of kto", kKto);
  return kKeys;
}
const ReadKeys& prompt_columns() {
  static constexpr ReadKeys kKeys("columns of grpo, rloo and online-dpo", kPrompts);
  return kKeys;
}

void refuse_columns(const Json& row, const ReadKeys& columns, const std::string& where) {
  for (const ReadKey& key : columns.keys()) {
    if (key.use != KeyUse::kRefused) continue;
    const Json& value = columns.at(row, key.name);
    if (value.is_null() || value.empty() || value == Json("")) continue;
    throw base::UserError({.where = where + " " + std::string(key.name),
                           .expected = "no column '" + std::string(key.name) + "', or an empty one",
                           .found = base::short_json(value, 60),
                           .cause = std::string(key.why),
                           .fix = "remove the column, if the text says enough without it"});
  }
}

namespace {

void add_name(const std::string& name, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

void SeenRows::add(const Json& row) {
  if (known.size() != columns.size()) known.insert(columns.begin(), columns.end());
  std::size_t at = 0;
  for (const auto& [name, value] : row.items()) {
    // Most rows have their columns in one order.
    const bool next = at < columns.size() && columns[at] == name;
    if (!next && known.insert(name).second) columns.push_back(name);
    ++at;
    if (name != "chat_template_kwargs" || !value.is_object()) continue;
    for (const auto& [key, unused] : value.items()) add_name(key, template_keys);
  }
}

std::vector<std::string> unread_columns(const SeenRows& seen, const ReadKeys& columns,
                                        const std::vector<std::string>& read) {
  std::vector<std::string> out;
  for (const std::string& column : seen.columns) {
    const base::ReadKey* const row = columns.find(column);
    const bool neutral = row != nullptr && row->use != KeyUse::kApplied;
    if (!neutral && std::find(read.begin(), read.end(), column) == read.end()) out.push_back(column);
  }
  return out;
}

}  // namespace hone::data
