// Several adapters of one base as one adapter: PEFT 0.21.2's add_weighted_adapter, of LoRA on linears.
#pragma once

#include <vector>

#include "adapters/peft_files.h"
#include "adapters/task_arithmetic.h"

namespace hone::adapters {

// dare_linear, dare_ties and their svd forms drop values at random: two merges would give different adapters.
enum class Combination {
  kLinear,   // A = sum of sqrt|w s| sign(w s) A_i, B = sum of sqrt|w s| B_i: cheap, and a rough approximation
  kCat,      // A = [w s A_i], B = [B_i]: exact, its rank the sum of all
  kSvd,      // the sum of w s B_i A_i, reduced to a rank: the best approximation of this rank
  kTies,     // as kLinear, of the values that ties() keeps of the A and of the B
  kTiesSvd,  // ties() of the products, reduced to a rank: decomposes full matrices
  kMagnitudePrune,     // as kLinear, of the largest values of the A and of the B
  kMagnitudePruneSvd,  // the largest values of the products, reduced to a rank
};

struct Recipe {
  Combination how = Combination::kLinear;
  double density = 1;                    // ties and magnitude_prune: the share of values that is kept
  Election election = Election::kTotal;  // ties
  std::int64_t svd_rank = 0;             // of the svd forms; 0: the largest of the adapters
};

// The result has scale 1 (alpha is the rank) and the union of the targets. A module that some adapters lack
// is combined from the others; under kCat the rest of its rank is zero. A single adapter is combined
// linearly. Dropout and base are those of the first one. (PEFT keeps the first one's use_rslora, so that its
// result is sqrt(r) times too large; hone's is not.) `names` are for messages. UserError for a wrong number
// of weights, different ranks where A and B are added, a rank above a module's smaller side, DoRA, a reward
// model's adapter, trained rows of the embedding, and targets of which only some are a regular expression.
StoredAdapter combine(const std::vector<StoredAdapter>& adapters, const std::vector<std::string>& names,
                      const std::vector<double>& weights, Recipe recipe, const model::ModelConfig& model);

// As tensors under PEFT's keys, for write_adapter.
std::map<std::string, at::Tensor> tensors_of(const StoredAdapter& adapter);

}  // namespace hone::adapters
