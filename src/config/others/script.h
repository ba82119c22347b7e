// A script's values (fold_script.h) as a run: which arguments of which class become which options of hone.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/others/other_names.h"
#include "config/others/other_run.h"
#include "config/others/translation.h"

namespace hone::config::script {

// ---- values of fold_script.h

// The last word of the class that made it: "SFTConfig" of "trl.SFTConfig"; "" for another value.
std::string class_of(const base::Json& value);
// The whole name: "trl.SFTConfig", ".map"; "" for another value.
std::string made_by(const base::Json& value);
std::string line_of(const base::Json& value);  // "line 7"; of a notebook "cell 3 line 2"
// An argument by its name, else by its position; null: it is not given, or None.
const base::Json* argument(const base::Json& made, std::string_view name, int position = -1);
// The value where it is known: JSON, "bfloat16" of torch.bfloat16. Null: why_unknown.
std::optional<base::Json> known(const base::Json& value);
std::string why_unknown(const base::Json& value);
std::string text_of(const base::Json& value);  // "" where it is no known text
bool is_true(const base::Json* value);
// Why its values, or those of the things that it is a part or a method of, may be others; "" where they are as read.
std::string why_touched(const base::Json& value);

// ---- the parts of a run

struct Script {
  const base::Json& folded;
  const base::Json* trainer = nullptr;  // the one that trains
  OtherRun& out;

  std::string where(const base::Json& value) const;
  void note(const base::Json& value, std::string_view name, std::string text);
  void refuse(const base::Json& value, std::string_view name, std::string why, std::string fix);
  // `depends`: an option, or words for what is not examined.
  void unknown(const base::Json& value, std::string_view name, std::string why, std::string depends,
               std::string fix = {});
  // Options of the arguments `args` of one call by the rows of a table; a name outside the table is an option
  // of hone with TRL's name, or a former name of it. Values that are not known are told.
  void take(const base::Json& args, std::span<const OtherName> table, std::string_view of);
  // One option of one value, told as unknown where it is.
  void set(std::string_view option, const base::Json& value, std::string_view from);
  void set_json(std::string_view option, base::Json value, std::string_view from, const base::Json& place);
  void set_default(std::string_view option, base::Json value, std::string_view why = {});
  bool has(std::string_view option) const;  // set, or told as unknown
};

// The model inside get_peft_model(model, ...), model.to(...) and its like; null: another call.
const base::Json* inner_model(const base::Json& made);
// The call of from_pretrained behind a model; null: none is found.
const base::Json* loaded_model(const base::Json* model);

void add_method(Script& script);
void add_config(Script& script);          // TrainingArguments and TRL's configs, and their defaults
void add_model(Script& script);           // the model, its quantization, its adapter
void add_model_defaults(Script& script);  // behind add_config, which may set the dtype
void add_rows(Script& script);            // train_dataset, eval_dataset, what is trained of a row
void add_rewards(Script& script);         // reward_funcs

std::span<const OtherName> config_names();
std::span<const OtherName> trainer_names();
std::span<const OtherName> lora_names();
std::span<const OtherName> model_names();
std::span<const OtherName> quantization_names();

}  // namespace hone::config::script
