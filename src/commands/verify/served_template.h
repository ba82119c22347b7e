// Compares how a server renders conversations with how the tokenizer of the training does.
#pragma once

#include <cstdint>
#include <string>

#include "commands/verify/served_model.h"
#include "train/opening/open_model.h"

namespace hone::commands {

struct TemplateFinding {
  enum class State { kEqual, kDiffers, kNotCompared } state = State::kNotCompared;
  std::string what;  // "3 conversations, equal tokens"; the first difference; why nothing is compared
};

// It renders conversations of a user, of a system prompt with a user, and of three turns. It leaves out those that the
// tokenizer's own template refuses. A server that does not answer is kNotCompared.
TemplateFinding compare_templates(const ServedModel& served, const train::OpenedText& text);

}  // namespace hone::commands
