// The option table: one row per option, with its meaning, the field of the plan that it fills (which gives
// its type and default), the values that it accepts, and its class.
//
//   Option{"vespo_k_pos", "vespo: power, advantage at least 0"}.into(&PolicyPlan::vespo_k_pos)
//
// Help, the check of a value, plan.yaml, `hone options`, notes and suggestions are all generated from the
// row. An option of several methods is one row; `in` gives the differences of a method. To add an option, add
// the row and the code that reads the field.
//
// Names and defaults are those of TRL 1.16 (the Config class of each method with its
// transformers.TrainingArguments, ModelConfig, ScriptArguments, DatasetMixtureConfig); rows of origin kHone
// are our own. A test compares the tables with the lists recorded from TRL, so that no row is added or lost
// unnoticed. The rows are in options_*.cpp, one topic per file.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "config/binding.h"
#include "config/plan.h"

namespace hone::config {

enum class OptionClass {
  kSupported,  // does what TRL does
  kIgnored,    // has no meaning here or is replaced: ignored, with a note
  kRefused,    // the result would differ: an error unless the value is the default
};

// Where an option comes from: the Python class that has the field.
inline constexpr std::string_view kHone = "hone";
inline constexpr std::string_view kTrainingArguments = "TrainingArguments";
inline constexpr std::string_view kModelConfig = "ModelConfig";
inline constexpr std::string_view kScriptArguments = "ScriptArguments";
inline constexpr std::string_view kDatasetMixture = "DatasetMixtureConfig";
inline constexpr std::string_view kTrlCommand = "the trl command";
inline constexpr std::string_view kMethodConfig = "Config";            // of the method: "DPOConfig"
inline constexpr std::string_view kMethodScript = "ScriptArguments+";  // of the method: "GRPOScriptArguments"

// The methods of an option, in TRL: including one that hone does not have.
inline constexpr std::string_view kAll = "all";
inline constexpr std::string_view kPolicies = "grpo, rloo";
inline constexpr std::string_view kPoliciesAndDistillation = "grpo, rloo, distillation";
inline constexpr std::string_view kHoneSamplers = "grpo, rloo, online-dpo";
inline constexpr std::string_view kSamplers = "grpo, rloo, distillation, online-dpo";

inline constexpr std::string_view kOneProcess = "hone runs in one process";  // the reason of several rows

// A number's bounds, both inclusive unless `open`.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_open = false;
  bool most_open = false;

  bool holds(double value) const;
  std::string describe() const;  // "at least 1", "from 0 to below 1"; "" when unbounded
};

// How an option differs for one method; "" and nullopt: as in the row. A reason comes with a class or with
// `values`, and replaces the row's even when it is "".
struct Change {
  std::string_view default_text = {};
  std::string_view meaning = {};
  std::optional<OptionClass> option_class = {};
  std::string_view reason = {};
  std::string_view values = {}, not_yet = {};
  std::optional<bool> null_too = {};
  std::string_view group = {};
  std::string_view after = {};  // the option that precedes it in this method's list
  std::string_view origin = {};
};

struct Option {
  std::string_view name;
  std::string_view meaning;  // one line
  Kind kind = Kind::kString;
  std::string default_text = "null";  // JSON: "null", "8", "\"linear\"", "[]"
  OptionClass option_class = OptionClass::kSupported;
  std::string_view reason = {};       // why ignored or refused
  std::string values = {};            // kChoice: supported values, space separated
  std::string_view same_values = {};  // kChoice: accepted, with a note (`reason`)
  std::string_view not_yet = {};      // kChoice: TRL's other values, refused with `reason`
  Range range = {};
  bool may_be_null = false;  // besides options whose default is null
  bool repeatable = false;   // kList: `--prompt a --prompt b` adds up
  std::string_view origin = kHone;
  std::string_view group = {};      // heading in --help
  std::string_view methods = kAll;  // names separated by ", "
  std::string_view former = {};     // its former names and its names in other libraries, separated by spaces
  Binding binding = {};             // none: read by a function of several options
  std::vector<std::pair<std::string_view, Change>> changes = {};  // method, and how the option differs for it

  // Row builders: each returns a changed copy, so that a row reads as one sentence. `into` takes the type and
  // the default from the field.
  template <typename Part, typename Field>
  Option into(Field Part::* field) const {
    return bound(kind_of<Field>(), default_text_of(Part().*field), bind_field(field));
  }
  // A choice: `words` has the values and their enumerators.
  template <typename Part, typename Enum, std::size_t N>
  Option into(Enum Part::* field, const Choices<Enum, N>& words) const {
    Option row = bound(Kind::kChoice, "", bind_choices(field, words));
    for (const auto& [word, value] : words) {
      row.values += (row.values.empty() ? "" : " ") + std::string(word);
      if (value == Part().*field && row.default_text.empty()) row.default_text = json_string(word);
    }
    return row;
  }
  // A size: 2GB, 900MiB or bytes; null is 0.
  template <typename Part>
  Option into_bytes(std::int64_t Part::* field) const {
    return bound(Kind::kString, "null", bind_bytes(field));
  }
  Option defaults(std::string_view text) const;  // a default that differs from the field's
  Option or_null() const;                        // null is the default, and means the field's 0
  Option whole(Kind type = Kind::kFloat) const;  // the default is shown without a point: 10, not 10.0
  Option ignored(std::string_view why) const;
  Option refused(std::string_view why) const;
  Option choice(std::string_view supported, std::string_view same = {}, std::string_view later = {},
                std::string_view why = {}) const;
  Option refusing(std::string_view later, std::string_view why) const;  // values of a choice
  Option within(Range bounds) const;
  Option null_too() const;
  Option repeats() const;
  Option under(std::string_view heading) const;
  Option of(std::string_view method_names) const;
  Option in(std::string_view method_names, const Change& change) const;
  Option formerly(std::string_view names) const;

  Option changed_for(std::string_view method) const;  // with the method's differences applied
  base::Json default_value() const;
  bool nullable() const { return may_be_null || default_text == "null"; }

 private:
  Option bound(Kind type, std::string text, Binding field) const;
};

inline Range at_least(double least) {
  return {.least = least};
}
// Bounds for steps and epochs, which are cast to 64-bit integers and multiplied.
inline constexpr double kMaxSteps = 1e9;
inline constexpr double kMaxThreads = 4096;
inline Range count_from_zero() {
  return {.least = 0, .most = kMaxSteps};
}
inline Range above(double least) {
  return {.least = least, .least_open = true};
}
inline Range fraction() {
  return {.least = 0, .most = 1, .most_open = true};
}  // [0, 1)

// One command's options, in the order of --help and plan.yaml.
struct Schema {
  std::string command;  // "sft", "generate", ...
  std::vector<Option> options;

  const Option* find(std::string_view name) const;  // null when unknown
  std::vector<std::string> names() const;
};

// The rows `names` that a group adds to `rows`, with their common properties.
struct Block {
  std::string_view group, origin, methods;
};
void add(std::vector<Option>& rows, const Block& block, const std::vector<Option>& more);

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

// A former name of TRL, transformers or PEFT, or their other name for an option, and what to write instead.
struct FormerName {
  std::string name;
  std::string advice;                // "write warmup_steps: 0.1; a value below 1 is a share of all steps"
  std::string_view commands = kAll;  // or names separated by spaces or commas; it is a former name only there
};
const FormerName* find_former_name(std::string_view name, std::string_view command);  // null: none
const std::vector<FormerName>& former_names();  // those of the rows (`formerly`), and names without a row

// The other methods of TRL that have this option: "grpo, rloo"; "" when there are none, or when `command` is
// not a method.
std::string other_methods(std::string_view name, std::string_view command);

std::vector<std::string> split_words(std::string_view text);  // at spaces and commas
// one of them; always true when `words` is kAll
bool contains_word(std::string_view words, std::string_view word);
std::string_view kind_name(Kind kind);                         // "bool", "int", ...
std::string_view option_class_name(OptionClass option_class);  // "supported", ...

// The rows of the methods, before their changes, in the order of --help. Built once.
const std::vector<Option>& method_options();

// Their parts, one group of --help each; a method may move a row to another group.
std::vector<Option> model_options();
std::vector<Option> adapter_options();
std::vector<Option> data_options();
std::vector<Option> reward_options();
std::vector<Option> sampling_options();
std::vector<Option> loss_options();
std::vector<Option> training_options();
std::vector<Option> optimizer_options();
std::vector<Option> completion_options();
std::vector<Option> logging_options();
std::vector<Option> evaluation_options();
std::vector<Option> saving_options();
std::vector<Option> machine_options();
std::vector<Option> doctor_options();

}  // namespace hone::config
