// Commands whose first word may stand without its option's name, as in `hone faults GRAD-02`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace hone::config {

// Reads the words after the command, of which a first one without dashes is the value of `option` ("--code"). Throws the
// mistakes that it finds, as a UserError.
inline Settings read_first_word(const Schema& schema, std::vector<std::string> words,
                                std::string_view option) {
  if (!words.empty() && !words[0].starts_with("-")) words.insert(words.begin(), std::string(option));
  Settings settings(schema);
  settings.read_arguments(words);
  settings.throw_mistakes();
  return settings;
}

}  // namespace hone::config
