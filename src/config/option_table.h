// The option table: one row per option, with its meaning, the field of the plan that it fills (which gives
// its type and default), the values that it accepts, and its class.
//
//   {"vespo_k_pos", "vespo: power, advantage at least 0", &PolicyPlan::vespo_k_pos, with("loss_type", "vespo")}
//
// Help, the check of a value, plan.yaml, `hone options`, notes and suggestions are all generated from the
// row. An option of several methods is one row; `in` gives the differences of a method. To add an option, add
// the row and the code that reads the field.
//
// Names and defaults are those of TRL 1.16 (the Config class of each method with its
// transformers.TrainingArguments, ModelConfig, ScriptArguments, DatasetMixtureConfig); rows of origin kHone
// are our own. A test compares the tables with the lists recorded from TRL, so that no row is added or lost
// unnoticed. The rows are in options/options_*.cpp, one topic per file.
#pragma once

#include <array>
#include <concepts>
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
inline constexpr std::string_view kPoliciesAndDistillation = "grpo, rloo, distill";
inline constexpr std::string_view kRewarded = "grpo, rloo, online-dpo";
inline constexpr std::string_view kHoneSamplers = "grpo, rloo, online-dpo, distill";
inline constexpr std::string_view kOthersThatScore =
    "sft, dpo, kto, cpo, orpo, distill";  // with eval_reward_funcs only
inline constexpr std::string_view kScorers = "grpo, rloo, online-dpo, sft, dpo, kto, cpo, orpo, distill";
inline constexpr std::string_view kSamplers = "grpo, rloo, distill, online-dpo";

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

// The default is shown without a point (10, not 10.0); null is accepted, though it is not the default; a list
// grows when the option is repeated (--prompt a --prompt b), and starts empty; a mapping of names is a list of name=value.
enum class Trait { kWhole, kNullToo, kRepeats, kNamedValues };
inline constexpr Trait kWhole = Trait::kWhole, kNullToo = Trait::kNullToo, kRepeats = Trait::kRepeats,
                       kNamedValues = Trait::kNamedValues;

// A row: its name, its meaning in one line, and then in any number
//   &Part::field          what it fills, which gives the type and the default; an enum has into(&Part::field, choices)
//   Kind::kBool, "false"  the type and the default (JSON) where no field does; "null" after a field: null means its 0
//   at_least(1), Range{}  the bounds of a number
//   kWhole, ...           a Trait
//   ignored("why"), ...   the functions below
struct Option {
  std::string_view name, meaning;
  Kind kind = Kind::kString;
  std::string default_text = "null";  // JSON: "null", "8", "\"linear\"", "[]"
  OptionClass option_class = OptionClass::kSupported;
  std::string_view reason = {};       // why ignored or refused
  std::string values = {};            // kChoice: supported values, space separated
  std::string_view same_values = {};  // kChoice: accepted, with a note (`reason`)
  std::string_view not_yet = {};      // kChoice: TRL's other values, refused with `reason`
  Range range = {};
  bool may_be_null = false;  // besides options whose default is null
  bool repeatable = false;
  bool is_named = false;  // kNamedValues
  std::string_view origin = kHone;
  std::string_view group = {};      // heading in --help
  std::string_view methods = kAll;  // names separated by ", "
  std::string_view former = {};     // its former names and its names in other libraries, separated by spaces
  // It has no effect, and a note says so, unless this option is true or has one of these values.
  std::string_view needed_option = {}, needed_values = {};
  // The forms of rows for which it does something: words of kRowForms, kAnyRows or kMappedRows; empty: it is
  // of no rows. Set for others, it is a note or an error when the rows are known.
  std::string_view row_forms = {};
  Binding binding = {};  // none: read by a function of several options
  std::vector<std::pair<std::string_view, Change>> changes = {};  // method, and how the option differs for it

  template <typename... Parts>
  Option(std::string_view option_name, std::string_view what, Parts&&... parts)
      : name(option_name), meaning(what) {
    (set(std::forward<Parts>(parts)), ...);
  }

  template <typename Part, typename Field>
  void set(Field Part::* field) {
    kind = kind_of<Field>();
    default_text = default_text_of(Part().*field);
    binding = bind_field(field);
  }
  void set(Kind type);  // kInt: a default of 32.0 is 32
  void set(std::string_view text) { default_text = text; }
  void set(const Range& bounds) { range = bounds; }
  void set(Trait trait);
  template <std::invocable<Option&> Edit>
  void set(Edit&& edit) {
    edit(*this);
  }

  Option changed_for(std::string_view method) const;  // with the method's differences applied
  base::Json default_value() const;
  bool nullable() const { return may_be_null || default_text == "null"; }
};

// A choice: `words` has the values and their enumerators.
template <typename Part, typename Enum, std::size_t N>
auto into(Enum Part::* field, const Choices<Enum, N>& words) {
  return [field, &words](Option& row) {
    row.kind = Kind::kChoice;
    row.binding = bind_choices(field, words);
    for (const auto& [word, value] : words) {
      // the first, where several words mean the default
      if (value == Part().*field && row.default_text == "null") row.default_text = json_string(word);
      row.values += (row.values.empty() ? "" : " ") + std::string(word);
    }
  };
}
// A size: 2GB, 900MiB or bytes; null is 0.
template <typename Part>
auto bytes(std::int64_t Part::* field) {
  return [field](Option& row) { row.binding = bind_bytes(field); };
}
inline auto ignored(std::string_view why) {
  return [why](Option& row) { row.option_class = OptionClass::kIgnored, row.reason = why; };
}
inline auto refused(std::string_view why) {
  return [why](Option& row) { row.option_class = OptionClass::kRefused, row.reason = why; };
}
// Values of a choice that TRL has and hone does not.
inline auto refusing(std::string_view values, std::string_view why) {
  return [=](Option& row) { row.not_yet = values, row.reason = why; };
}
inline auto choice(std::string_view supported, std::string_view same = {}, std::string_view later = {},
                   std::string_view why = {}) {
  return [=](Option& row) {
    row.kind = Kind::kChoice, row.values = supported, row.same_values = same, row.not_yet = later;
    if (!why.empty()) row.reason = why;
  };
}
// A word of the values that means the same as the first: a note says so.
inline auto same_as_first(std::string_view word) {
  return [word](Option& row) {
    row.values.erase(row.values.find(" " + std::string(word) + " "), word.size() + 1);
    row.same_values = word;
  };
}
inline auto of(std::string_view methods) {
  return [methods](Option& row) { row.methods = methods; };
}
inline auto in(std::string_view methods, const Change& change) {
  return [=](Option& row) { row.changes.emplace_back(methods, change); };
}
inline auto formerly(std::string_view names) {
  return [names](Option& row) { row.former = names; };
}
// No effect without that option (with one of these values).
inline auto with(std::string_view option, std::string_view values = "true") {
  return [=](Option& row) { row.needed_option = option, row.needed_values = values; };
}

// text, strings (prompt and completion, or a pair), messages, turns (the same as strings, of messages),
// tokens (input_ids, chosen_ids), with completion_mask: masked, with labels: labeled.
inline constexpr std::string_view kRowForms = "text strings messages turns tokens masked labeled";
inline constexpr std::string_view kConversations = "messages turns";
inline constexpr std::string_view kAnyRows = "any";
inline constexpr std::string_view kMappedRows =
    "mapped";  // makes other rows of them, which can be seen (data/files/row_columns.h)
inline auto for_rows(std::string_view forms) {
  return [=](Option& row) { row.row_forms = forms; };
}

// One command's options, in the order of --help and plan.yaml.
struct Schema {
  std::string command;  // "sft", "generate", ...
  std::vector<Option> options;

  const Option* find(std::string_view name) const;  // null when unknown
  std::vector<std::string> names() const;
};

// Holds what several rows have in common; `of` gives a row other methods.
struct Block {
  std::string_view group, origin, methods;
};
void add(std::vector<Option>& rows, const Block& block, const std::vector<Option>& more);

const Schema& generate_schema();
const Schema& chat_schema();
const Schema& convert_schema();
const Schema& merge_schema();
const Schema& export_schema();
const Schema& reward_test_schema();
const Schema& doctor_schema();
const Schema& faults_schema();
const Schema& check_schema();
const Schema& bisect_schema();
const Schema& lr_find_schema();
const std::vector<const Schema*>& all_schemas();
const Schema* schema_for(std::string_view command);  // null for commands without options

// A name that is no option of hone, and what becomes of it: a former name of TRL, transformers or PEFT, or a
// name of a dialect of TRL's recipes (alignment-handbook, open-r1, SageMaker, ...). Data, in former_names.cpp and
// dialects.cpp; the rows' own former names (`formerly`) are among them.
enum class Fate {
  kOption,   // another name of `option`; `words` translates values: "left=keep_end right=keep_start"
  kKey,      // a key of the mapping `option`
  kMixture,  // kept for recipe_mixtures.h, which reads several of them together
  kNote,     // says how and not what, or nothing here: a note, with `why`
  // An error with `why` and `fix`, unless it is off (null, false, 0, "", [], "none"), or one of `words`,
  // which hone does.
  kRefused,
};
struct FormerName {
  std::string_view name;
  std::string_view whose;  // "TRL", "transformers", "open-r1"
  Fate fate = Fate::kNote;
  std::string_view option = {};
  std::string_view why = {};
  std::string_view fix = {};
  std::string_view words = {};
  std::string_view commands = kAll;  // or names separated by spaces or commas; it has this meaning only there
  bool zero_says_nothing = false;    // kOption: 0 leaves the option as it is
  // kOption: where the option stands there too, this name means something else, and a note says so with
  // `why`.
  bool yields = false;
};
const FormerName* find_former_name(std::string_view name, std::string_view command);  // null: none
const std::vector<FormerName>& former_names();  // all, those of `formerly` last
std::vector<FormerName> dialect_names();        // dialects.cpp

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
std::vector<Option> cpo_options();  // the losses of cpo and orpo
std::vector<Option> training_options();
std::vector<Option> optimizer_options();
std::vector<Option> completion_options();
std::vector<Option> logging_options();
std::vector<Option> evaluation_options();
std::vector<Option> sample_options();
std::vector<Option> saving_options();
std::vector<Option> machine_options();
std::vector<Option> doctor_options();
std::vector<Option> recipe_options();  // of the groups above

}  // namespace hone::config
