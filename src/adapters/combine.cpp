#include "adapters/combine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "adapters/expert_targets.h"
#include "base/error.h"
#include "model/config/families.h"

namespace hone::adapters {
namespace {

using base::UserError;

struct Part {
  const StoredLora* lora;
  double weight, scale;
  double effect() const { return weight * scale; }
};

bool adds_factors(Combination how) {
  return how == Combination::kLinear || how == Combination::kTies || how == Combination::kMagnitudePrune;
}

bool decomposes(Combination how) {
  return how == Combination::kSvd || how == Combination::kTiesSvd || how == Combination::kMagnitudePruneSvd;
}

// The most of any module, which PEFT counts with.
std::int64_t largest_rank(const StoredAdapter& adapter) {
  std::int64_t out = adapter.config.r;
  for (const auto& [pattern, rank] : adapter.config.rank_pattern) out = std::max(out, rank);
  return out;
}

bool same_ranks(const StoredAdapter& a, const StoredAdapter& b) {
  const auto uniform = [](const StoredAdapter& one) {
    return std::all_of(one.modules.begin(), one.modules.end(),
                       [&](const StoredLora& module) { return module.a.size(0) == one.config.r; });
  };
  return a.config.r == b.config.r && uniform(a) && uniform(b);
}

void check(const std::vector<StoredAdapter>& adapters, const std::vector<std::string>& names,
           const std::vector<double>& weights, Combination how) {
  base::require(!adapters.empty() && adapters.size() == names.size(), "combine", "adapters and their names");
  if (weights.size() != adapters.size()) {
    throw UserError({"option weights", std::to_string(adapters.size()) + " numbers, one an adapter",
                     std::to_string(weights.size()), "", ""});
  }
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const LoraConfig &one = adapters[i].config, &first = adapters[0].config;
    require_kind(one, /*score_head=*/false, names[i]);
    if (one.dora) {
      throw UserError({names[i], "a LoRA", "DoRA: its rows have magnitudes, which cannot be added",
                       "PEFT would leave them out, and the result would be a different model",
                       "merge it into the base first, and train or merge the others on that"});
    }
    if (!one.token_indices.empty()) {
      throw UserError({names[i], "a LoRA only on linears",
                       "one with trainable_token_indices: rows of the embedding, which are values and not "
                       "changes that can be added",
                       "PEFT would leave them out, and the result would be a different model",
                       "merge it into the base first, and train or merge the others on that"});
    }
    if (!adapters[i].whole.empty()) {
      throw UserError({names[i], "a LoRA", adapters[i].whole_names.front() + ", which was trained in full",
                       "values are not changes that can be added; PEFT refuses it too",
                       "merge it into the base first, and train or merge the others on that"});
    }
    if (adds_factors(how) && !same_ranks(adapters[i], adapters[0])) {
      throw UserError({names[i], "the rank of " + names[0] + ", " + std::to_string(first.r),
                       one.r != first.r ? std::to_string(one.r) : "others in its rank_pattern",
                       "A and B of different ranks cannot be added", "write --combination cat, or svd"});
    }
    if (one.target_is_regex != first.target_is_regex) {
      throw UserError({names[i] + ": target_modules",
                       "a list of names in each, or a regular expression in each", "one of each", "",
                       "write the expression as a list of names in its adapter_config.json"});
    }
  }
}

void join_targets(const std::vector<StoredAdapter>& adapters, LoraConfig& config) {
  std::set<std::string> all;
  std::string pattern;
  for (const StoredAdapter& one : adapters) {
    all.insert(one.config.target_modules.begin(), one.config.target_modules.end());
    if (one.config.target_is_regex)
      pattern += (pattern.empty() ? "(" : "|(") + one.config.target_modules.front() + ")";
  }
  config.target_modules.assign(all.begin(), all.end());
  if (config.target_is_regex && adapters.size() > 1) config.target_modules = {pattern};
}

// Every module that can have a LoRA, in the order of StoredAdapter::modules.
std::vector<std::string> modules_of(const model::ModelConfig& model) {
  std::vector<std::string> out;
  for (const model::LinearSpec& spec : model::adaptable_linears(model)) out.push_back(spec.name);
  const model::TensorNames& names = model::names_of(model);
  out.emplace_back(names.head.hf);
  out.emplace_back(names.embedding.hf);
  return out;
}

at::Tensor mixed(const std::vector<at::Tensor>& tasks, const std::vector<double>& weights,
                 const Recipe& recipe) {
  switch (recipe.how) {
    case Combination::kTies:
    case Combination::kTiesSvd:
      return ties(tasks, weights, recipe.density, recipe.election);
    case Combination::kMagnitudePrune:
    case Combination::kMagnitudePruneSvd:
      return magnitude_prune(tasks, weights, recipe.density);
    default:
      return weighted_sum(tasks, weights);
  }
}

// A of the A, B of the B, each with the root of the weight.
StoredLora factors(const std::string& module, const std::vector<Part>& parts, const Recipe& recipe) {
  std::vector<at::Tensor> a, b;
  std::vector<double> of_a, of_b;
  for (const Part& part : parts) {
    const double root = std::sqrt(std::abs(part.effect()));
    a.push_back(part.lora->a);
    b.push_back(part.lora->b);
    of_a.push_back(part.effect() < 0 ? -root : root);
    of_b.push_back(root);
  }
  return {module, mixed(a, of_a, recipe), mixed(b, of_b, recipe), at::Tensor()};
}

StoredLora cat(const std::string& module, const std::vector<Part>& parts, std::int64_t rank) {
  StoredLora out{module, at::zeros({rank, parts[0].lora->a.size(1)}),
                 at::zeros({parts[0].lora->b.size(0), rank}), at::Tensor()};
  std::int64_t at = 0;
  for (const Part& part : parts) {
    const std::int64_t own = part.lora->a.size(0);
    out.a.narrow(0, at, own).copy_(part.lora->a * part.effect());
    out.b.narrow(1, at, own).copy_(part.lora->b);
    at += own;
  }
  return out;
}

// What the B A come to together, as factors of a rank.
StoredLora product(const std::string& module, const std::vector<Part>& parts, const Recipe& recipe,
                   std::int64_t rank) {
  const std::int64_t most = std::min(parts[0].lora->b.size(0), parts[0].lora->a.size(1));
  if (rank > most) {
    throw UserError({"option svd_rank",
                     "at most the smaller side of every module, here " + std::to_string(most),
                     std::to_string(rank), module + " has no more singular values", "lower svd_rank"});
  }
  Factors out;
  if (recipe.how == Combination::kSvd) {
    std::int64_t together = 0;
    for (const Part& part : parts) together += part.lora->a.size(0);
    const StoredLora sum = cat(module, parts, together);
    out = decompose(Factors{.a = sum.a, .b = sum.b}, rank);
  } else {
    std::vector<at::Tensor> deltas;  // s B A, as PEFT prunes them: before the weight
    std::vector<double> weights;
    for (const Part& part : parts) {
      deltas.push_back(part.lora->b.mm(part.lora->a) * part.scale);
      weights.push_back(part.weight);
    }
    out = decompose(mixed(deltas, weights, recipe), rank);
  }
  return {module, out.a, out.b, at::Tensor()};
}

}  // namespace

StoredAdapter combine(const std::vector<StoredAdapter>& adapters, const std::vector<std::string>& names,
                      const std::vector<double>& weights, Recipe recipe, const model::ModelConfig& model) {
  const at::NoGradGuard no_grad;
  if (adapters.size() == 1)
    recipe.how = same_ranks(adapters[0], adapters[0]) ? Combination::kLinear : Combination::kCat;
  check(adapters, names, weights, recipe.how);
  for (std::size_t i = 0; i < adapters.size(); ++i)
    require_no_parameters(adapters[i].config, names[i], "to combine it with others");
  StoredAdapter out;
  out.config = adapters[0].config;
  out.config.rslora = false;
  out.config.rank_pattern.clear();
  out.config.alpha_pattern.clear();
  join_targets(adapters, out.config);
  out.config.r = largest_rank(adapters[0]);
  for (const StoredAdapter& one : adapters) {
    if (recipe.how == Combination::kCat && &one != &adapters[0]) out.config.r += largest_rank(one);
    if (decomposes(recipe.how)) out.config.r = std::max(out.config.r, largest_rank(one));
  }
  if (decomposes(recipe.how) && recipe.svd_rank > 0) out.config.r = recipe.svd_rank;
  out.config.alpha = static_cast<double>(out.config.r);
  for (const std::string& name : modules_of(model)) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      const auto& modules = adapters[i].modules;
      const auto it = std::find_if(modules.begin(), modules.end(),
                                   [&](const StoredLora& one) { return one.module == name; });
      if (it != modules.end()) parts.push_back({&*it, weights[i], it->scale});
    }
    if (parts.empty()) continue;
    out.modules.push_back(adds_factors(recipe.how) ? factors(name, parts, recipe)
                          : decomposes(recipe.how) ? product(name, parts, recipe, out.config.r)
                                                   : cat(name, parts, out.config.r));
    out.modules.back().transposed = parts.front().lora->transposed;
  }
  // Where the adapters leave out different modules no list of names and exclusions says which are there.
  const bool alike = std::all_of(adapters.begin(), adapters.end(), [&](const StoredAdapter& one) {
    return one.config.exclude_modules == out.config.exclude_modules &&
           one.config.layers_to_transform == out.config.layers_to_transform &&
           one.config.layers_pattern == out.config.layers_pattern;
  });
  if (!alike) {
    out.config.exclude_modules.clear();
    out.config.exclude_is_regex = out.config.target_is_regex = false;
    out.config.target_modules.clear();
    out.config.layers_to_transform.clear();
    out.config.layers_pattern.clear();
    for (const StoredLora& one : out.modules) out.config.target_modules.push_back(one.module);
  }
  return out;
}

std::map<std::string, at::Tensor> tensors_of(const StoredAdapter& adapter) {
  std::map<std::string, at::Tensor> out;
  for (const StoredLora& module : adapter.modules) {
    out[module.transposed ? key_embedding_a(module.module) : key_a(module.module)] = module.a;
    out[module.transposed ? key_embedding_b(module.module) : key_b(module.module)] = module.b;
    if (module.magnitude.defined()) out[key_magnitude(module.module)] = module.magnitude;
  }
  return out;
}

}  // namespace hone::adapters
