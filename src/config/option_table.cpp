#include "config/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hone::config {

bool Range::holds(double value) const {
  const bool low = least_open ? value > least : value >= least;
  const bool high = most_open ? value < most : value <= most;
  return low && high;
}

std::string Range::words() const {
  const bool low = std::isfinite(least);
  const bool high = std::isfinite(most);
  if (low && high)
    return fmt::format("{} {} {} {}", least_open ? "above" : "from", least, most_open ? "to below" : "to",
                       most);
  if (low) return fmt::format("{} {}", least_open ? "above" : "at least", least);
  if (high) return fmt::format("{} {}", most_open ? "below" : "at most", most);
  return "";
}

Option Option::answered(std::string_view why) const {
  Option row = *this;
  row.answer = Class::kAnswered;
  row.reason = why;
  return row;
}

Option Option::refused(std::string_view why) const {
  Option row = *this;
  row.answer = Class::kRefused;
  row.reason = why;
  return row;
}

Option Option::choice(std::string_view supported, std::string_view same, std::string_view later,
                      std::string_view why) const {
  Option row = *this;
  row.values = supported;
  row.same_values = same;
  row.not_yet = later;
  if (!why.empty()) row.reason = why;
  return row;
}

Option Option::within(Range bounds) const {
  Option row = *this;
  row.range = bounds;
  return row;
}

Option Option::null_too() const {
  Option row = *this;
  row.may_be_null = true;
  return row;
}

Option Option::repeats() const {
  Option row = *this;
  row.repeatable = true;
  return row;
}

Option Option::from(Origin where) const {
  Option row = *this;
  row.origin = where;
  return row;
}

Option Option::under(std::string_view heading) const {
  Option row = *this;
  row.group = heading;
  return row;
}

Option Option::only(std::string_view method_names) const {
  Option row = *this;
  row.methods = method_names;
  return row;
}

base::Json Option::default_value() const {
  return base::Json::parse(default_text);
}

const Option* Schema::find(std::string_view name) const {
  const auto row =
      std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
  return row == options.end() ? nullptr : &*row;
}

std::vector<std::string> Schema::names() const {
  std::vector<std::string> out;
  for (const Option& option : options) out.emplace_back(option.name);
  return out;
}

const Schema& sft_schema() {
  static const Schema schema = [] {
    Schema made{.command = "sft", .options = {}};
    for (const auto& rows :
         {model_options(), adapter_options(), data_options(), training_options(), optimizer_options(),
          reporting_options(), saving_options(), machine_options(), doctor_options()}) {
      made.options.insert(made.options.end(), rows.begin(), rows.end());
    }
    return made;
  }();
  return schema;
}

const std::vector<const Schema*>& all_schemas() {
  static const std::vector<const Schema*> all = {
      &sft_schema(),    &grpo_schema(),   &rloo_schema(),        &dpo_schema(),    &online_dpo_schema(),
      &reward_schema(), &kto_schema(),    &generate_schema(),    &chat_schema(),   &convert_schema(),
      &merge_schema(),  &export_schema(), &reward_test_schema(), &doctor_schema(), &faults_schema(),
      &bisect_schema(), &lr_find_schema()};
  return all;
}

const Schema* schema_for(std::string_view command) {
  for (const Schema* schema : all_schemas()) {
    if (schema->command == command) return schema;
  }
  return nullptr;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) out.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string_view kind_word(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "string";
    case Kind::kChoice:
      return "choice";
    case Kind::kList:
      return "list";
    case Kind::kIds:
      return "ids";
    case Kind::kMap:
      return "map";
    case Kind::kAny:
      return "any";
  }
  return "";
}

std::string_view class_word(Class answer) {
  switch (answer) {
    case Class::kSupported:
      return "supported";
    case Class::kAnswered:
      return "answered";
    case Class::kRefused:
      return "refused";
  }
  return "";
}

std::string_view origin_word(Origin origin) {
  switch (origin) {
    case Origin::kSftConfig:
      return "SFTConfig";
    case Origin::kGrpoConfig:
      return "GRPOConfig";
    case Origin::kRlooConfig:
      return "RLOOConfig";
    case Origin::kDpoConfig:
      return "DPOConfig";
    case Origin::kOnlineDpoConfig:
      return "OnlineDPOConfig";
    case Origin::kRewardConfig:
      return "RewardConfig";
    case Origin::kKtoConfig:
      return "KTOConfig";
    case Origin::kGrpoScriptArguments:
      return "GRPOScriptArguments";
    case Origin::kRlooScriptArguments:
      return "RLOOScriptArguments";
    case Origin::kTrainingArguments:
      return "TrainingArguments";
    case Origin::kModelConfig:
      return "ModelConfig";
    case Origin::kScriptArguments:
      return "ScriptArguments";
    case Origin::kDatasetMixture:
      return "DatasetMixtureConfig";
    case Origin::kTrlCommand:
      return "the trl command";
    case Origin::kHone:
      return "hone";
  }
  return "";
}

}  // namespace hone::config
