#include "model/config/rotations.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"
#include "model/config/config_fields.h"
#include "model/config/families.h"
#include "ops/rope.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

// factor, or where it is null the ratio of both lengths.
double factor_of(const Json& rope, double original, const ModelConfig& config, const std::string& where) {
  if (lookup(rope, "factor") != nullptr) return positive_float(rope, "factor", where);
  return static_cast<double>(config.max_position_embeddings) / original;
}

void parse_llama3(const Json& json, const Json& rope, const std::string& where, ModelConfig& config) {
  Llama3Rope scaling;
  scaling.factor = positive_float(rope, "factor", where);
  scaling.low_freq_factor = positive_float(rope, "low_freq_factor", where);
  scaling.high_freq_factor = positive_float(rope, "high_freq_factor", where);
  scaling.original_max_position_embeddings = original_length(json, rope, config, where);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    throw UserError({where, "high_freq_factor above low_freq_factor", base::short_json(rope), "", ""});
  }
  config.rope_llama3 = scaling;
}

// _compute_yarn_parameters' attention factor.
double yarn_attention_factor(const Json& rope, double factor, const std::string& where) {
  if (lookup(rope, "attention_factor") != nullptr) return positive_float(rope, "attention_factor", where);
  const auto scale = [&](double by) { return factor <= 1 ? 1.0 : 0.1 * by * std::log(factor) + 1; };
  const double some = float_or(rope, "mscale", 0, where), all = float_or(rope, "mscale_all_dim", 0, where);
  return some != 0 && all != 0 ? scale(some) / scale(all) : scale(1);
}

double beta_or(const Json& rope, const char* key, double fallback, const std::string& where) {
  const double beta = float_or(rope, key, 0, where);
  if (beta == 0) return fallback;
  if (!(beta >= kLeastFactor && beta <= kMaxFactor)) wrong_type(where, key, "a positive number", beta);
  return beta;
}

void parse_yarn(const Json& json, const Json& rope, const std::string& where, ModelConfig& config) {
  YarnRope yarn;
  yarn.original_max_position_embeddings = original_length(json, rope, config, where);
  yarn.factor = factor_of(rope, yarn.original_max_position_embeddings, config, where);
  yarn.beta_fast = beta_or(rope, "beta_fast", 32, where);
  yarn.beta_slow = beta_or(rope, "beta_slow", 1, where);
  yarn.truncate = bool_or(rope, "truncate", true, where);
  config.rope_attention_factor = yarn_attention_factor(rope, yarn.factor, where);
  if (config.rope_theta == 1) throw UserError({where, "a rope_theta that is not 1, with yarn", "1", "", ""});
  config.rope_yarn = yarn;
}

std::vector<double> factors(const Json& rope, const char* key, std::int64_t count, const std::string& where) {
  const Json* const list = lookup(rope, key);
  const std::string expected = "a list of " + std::to_string(count) + " positive numbers";
  if (list == nullptr || !list->is_array() || static_cast<std::int64_t>(list->size()) != count)
    wrong_type(where, key, expected.c_str(), list == nullptr ? Json(nullptr) : *list);
  std::vector<double> out;
  for (const Json& one : *list) {
    const bool number =
        one.is_number() && one.get<double>() >= kLeastFactor && one.get<double>() <= kMaxFactor;
    if (!number) wrong_type(where, key, expected.c_str(), one);
    out.push_back(one.get<double>());
  }
  return out;
}

void parse_longrope(const Json& json, const Json& rope, const std::string& where, ModelConfig& config) {
  const double original = original_length(json, rope, config, where);
  const double factor = factor_of(rope, original, config, where);
  LongRope longrope;
  longrope.original_max_position_embeddings = static_cast<std::int64_t>(original);
  longrope.short_factor = factors(rope, "short_factor", config.rotated() / 2, where);
  longrope.long_factor = factors(rope, "long_factor", config.rotated() / 2, where);
  double attention = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  if (lookup(rope, "attention_factor") != nullptr)
    attention = positive_float(rope, "attention_factor", where);
  if (!std::isfinite(attention)) {
    throw UserError({where, "an original_max_position_embeddings above 1", base::short_json(rope), "", ""});
  }
  config.rope_attention_factor = attention;
  config.rope_long = std::move(longrope);
}

// Whole heads are turned, those beyond a share of their columns by no angle.
void parse_proportional(const Json& rope, const std::string& where, ModelConfig& config) {
  const double share = float_or(rope, "partial_rotary_factor", 1, where);
  if (!(share >= 0 && share <= 1))
    wrong_type(where, "partial_rotary_factor", "a number from 0 to 1", Json(share));
  if (lookup(rope, "factor") != nullptr) config.rope_linear_factor = positive_float(rope, "factor", where);
  config.rope_proportional = static_cast<std::int64_t>(share * static_cast<double>(config.rotated())) / 2;
}

// partial_rotary_factor, in rope_parameters or beside them.
void parse_rotated(const Json& json, const Json* rope, const std::string& where, const FamilyTraits& family,
                   ModelConfig& config) {
  if (rope != nullptr && string_or(*rope, "rope_type", "", where) == "proportional")
    return;  // another meaning
  double factor = float_or(json, "partial_rotary_factor", family.default_rotated_part, where);
  if (rope != nullptr) factor = float_or(*rope, "partial_rotary_factor", factor, where);
  if (factor == 1) return;
  if (!family.rotates_parts) {
    throw UserError({where, "partial_rotary_factor 1", base::short_json(Json(factor)),
                     "models of this family rotate whole heads", ""});
  }
  const auto columns = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * factor);
  if (!(factor > 0 && factor <= 1) || columns <= 0 || columns % 2 != 0) {
    throw UserError({where, "a partial_rotary_factor up to 1 that gives an even number of columns",
                     base::short_json(Json(factor)) + " of a head of " + std::to_string(config.head_dim), "",
                     ""});
  }
  if (columns < config.head_dim) config.rotary_dim = columns;
}

void parse_scaling(const Json& json, const Json& rope, const std::string& where, const FamilyTraits& family,
                   ModelConfig& config) {
  std::string type = string_or(rope, "rope_type", string_or(rope, "type", "default", where), where);
  // Phi3Config's old names
  if (family.family == Family::kPhi3 && (type == "su" || type == "yarn")) type = "longrope";
  if (type == "linear") {
    config.rope_linear_factor = positive_float(rope, "factor", where);
  } else if (type == "llama3") {
    parse_llama3(json, rope, where, config);
  } else if (type == "yarn") {
    parse_yarn(json, rope, where, config);
  } else if (type == "longrope") {
    parse_longrope(json, rope, where, config);
  } else if (type == "proportional" && family.family == Family::kGemma4) {
    parse_proportional(rope, where, config);
  } else if (type == "dynamic") {
    config.rope_dynamic_from = config.max_position_embeddings;
  } else if (type != "default") {
    throw UserError(
        {where, "rope_type default, linear, llama3, yarn, longrope or dynamic, or proportional of a Gemma 4",
         "'" + base::cut_text(type, 200) + "'", "hone does not have this rope scaling yet",
         "use a model without it"});
  }
}

// Of Ministral3Config, when the file has none.
const Json& ministral3_rotation() {
  static const Json rope = {{"rope_type", "yarn"},
                            {"rope_theta", 1e6},
                            {"factor", 16.0},
                            {"original_max_position_embeddings", 16384},
                            {"beta_fast", 32.0},
                            {"beta_slow", 1.0},
                            {"mscale", 1.0},
                            {"mscale_all_dim", 1.0},
                            {"llama_4_scaling_beta", 0.1}};
  return rope;
}

// Of Gemma4TextConfig's full attention.
const Json& gemma4_rotation() {
  static const Json rope = {
      {"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}};
  return rope;
}

}  // namespace

const Json* rotation_of(const Json& json, Family family) {
  const Json* rope = lookup(json, "rope_parameters");
  if (rope != nullptr && rope->is_object() && rope->contains("full_attention")) {
    rope = lookup(*rope, "full_attention");  // one for each type of layer
  }
  if (rope == nullptr) rope = lookup(json, "rope_scaling");
  if (rope == nullptr && family == Family::kMinistral3) return &ministral3_rotation();
  if (rope == nullptr && family == Family::kGemma4) return &gemma4_rotation();
  return rope;
}

double original_length(const Json& json, const Json& rope, const ModelConfig& config,
                       const std::string& where) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const auto length = [&](const Json& holder) {
    const double found = positive_float(holder, kKey, where);
    if (found < 1 || found > static_cast<double>(kMaxInt32))
      wrong_type(where, kKey, "a length from 1 to 2^31 - 1", holder.at(kKey));
    return found;
  };
  if (lookup(json, kKey) != nullptr) return length(json);
  if (config.family == Family::kPhi3) return 4096;  // its class has one beside them
  if (lookup(rope, kKey) != nullptr) return length(rope);
  return static_cast<double>(config.max_position_embeddings);
}

// Which of the two transformers reads depends on the family.
void refuse_two_rotations(const Json& json, const std::string& where) {
  const Json *const now = lookup(json, "rope_parameters"), *const before = lookup(json, "rope_scaling");
  if (now == nullptr || before == nullptr || *now == *before) return;
  throw UserError({where, "rope_parameters or rope_scaling",
                   "both: " + base::short_json(*now) + " and " + base::short_json(*before),
                   "a scaling was added to a file that transformers 5 wrote",
                   "put all into rope_parameters, with rope_theta, and remove rope_scaling"});
}

void parse_rope(const Json& json, const std::string& where, const FamilyTraits& family, ModelConfig& config) {
  refuse_two_rotations(json, where);
  config.rope_theta = float_or(json, "rope_theta", family.default_rope_theta, where);
  const Json* const rope = rotation_of(json, family.family);
  if (rope != nullptr && !rope->is_object())
    wrong_type(where, "rope_parameters / rope_scaling", "an object", *rope);
  if (rope != nullptr) config.rope_theta = float_or(*rope, "rope_theta", config.rope_theta, where);
  if (!(config.rope_theta >= kLeastFactor && config.rope_theta <= kMaxFactor)) {
    throw UserError({where, "a positive rope_theta", std::to_string(config.rope_theta), "", ""});
  }
  parse_rotated(json, rope, where, family, config);
  if (rope != nullptr) parse_scaling(json, *rope, where, family, config);
}

at::Tensor main_frequencies(const ModelConfig& config, bool is_long) {
  const double theta = config.rope_theta;
  if (const auto& r = config.rope_long)
    return ops::rope_long_frequencies(theta, is_long ? r->long_factor : r->short_factor);
  if (const auto& r = config.rope_yarn) {
    return ops::rope_yarn_frequencies(
        theta, config.rotated(),
        {r->factor, r->original_max_position_embeddings, r->beta_fast, r->beta_slow, r->truncate});
  }
  at::Tensor plain = ops::rope_inverse_frequencies(theta, config.rotated());
  if (const auto& angles = config.rope_proportional)
    plain.narrow(0, *angles, plain.size(0) - *angles).zero_();
  if (config.rope_linear_factor) return ops::rope_scale_linear(plain, *config.rope_linear_factor);
  if (const auto& r = config.rope_llama3) {
    return ops::rope_scale_llama3(
        plain, {r->factor, r->low_freq_factor, r->high_freq_factor, r->original_max_position_embeddings});
  }
  return plain;
}

Rotations::Rotations(const ModelConfig& config, at::Device device)
    : frequencies_{main_frequencies(config).to(device)} {
  if (config.rope_long) long_ = main_frequencies(config, /*is_long=*/true).to(device);
  if (config.local_rope_theta) {
    frequencies_.push_back(
        ops::rope_inverse_frequencies(*config.local_rope_theta, config.locally_rotated()).to(device));
  }
}

namespace {

// A norm of each head goes with a rotation: of values, and of queries and keys in a layer that does not rotate, with none.
bool norms_without_rotation(const ModelConfig& config) {
  const auto unrotated = [](const LayerAttention& layer) { return layer.rotation == kNoRotation; };
  return config.value_norm ||
         (config.qk_norm && std::any_of(config.attention.begin(), config.attention.end(), unrotated));
}

}  // namespace

RopeTables Rotations::tables(const ModelConfig& config, const std::vector<std::int64_t>& positions,
                             at::ScalarType dtype) const {
  const std::int64_t longest =
      positions.empty() ? 0 : *std::max_element(positions.begin(), positions.end()) + 1;
  if (config.rope_dynamic_from > 0 && longest > config.rope_dynamic_from) {
    throw UserError({"rope_type dynamic",
                     "sequences of at most " + std::to_string(config.rope_dynamic_from) +
                         " tokens (max_position_embeddings)",
                     std::to_string(longest) + " tokens",
                     "transformers' frequencies then depend on the longest sequence that came before",
                     "set max_length to " + std::to_string(config.rope_dynamic_from)});
  }
  const auto& longrope = config.rope_long;
  const bool is_long = longrope && longest > longrope->original_max_position_embeddings;
  RopeTables out;
  const double factor = config.rope_attention_factor;
  const at::Tensor& main = is_long ? long_ : frequencies_.front();
  out.tables.push_back(ops::rope_table(main, positions, dtype, factor));
  for (std::size_t i = 1; i < frequencies_.size(); ++i)
    out.tables.push_back(ops::rope_table(frequencies_[i], positions, dtype));
  if (norms_without_rotation(config)) {
    const auto tokens = static_cast<std::int64_t>(positions.size());
    out.none.cos = at::empty({tokens, 0}, main.options().dtype(dtype));
    out.none.sin = at::empty_like(out.none.cos);
  }
  if (config.query_scale_beta != 0) {
    const at::Tensor scale =
        ops::query_position_scale(positions, config.query_scale_beta, config.query_scale_length);
    out.queries = ops::rope_table(main, positions, dtype, factor, scale);
  }
  return out;
}

RopeTables Rotations::tables(const ModelConfig& config, const at::Tensor& positions,
                             at::ScalarType dtype) const {
  base::require(config.query_scale_beta == 0, "Rotations::tables", "queries that are not scaled by position");
  RopeTables out;
  for (std::size_t i = 0; i < frequencies_.size(); ++i)
    out.tables.push_back(
        ops::rope_table(frequencies_[i], positions, dtype, i == 0 ? config.rope_attention_factor : 1));
  if (norms_without_rotation(config)) {
    out.none.cos = at::empty({positions.size(0), 0}, frequencies_.front().options().dtype(dtype));
    out.none.sin = at::empty_like(out.none.cos);
  }
  return out;
}

std::int64_t longest_generated(const ModelConfig& config) {
  if (!config.rope_long) return config.max_position_embeddings;
  return std::min(config.max_position_embeddings, config.rope_long->original_max_position_embeddings);
}

}  // namespace hone::model
