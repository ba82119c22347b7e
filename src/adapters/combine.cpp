#include "adapters/combine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "model/families.h"

namespace hone::adapters {
namespace {

using base::UserError;

struct Part {
  const StoredLora* lora;
  double weight;  // w s
};

void check(const std::vector<StoredAdapter>& adapters, const std::vector<std::string>& names,
           const std::vector<double>& weights, Combination how) {
  base::require(!adapters.empty() && adapters.size() == names.size(), "combine", "adapters and their names");
  if (weights.size() != adapters.size()) {
    throw UserError({"option weights", std::to_string(adapters.size()) + " numbers, one an adapter",
                     std::to_string(weights.size()), "", ""});
  }
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const LoraConfig &one = adapters[i].config, &first = adapters[0].config;
    if (one.dora) {
      throw UserError({names[i], "a LoRA", "DoRA: its rows have magnitudes, which do not add up",
                       "PEFT would leave them out, and the result would be another model",
                       "merge it into the base first, and train or merge the others on that"});
    }
    if (!one.token_indices.empty()) {
      throw UserError({names[i], "a LoRA on linears alone",
                       "one with trainable_token_indices: rows of the embedding, which are values and not "
                       "changes that add up",
                       "PEFT would leave them out, and the result would be another model",
                       "merge it into the base first, and train or merge the others on that"});
    }
    if (how == Combination::kLinear && one.r != first.r) {
      throw UserError({names[i], "the rank of " + names[0] + ", " + std::to_string(first.r),
                       std::to_string(one.r), "A and B of different ranks cannot be added",
                       "write --combination cat"});
    }
    if (one.target_is_regex != first.target_is_regex) {
      throw UserError({names[i] + ": target_modules",
                       "a list of names in each, or a regular expression in each", "one of both", "",
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

StoredLora linear(const std::string& module, const std::vector<Part>& parts) {
  StoredLora out{module, at::zeros_like(parts[0].lora->a), at::zeros_like(parts[0].lora->b), at::Tensor()};
  for (const Part& part : parts) {
    const double root = std::sqrt(std::abs(part.weight));
    out.a.add_(part.lora->a, part.weight < 0 ? -root : root);
    out.b.add_(part.lora->b, root);
  }
  return out;
}

StoredLora cat(const std::string& module, const std::vector<Part>& parts, std::int64_t rank) {
  StoredLora out{module, at::zeros({rank, parts[0].lora->a.size(1)}),
                 at::zeros({parts[0].lora->b.size(0), rank}), at::Tensor()};
  std::int64_t at = 0;
  for (const Part& part : parts) {
    const std::int64_t own = part.lora->a.size(0);
    out.a.narrow(0, at, own).copy_(part.lora->a * part.weight);
    out.b.narrow(1, at, own).copy_(part.lora->b);
    at += own;
  }
  return out;
}

}  // namespace

StoredAdapter combine(const std::vector<StoredAdapter>& adapters, const std::vector<std::string>& names,
                      const std::vector<double>& weights, Combination how, const model::ModelConfig& model) {
  const at::NoGradGuard no_grad;
  if (adapters.size() == 1) how = Combination::kLinear;
  check(adapters, names, weights, how);
  StoredAdapter out;
  out.config = adapters[0].config;
  out.config.rslora = false;
  join_targets(adapters, out.config);
  if (how == Combination::kCat) {
    out.config.r = 0;
    for (const StoredAdapter& one : adapters) out.config.r += one.config.r;
  }
  out.config.alpha = static_cast<double>(out.config.r);
  for (const model::LinearSpec& spec : model::adaptable_linears(model)) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      const auto& modules = adapters[i].modules;
      const auto it = std::find_if(modules.begin(), modules.end(),
                                   [&](const StoredLora& one) { return one.module == spec.name; });
      if (it != modules.end()) parts.push_back({&*it, weights[i] * adapters[i].config.scale()});
    }
    if (parts.empty()) continue;
    out.modules.push_back(how == Combination::kLinear ? linear(spec.name, parts)
                                                      : cat(spec.name, parts, out.config.r));
  }
  return out;
}

std::map<std::string, at::Tensor> tensors_of(const StoredAdapter& adapter) {
  std::map<std::string, at::Tensor> out;
  for (const StoredLora& module : adapter.modules) {
    out[key_a(module.module)] = module.a;
    out[key_b(module.module)] = module.b;
    if (module.magnitude.defined()) out[key_magnitude(module.module)] = module.magnitude;
  }
  return out;
}

}  // namespace hone::adapters
