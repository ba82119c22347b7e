// A trainer's text of conversations as a chat template, so that a run renders and trains what the trainer does.
#pragma once

#include <string>
#include <vector>

#include "config/others/trainer_texts.h"

namespace hone::config {

struct TextUse {
  bool trains_last_only = false;  // of several answers the last one
  bool strips_history =
      false;           // thoughts of answers before the last are cut out, and no empty block is written
  bool thinks = true;  // false: no thoughts, and the empty block stands in the prompt
  std::vector<std::string> trained_ends = {};  // beside the tokenizer's eos_token
  std::string default_system = {};             // in the place of the text's own
};

// Jinja with generation tags around what is trained.
std::string template_of(const TrainerText& text, const TextUse& use = {});

}  // namespace hone::config
