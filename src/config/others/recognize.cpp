#include "config/others/recognize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/strings/suggest.h"
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

// A value of the file with a component of torchtune's.
std::string torchtune_component(const OtherFile& file) {
  for (const OtherEntry& one : file.entries) {
    if (!one.value.is_object() || !one.value.contains("_component_")) continue;
    const base::Json& component = one.value.at("_component_");
    if (component.is_string() && component.get<std::string>().starts_with("torchtune.")) return one.name;
  }
  return {};
}

std::optional<Recognized> of_names(const OtherFile& file) {
  if (const std::string name = torchtune_component(file); !name.empty())
    return Recognized{Trainer::kTorchtune, name + "._component_"};
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

// True where a line of code begins with the words. One of a notebook has a quote before it.
bool has_line(const std::string& text, std::string_view words) {
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t' || text[begin - 1] == '"'))
      --begin;
    const bool first = begin == 0 || text[begin - 1] == '\n' || text[begin - 1] == ';';
    if (first || (begin > 1 && text[begin - 1] == 'n' && text[begin - 2] == '\\')) return true;
    if (begin > 0 && text[begin - 1] == '[' && begin < at) return true;  // "source": ["import unsloth"]
    if (begin > 0 && text[begin - 1] == ':' && begin < at) return true;
  }
  return false;
}

// A script of Python: whose classes it imports.
std::optional<Recognized> of_script(const std::string& text) {
  for (const char* word : {"import unsloth", "from unsloth"}) {
    if (has_line(text, word)) return Recognized{Trainer::kUnsloth, word};
  }
  for (const char* word : {"from trl import", "import trl", "from trl."}) {
    if (text.find(word) != std::string::npos) return Recognized{Trainer::kTrl, word};
  }
  if (text.find("transformers") != std::string::npos && text.find("Trainer(") != std::string::npos)
    return Recognized{Trainer::kTransformers, "transformers and Trainer"};
  return std::nullopt;
}

constexpr std::array kTrainers = {Trainer::kAxolotl,     Trainer::kFactory, Trainer::kSwift,
                                  Trainer::kTorchtune,   Trainer::kTrl,     Trainer::kUnsloth,
                                  Trainer::kTransformers};

}  // namespace

std::optional<Recognized> recognize(const std::string& text, const std::string& path) {
  if (path.ends_with(".py") || path.ends_with(".ipynb")) return of_script(text);
  if (auto command = trainer_command(text)) return command;
  try {
    return of_names(read_other_text(text, path));
  } catch (const base::UserError&) {
    return std::nullopt;
  }
}

std::optional<Trainer> trainer_of_word(const std::string& word) {
  if (word == "hone") return std::nullopt;
  std::vector<std::string> known = {"hone"};
  for (const Trainer trainer : kTrainers) {
    if (word == trainer_word(trainer)) return trainer;
    known.emplace_back(trainer_word(trainer));
  }
  throw base::UserError({.where = "--as",
                         .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                         .found = fmt::format("'{}'.{}", word, base::did_you_mean(word, known)),
                         .fix = "leave it out: the file is recognized by its names"});
}

}  // namespace hone::config
