#include "adapters/whole_modules.h"

#include <algorithm>
#include <map>
#include <set>

#include "adapters/name_pattern.h"
#include "base/error.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "model/config/families.h"

namespace hone::adapters {
namespace {

using base::UserError;

constexpr const char* kOption = "lora_modules_to_save";

// A tensor of the model and the module that it belongs to.
struct Leaf {
  model::TensorSpec spec;
  std::string module;
  bool is_bias = false;
  bool is_expert = false;  // of a router, or the first of stacked experts
};

std::vector<Leaf> leaves_of(const LoraConfig& config, model::ModelConfig model) {
  model.tie_word_embeddings = false;  // a tied head is a module too
  if (config.score_head) model.has_head = false;
  std::map<std::string, std::string>
      modules;  // of parameters that are no linears, as transformers holds them
  for (const model::ParameterSpec& spec : model::adaptable_parameters(model))
    modules[spec.module + "." + spec.name] = spec.module;
  std::set<std::string> seen;
  std::vector<Leaf> out;
  for (const model::TensorSpec& spec : model::expected_tensors(model)) {
    if (spec.is_buffer) continue;  // of no module of its own
    const std::size_t dot = spec.name.rfind('.');
    Leaf leaf{spec, spec.name.substr(0, dot), spec.name.substr(dot) == ".bias"};
    const auto held = [&](const std::string& name) {
      const auto found = modules.find(name);
      if (found == modules.end()) return;
      leaf.module = found->second;
      leaf.is_expert = true;
    };
    held(spec.name);
    for (const model::OtherPlace& other : spec.others) held(other.name);
    if (leaf.is_expert && !seen.insert(leaf.module).second) continue;
    out.push_back(std::move(leaf));
  }
  return out;
}

bool any_entry(const std::vector<std::string>& entries, const std::string& module) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const std::string& entry) { return !entry.empty() && module.ends_with(entry); });
}

std::vector<std::string> names_to_suggest(const std::vector<Leaf>& leaves,
                                          const std::set<std::string>& linears) {
  std::vector<std::string> out;
  for (const Leaf& leaf : leaves) {
    std::string last = leaf.module.substr(leaf.module.rfind('.') + 1);
    if (leaf.is_expert || linears.contains(leaf.module) ||
        std::find(out.begin(), out.end(), last) != out.end())
      continue;
    out.push_back(std::move(last));
  }
  return out;
}

void require_entries(const LoraConfig& config, const std::vector<Leaf>& leaves,
                     const std::set<std::string>& linears) {
  for (const std::string& entry : config.modules_to_save) {
    const bool found = std::any_of(leaves.begin(), leaves.end(),
                                   [&](const Leaf& leaf) { return any_entry({entry}, leaf.module); });
    const std::vector<std::string> known = names_to_suggest(leaves, linears);
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    const bool has_parts = std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) {
      for (std::size_t dot = leaf.module.rfind('.'); dot != std::string::npos && dot > 0;
           dot = leaf.module.rfind('.', dot - 1)) {
        if (any_entry({entry}, leaf.module.substr(0, dot))) return true;
      }
      return false;
    });
    if (found && !has_parts) continue;  // "conv" of LFM2 is both: PEFT trains all that is in it
    throw UserError(
        {where_of(true, kOption), "names of modules: " + names,
         "'" + base::cut_text(entry, 200) + "', which " +
             (has_parts ? "has modules in it" : "matches no module." + base::did_you_mean(entry, known)),
         has_parts ? "a name is that of a linear, a norm, the embedding or the head" : "a misspelled name",
         has_parts ? "name the linears and norms in it" : "correct or remove it"});
  }
}

// PEFT has each of them as a module with stacked parameters, of which hone has no tensors of their own.
[[noreturn]] void throw_expert(const Leaf& leaf, const model::ModelConfig& model, bool strict) {
  const model::ExpertNames& names = model::traits_of(model.family).experts;
  const bool router = leaf.spec.expert < 0;
  const std::string parameters = std::string(names.module) + (router ? std::string(names.router_parameter)
                                                                     : "experts.gate_up_proj and down_proj");
  throw UserError({where_of(strict, kOption), "linears, norms, the embedding or the head",
                   leaf.module + (router ? ", a router" : ", a layer's experts"),
                   "hone trains routers and experts with a LoRA, or with the whole model",
                   "name " + parameters + " in lora_target_parameters, or set use_peft: false"});
}

}  // namespace

std::vector<WholeTensor> whole_tensors(const LoraConfig& config, const model::ModelConfig& model,
                                       const std::vector<std::string>& targets, bool strict) {
  const std::vector<Leaf> leaves = leaves_of(config, model);
  std::set<std::string> linears;
  for (const model::LinearSpec& linear : model::adaptable_linears(model)) linears.insert(linear.name);
  if (strict) require_entries(config, leaves, linears);
  const std::set<std::string> adapted(targets.begin(), targets.end());
  std::vector<WholeTensor> out;
  for (const Leaf& leaf : leaves) {
    const bool has_lora = adapted.contains(leaf.module);
    if (any_entry(config.modules_to_save, leaf.module)) {
      if (leaf.is_expert) throw_expert(leaf, model, strict);
      if (has_lora) {
        throw UserError({where_of(strict, kOption), "modules without a LoRA",
                         leaf.module + ", which has a LoRA too",
                         "PEFT's names match the end of a module's name, without a dot",
                         "leave it out of one of the two"});
      }
      out.push_back({leaf.spec.name, "base_model.model." + leaf.spec.name, leaf.spec.shape});
      continue;
    }
    if (!leaf.is_bias || config.bias == TrainedBias::kNone) continue;
    if (config.bias == TrainedBias::kLoraOnly && !has_lora) continue;
    out.push_back({leaf.spec.name,
                   "base_model.model." + leaf.module + (has_lora ? ".base_layer.bias" : ".bias"),
                   leaf.spec.shape});
  }
  return out;
}

// PEFT: re.match(rf"(^|.*\.){entry}($|\..*)", module)
bool is_trained_whole(const LoraConfig& config, const std::string& module) {
  return std::any_of(config.modules_to_save.begin(), config.modules_to_save.end(), [&](const auto& entry) {
    return !entry.empty() && ("." + module + ".").find("." + entry + ".") != std::string::npos;
  });
}

TrainedEnds trained_ends(const LoraConfig& config, const model::ModelConfig& model, bool strict) {
  const model::TensorNames& names = model::names_of(model);
  const std::string embedding(names.embedding.hf), head(names.head.hf);
  TrainedEnds out;
  for (const std::string& target : select_targets(config, model, strict)) {
    out.embedding = out.embedding || target == embedding;
    out.head = out.head || target == head;
  }
  out.embedding = out.embedding || any_entry(config.modules_to_save, embedding);
  out.head = out.head || (!config.score_head && any_entry(config.modules_to_save, head));
  return out;
}

bool fused_trains(const LoraConfig& config, const model::ModelConfig& model, bool strict) {
  const model::TensorNames& names = model::names_of(model);
  for (const std::string& target : select_targets(config, model, strict)) {
    if (target == names.embedding.hf || target == names.head.hf) return false;
  }
  return true;
}

}  // namespace hone::adapters
