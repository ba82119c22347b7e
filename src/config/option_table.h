// Settings are a table: one row an option, with its type, default, meaning and what hone does with it.
//
// Names and defaults are those of TRL 1.16 (SFTConfig, GRPOConfig, RLOOConfig, DPOConfig, OnlineDPOConfig,
// RewardConfig and KTOConfig with their transformers.TrainingArguments, ModelConfig, ScriptArguments,
// DatasetMixtureConfig); rows of origin kHone are our own. A test holds the tables against the lists recorded
// from TRL, so adding or losing a row is an event. The rows live in options_*.cpp, one theme a file.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hone::config {

enum class Kind {
  kBool,    // true, false (yes, no, 1, 0 too, as HfArgumentParser)
  kInt,     // 64-bit whole number
  kFloat,   // finite double
  kString,  // any scalar
  kChoice,  // one of the row's values
  kList,    // strings; a lone scalar is a list of one
  kMap,     // YAML mapping, or JSON text on the command line
  kIds,     // token ids: a list, or a mapping of one name to a list; JSON, or numbers, on the command line
  kAny,     // kept as it is read; for rows whose every value has the same answer
};

enum class Class {
  kSupported,  // does what TRL does
  kAnswered,   // has no meaning here or is replaced: the run goes on, one note
  kRefused,    // the result would differ: an error unless the value is the default
};

enum class Origin {
  kSftConfig,
  kGrpoConfig,
  kRlooConfig,
  kDpoConfig,
  kOnlineDpoConfig,
  kRewardConfig,
  kKtoConfig,
  kGrpoScriptArguments,
  kRlooScriptArguments,
  kTrainingArguments,
  kModelConfig,
  kScriptArguments,
  kDatasetMixture,
  kTrlCommand,
  kHone
};

// A number's bounds, both inclusive unless `open`.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_open = false;
  bool most_open = false;

  bool holds(double value) const;
  std::string words() const;  // "at least 1", "from 0 to below 1"; "" when unbounded
};

struct Option {
  std::string_view name;
  Kind kind;
  std::string_view default_text;  // JSON: "null", "8", "\"linear\"", "[]"
  std::string_view meaning;       // one line
  Class answer = Class::kSupported;
  std::string_view reason = {};       // why answered or refused
  std::string_view values = {};       // kChoice: supported values, space separated
  std::string_view same_values = {};  // kChoice: accepted, one note (`reason`)
  std::string_view not_yet = {};      // kChoice: TRL's other values, refused with `reason`
  Range range = {};
  bool may_be_null = false;  // besides options whose default is null
  bool repeatable = false;   // kList: `--prompt a --prompt b` adds up
  Origin origin = Origin::kHone;
  std::string_view group = {};       // heading in --help
  std::string_view methods = "all";  // "all", or names separated by spaces

  // Row builders: each returns a changed copy, so that a row reads as one sentence.
  Option answered(std::string_view why) const;
  Option refused(std::string_view why) const;
  Option choice(std::string_view supported, std::string_view same = {}, std::string_view later = {},
                std::string_view why = {}) const;
  Option within(Range bounds) const;
  Option null_too() const;
  Option repeats() const;
  Option from(Origin where) const;
  Option under(std::string_view heading) const;
  Option only(std::string_view method_names) const;

  base::Json default_value() const;
  bool nullable() const { return may_be_null || default_text == "null"; }
};

inline Range at_least(double least) {
  return {.least = least};
}
// Steps and epochs are cast to whole 64-bit numbers, and multiplied.
inline constexpr double kMostSteps = 1e9;
inline constexpr double kMostThreads = 4096;
inline Range count_from_zero() {
  return {.least = 0, .most = kMostSteps};
}
inline Range above(double least) {
  return {.least = least, .least_open = true};
}
inline Range share() {
  return {.least = 0, .most = 1, .most_open = true};
}  // [0, 1)

// One command's options, in the order of --help and plan.yaml.
struct Schema {
  std::string command;  // "sft", "generate", ...
  std::vector<Option> options;

  const Option* find(std::string_view name) const;  // null when unknown
  std::vector<std::string> names() const;
};

const Schema& sft_schema();
const Schema& grpo_schema();
const Schema& rloo_schema();
const Schema& dpo_schema();
const Schema& online_dpo_schema();
const Schema& reward_schema();
const Schema& kto_schema();
const Schema& generate_schema();
const Schema& chat_schema();
const Schema& convert_schema();
const Schema& merge_schema();
const Schema& export_schema();
const Schema& reward_test_schema();
const Schema& doctor_schema();
const Schema& faults_schema();
const Schema& bisect_schema();
const Schema& lr_find_schema();
const std::vector<const Schema*>& all_schemas();
const Schema* schema_for(std::string_view command);  // null for commands without options

// A name that TRL, transformers or PEFT used before or elsewhere, and what to write instead.
struct FormerName {
  std::string_view name;
  std::string_view advice;            // "write warmup_steps: 0.1; a value below 1 is a share of all steps"
  std::string_view commands = "all";  // or names separated by spaces: elsewhere it is no former name
};
const FormerName* find_former_name(std::string_view name, std::string_view command);  // null: none
const std::vector<FormerName>& former_names();

// The methods of TRL other than `command` whose option this is: "grpo, rloo"; "" when there is none, or when
// `command` is not a method.
std::string other_methods(std::string_view name, std::string_view command);

std::vector<std::string> split_words(std::string_view text);
std::string_view kind_word(Kind kind);      // "bool", "int", ...
std::string_view class_word(Class answer);  // "supported", ...
std::string_view origin_word(Origin origin);

// Rows by theme, in the order in which sft_schema() joins them; own rows of other methods in
// options_policy.cpp, options_dpo.cpp, options_online_dpo.cpp, options_reward.cpp and options_kto.cpp.
std::vector<Option> model_options();
std::vector<Option> adapter_options();
std::vector<Option> data_options();
std::vector<Option> training_options();
std::vector<Option> optimizer_options();
std::vector<Option> reporting_options();
std::vector<Option> saving_options();
std::vector<Option> machine_options();
std::vector<Option> doctor_options();

}  // namespace hone::config
