#include "config/others/recognize.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "config/others/read_other.h"
#include "config/others/shell_words.h"

namespace hone::config {
namespace {

// The first name of `names` that the file has.
std::string first_of(const OtherFile& file, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (file.find(name) != nullptr) return name;
  }
  return {};
}

// A set of axolotl's with `type`.
bool has_typed_sets(const OtherFile& file) {
  const OtherEntry* sets = file.find("datasets");
  if (sets == nullptr || !sets->value.is_array()) return false;
  return std::any_of(sets->value.begin(), sets->value.end(),
                     [](const base::Json& one) { return one.is_object() && one.contains("type"); });
}

std::optional<Recognized> of_names(const OtherFile& file) {
  if (file.find("base_model") != nullptr) {
    std::string second =
        first_of(file, {"micro_batch_size", "sequence_len", "sample_packing", "val_set_size"});
    if (second.empty() && has_typed_sets(file)) second = "datasets with type";
    if (!second.empty()) return Recognized{Trainer::kAxolotl, "base_model and " + second};
  }
  if (const std::string name = first_of(file, {"finetuning_type", "stage"}); !name.empty())
    return Recognized{Trainer::kFactory, name};
  if (const std::string name = first_of(file, {"tuner_type", "train_type", "sft_type"}); !name.empty())
    return Recognized{Trainer::kSwift, name};
  return std::nullopt;
}

}  // namespace

std::optional<Recognized> recognize(const std::string& text, const std::string& path) {
  if (const auto verb = swift_command(text)) return Recognized{Trainer::kSwift, *verb};
  try {
    return of_names(read_other_text(text, path));
  } catch (const base::UserError&) {
    return std::nullopt;
  }
}

std::optional<Trainer> trainer_of_word(const std::string& word) {
  if (word == "hone") return std::nullopt;
  for (const Trainer trainer : {Trainer::kAxolotl, Trainer::kFactory, Trainer::kSwift}) {
    if (word == trainer_word(trainer)) return trainer;
  }
  const std::vector<std::string> known = {"axolotl", "llamafactory", "swift", "hone"};
  throw base::UserError({.where = "--as",
                         .expected = fmt::format("one of {}", "axolotl, llamafactory, swift, hone"),
                         .found = fmt::format("'{}'.{}", word, base::did_you_mean(word, known)),
                         .fix = "leave it out: the file is recognized by its names"});
}

}  // namespace hone::config
