// Shared code asks this of a method. It is data of the method's row in config/methods.cpp, so that only the row
// names the method.
#pragma once

#include <string_view>

#include "config/plan.h"

namespace hone::config {

struct MethodTraits {
  bool groups = false;         // samples num_generations completions of a prompt, whose rewards are compared
  bool scores = false;         // trains a score head, not a vocabulary's
  bool rewarded = true;        // of a method that samples: completions get rewards
  bool shares_prompts = true;  // a pass that trains has several completions of a prompt
  // The option that limits sampled completions, as the user knows it.
  std::string_view completion_limit = "max_completion_length";
  std::string_view reference_option = "ref_model";  // names another model as the reference
  std::string_view only_loss = "";                  // the word of its loss, where loss_type says nothing
  // The weight of the distance from the reference, and the share of pairs that are assumed to be wrong. Null: it has none.
  double (*beta)(const Plan&) = nullptr;
  double (*label_smoothing)(const Plan&) = nullptr;
};
const MethodTraits& method_traits(Method method);

}  // namespace hone::config
