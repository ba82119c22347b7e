// A run that another trainer's file describes, in hone's options. Nothing in it is guessed: a value comes
// from the file, or is that trainer's own default and marked so, or is among the unknown with its reason.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/plan.h"

namespace hone::config {

enum class Trainer { kAxolotl, kFactory, kSwift, kTorchtune, kTrl, kUnsloth, kTransformers };
std::string_view trainer_title(
    Trainer trainer);  // "axolotl", "LLaMA-Factory", "ms-swift", "TRL", as it is printed
std::string_view trainer_word(Trainer trainer);  // "axolotl", "llamafactory", "swift", as --as takes it

constexpr bool is_script(Trainer trainer) {
  return trainer == Trainer::kTrl || trainer == Trainer::kUnsloth || trainer == Trainer::kTransformers;
}

struct OtherValue {
  std::string option;  // hone's
  base::Json value;
  std::string from;   // the name in the file; of a default: why it has this value
  std::string where;  // "run.yaml:7"; empty: the trainer's default
  bool is_default() const { return where.empty(); }
};

struct OtherNote {
  std::string where;  // "run.yaml:7"; empty: of no single line
  std::string name;   // as the file has it
  std::string text;
};

// A value that cannot be known: why, what depends on it, and what the user can do about it.
struct OtherUnknown {
  std::string where, name, why, depends, fix;
};

// An option that hone cannot train with, or that the trainer itself refuses.
struct OtherRefusal {
  std::string where, name, why, fix;
};

struct OtherRun {
  Trainer trainer = Trainer::kAxolotl;
  Method method = Method::kSft;
  std::string file;
  std::string
      text_name;  // the trainer's own text of conversations that the file names; empty: the model's template
  double processes = 0;    // that the file starts; 0: it does not say
  std::string recognized;  // by what: "base_model and micro_batch_size", "--as axolotl"
  std::vector<OtherValue> options;
  std::vector<OtherNote> ignored;  // names without an effect here, each with the reason
  std::vector<OtherNote> notes;
  std::vector<OtherUnknown> unknown;
  std::vector<OtherRefusal> refused;

  const OtherValue* find(std::string_view option) const;
};

}  // namespace hone::config
