#include "adapters/expert_targets.h"

#include <algorithm>
#include <set>

#include "adapters/name_pattern.h"
#include "base/error.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "model/config/families.h"

namespace hone::adapters {
namespace {

using base::UserError;

constexpr const char* kGateUp = "gate_up_proj";
constexpr const char* kDown = "down_proj";

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

// The names that PEFT takes for parameters, and those parameters: _MOE_TARGET_MODULE_MAPPING.
struct Renamed {
  std::string name, parameter;
};
std::vector<Renamed> renamed_of(const model::ExpertNames& names) {
  return {{std::string(names.router), std::string(names.router_parameter)},
          {std::string(names.gate), kGateUp},
          {std::string(names.up), kGateUp},
          {std::string(names.down), kDown}};
}

// The last parts of the names that a regular expression, or all-linear, names.
std::vector<std::string> resolved(const LoraConfig& config, const model::ModelConfig& model,
                                  const std::vector<Renamed>& renamed, bool strict) {
  std::set<std::string> found;
  const bool all = is_all_linear(config);
  if (all) {
    for (const Renamed& one : renamed) found.insert(one.name);
    for (const model::LinearSpec& spec : model::adaptable_linears(model)) found.insert(last_part(spec.name));
    return {found.begin(), found.end()};
  }
  NamePattern pattern(config.target_modules.front(), where_of(strict, "lora_target_modules"));
  const auto probe = [&](const std::string& name, const std::string& part) {
    if (pattern.matches(name)) found.insert(part);
  };
  const model::TensorNames& names = model::names_of(model);
  for (const model::LinearSpec& spec : model::adaptable_linears(model))
    probe(spec.name, last_part(spec.name));
  for (const std::string_view end : {names.head.hf, names.embedding.hf})
    probe(std::string(end), last_part(std::string(end)));
  for (const model::ParameterSpec& spec : model::adaptable_parameters(model)) {
    if (spec.experts == 1) {
      probe(spec.module, last_part(spec.module));
      continue;
    }
    probe(spec.module + "." + spec.name, spec.name);
    for (const Renamed& one : renamed) {
      if (one.parameter == spec.name) probe(spec.module + "." + one.name, one.name);
    }
  }
  return {found.begin(), found.end()};
}

[[noreturn]] void throw_half(const Renamed& present, const Renamed& absent, bool strict) {
  throw UserError({where_of(strict, "lora_target_modules"), present.name + " together with " + absent.name,
                   present.name + " without it", "experts have both in one parameter, as in PEFT",
                   "name both, or neither"});
}

// What PEFT's ParamWrapper refuses.
void check_kind(const LoraConfig& config, bool strict) {
  const bool pissa = config.init == LoraInit::kPissa;
  if (config.dropout == 0 && !config.dora && !pissa) return;
  const std::string option = config.dora ? "use_dora" : pissa ? "init_lora_weights" : "lora_dropout";
  throw UserError({where_of(strict, option),
                   config.dora ? "a LoRA on experts and routers"
                   : pissa     ? "true, false or gaussian for a LoRA on experts and routers"
                               : "0 for a LoRA on experts and routers",
                   config.dora ? "DoRA"
                   : pissa     ? "pissa"
                               : std::to_string(config.dropout),
                   "PEFT refuses it too: these are parameters, whose input it does not see",
                   config.dora || pissa
                       ? "leave it out, or adapt only q_proj, k_proj, v_proj and o_proj"
                       : "set lora_dropout: 0, or adapt only q_proj, k_proj, v_proj and o_proj"});
}

template <typename Value>
void set_pattern(std::vector<std::pair<std::string, Value>>& rows, const std::string& key, Value value) {
  for (auto& [name, old] : rows) {
    if (name == key) old = value;
    if (name == key) return;
  }
  rows.emplace_back(key, value);
}

}  // namespace

LoraConfig with_expert_targets(LoraConfig config, const model::ModelConfig& model, bool strict) {
  const model::ExpertNames& names = model::traits_of(model.family).experts;
  if (config.full || !names.renamed_targets) return config;
  const std::vector<Renamed> renamed = renamed_of(names);
  if (config.target_is_regex && !config.target_modules.empty()) {
    std::vector<std::string> found = resolved(config, model, renamed, strict);
    if (found.empty()) return config;  // select_targets says so
    config.target_modules = std::move(found);
    config.target_is_regex = false;
  }
  std::set<std::string> parameters(config.target_parameters.begin(), config.target_parameters.end());
  std::vector<std::string> modules;
  std::vector<bool> present(renamed.size(), false);
  for (const std::string& target : config.target_modules) {
    const auto row = std::find_if(renamed.begin(), renamed.end(),
                                  [&](const Renamed& one) { return matches_entry(target, one.name); });
    if (row == renamed.end()) {
      modules.push_back(target);
      continue;
    }
    parameters.insert(row->parameter);
    present[static_cast<std::size_t>(row - renamed.begin())] = true;
  }
  constexpr std::size_t kGateRow = 1, kUpRow = 2;
  if (present[kGateRow] != present[kUpRow]) {
    const bool gate = present[kGateRow];
    throw_half(renamed[gate ? kGateRow : kUpRow], renamed[gate ? kUpRow : kGateRow], strict);
  }
  if (present[kGateRow]) {
    const std::string pattern = std::string(".*\\.") + kGateUp;
    set_pattern(config.rank_pattern, pattern, 2 * config.r);
    set_pattern(config.alpha_pattern, pattern, 2 * config.alpha);
  }
  config.target_modules = std::move(modules);
  config.target_parameters.assign(parameters.begin(), parameters.end());
  return config;
}

std::vector<std::string> parameter_targets(const LoraConfig& config, const model::ModelConfig& model,
                                           bool strict) {
  if (config.target_parameters.empty()) return {};
  const std::vector<model::ParameterSpec> all = model::adaptable_parameters(model);
  std::vector<std::string> out, known;
  std::set<std::string> matched;
  for (const model::ParameterSpec& spec : all) {
    const std::string name = spec.module + "." + spec.name;
    known.push_back(last_part(spec.module) + "." + spec.name);
    bool wanted = false;
    for (const std::string& entry : config.target_parameters) {
      if (!matches_entry(name, entry)) continue;
      matched.insert(entry);
      wanted = true;
    }
    if (wanted) out.push_back(spec.experts == 1 ? spec.module : name);
  }
  for (const std::string& entry : config.target_parameters) {
    if (matched.contains(entry) || !strict) continue;
    throw UserError(
        {"option lora_target_parameters",
         all.empty() ? "nothing: this model has no experts" : "parameters of experts and routers",
         "'" + base::cut_text(entry, 200) + "', which matches none." + base::did_you_mean(entry, known), "",
         all.empty() ? "remove it" : "for example mlp.experts.gate_up_proj"});
  }
  if (!out.empty()) check_kind(config, strict);
  return out;
}

std::string module_in_files(const std::string& target, const std::vector<std::string>& targets) {
  const std::string gate_up = std::string(".experts.") + kGateUp, down = std::string(".experts.") + kDown;
  if (target.ends_with(down)) return target.substr(0, target.size() - last_part(down).size() - 1);
  if (!target.ends_with(gate_up)) return target;
  const std::string experts = target.substr(0, target.size() - last_part(gate_up).size() - 1);
  const bool both = std::find(targets.begin(), targets.end(), experts + "." + kDown) != targets.end();
  return both ? experts + ".base_layer" : experts;
}

void require_no_parameters(const LoraConfig& config, const std::string& where, const std::string& what) {
  if (config.target_parameters.empty()) return;
  throw UserError({where, "a LoRA on linears, " + what, "one with target_parameters: of experts and routers",
                   "hone does not do this with the factors of stacked experts",
                   "hone merge makes a model of it"});
}

}  // namespace hone::adapters
