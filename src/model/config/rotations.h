// The rotations of a model: what config.json says of them, and the tables of a pass.
//
// Which factors a longrope has, and when, follows transformers' forward: it looks at the longest sequence of the pass. A
// micro-batch of hone is a micro-batch of TRL, so training has TRL's factors. In generation transformers decides again
// with every token, so a sequence that grows beyond the original length has keys of both kinds, or is computed again;
// hone does not generate beyond it (rollout::Engine).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/config/model_config.h"
#include "ops/rope.h"

namespace hone::model {

struct FamilyTraits;

// rope_parameters, those of full attention where each type of layer has its own, or rope_scaling; without either what
// transformers' class has, or null.
const base::Json* rotation_of(const base::Json& json, Family family);
// transformers: original_max_position_embeddings beside rope_parameters comes before the one in it, `rope`; without
// either it is the model's own length.
double original_length(const base::Json& json, const base::Json& rope, const ModelConfig& config,
                       const std::string& where);

// rope_parameters (transformers 5), or rope_theta and rope_scaling (before) into config; head_dim and
// max_position_embeddings are there already. UserError for a scaling that hone or the family does not have.
void parse_rope(const base::Json& json, const std::string& where, const FamilyTraits& family,
                ModelConfig& config);

// The inverse frequencies of the main rotation, [rotated / 2] fp32; `is_long`: with longrope's long factors.
at::Tensor main_frequencies(const ModelConfig& config, bool is_long = false);

// The tables of a pass, one a rotation of the model: kMainRotation, kLocalRotation. Where queries are scaled by
// position, `queries` is that of the main rotation of queries, with the scale in it; undefined otherwise.
struct RopeTables {
  std::vector<ops::RopeTable> tables;
  ops::RopeTable queries;
  // Turns no column, [T, 0]: of values that have a norm, of queries and keys that have one in a layer without a rotation;
  // undefined otherwise.
  ops::RopeTable none;
};

class Rotations {
 public:
  Rotations() = default;
  Rotations(const ModelConfig& config, at::Device device);

  // Returns the tables for tokens at these positions. UserError for a sequence that is too long for
  // `dynamic`.
  RopeTables tables(const ModelConfig& config, const std::vector<std::int64_t>& positions,
                    at::ScalarType dtype) const;
  // The same for positions [T] fp32 on the device, which the host does not look at: none is beyond the original length of a scaling,
  // and queries are not scaled by position.
  RopeTables tables(const ModelConfig& config, const at::Tensor& positions, at::ScalarType dtype) const;

 private:
  std::vector<at::Tensor> frequencies_;  // [rotated / 2] fp32, one a rotation; its own width each
  at::Tensor long_;                      // of the main one, for long sequences; undefined without longrope
};

// The longest sequence that can be generated: fewer than max_position_embeddings where the factors would change.
std::int64_t longest_generated(const ModelConfig& config);

}  // namespace hone::model
