// Whose file it is.
#pragma once

#include <optional>
#include <string>

#include "config/others/other_run.h"

namespace hone::config {

struct Recognized {
  Trainer trainer = Trainer::kAxolotl;
  std::string by;  // the names that say so
};

// Null: hone's own, TRL's, or nobody's. A file that is no YAML is nobody's too. `text` may be JSON or a
// script.
std::optional<Recognized> recognize(const std::string& text, const std::string& path);

// "axolotl", "llamafactory", "swift", "trl", ...; null for "hone". UserError for another word.
std::optional<Trainer> trainer_of_word(const std::string& word);

}  // namespace hone::config
