// Several adapters of one base as one adapter: PEFT 0.21.2's add_weighted_adapter, of LoRA on linears.
#pragma once

#include <vector>

#include "adapters/peft_files.h"

namespace hone::adapters {

enum class Combination {
  kLinear,  // A = sum of sqrt|w s| sign(w s) A_i, B = sum of sqrt|w s| B_i: cheap, and a rough approximation
  kCat      // A = [w s A_i], B = [B_i]: exact, its rank the sum of all
};

// Scale 1 (alpha is the rank), targets those of any. A module that some do not have is summed over those that
// do; under kCat the rest of its rank is zero. One adapter is combined linearly. What the first one says of
// dropout and base stays. (PEFT keeps the first one's use_rslora, so that its result is sqrt(r) times too
// strong; hone's is not.) `names` are the adapters' in messages. UserError for as many weights as adapters
// not, ranks that differ under kLinear, DoRA, rows of the
// embedding that are trained, and targets of which only some are a regular expression.
StoredAdapter combine(const std::vector<StoredAdapter>& adapters, const std::vector<std::string>& names,
                      const std::vector<double>& weights, Combination how, const model::ModelConfig& model);

// As tensors under PEFT's keys, for write_adapter.
std::map<std::string, at::Tensor> tensors_of(const StoredAdapter& adapter);

}  // namespace hone::adapters
