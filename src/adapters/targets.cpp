// Which modules an adapter goes on: PEFT's check_target_module_exists and _maybe_include_all_linear_layers.
#include <algorithm>
#include <optional>
#include <set>

#include "adapters/expert_targets.h"
#include "adapters/lora.h"
#include "adapters/name_pattern.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/strings/suggest.h"
#include "model/config/families.h"
#include "model/config/wrappers.h"

namespace hone::adapters {
namespace {

using base::UserError;

constexpr const char* kTargets = "lora_target_modules";
constexpr const char* kExcluded = "lora_exclude_modules";
constexpr const char* kTarget = "option lora_target_modules";
constexpr const char* kExclude = "option lora_exclude_modules";
constexpr std::size_t kMinimizeFrom = 20;  // PEFT's MIN_TARGET_MODULES_FOR_OPTIMIZATION

// Names to suggest: last parts first ("q_proj"), then whole names.
std::vector<std::string> suggestions(const std::vector<std::string>& modules) {
  std::vector<std::string> all;
  for (const std::string& m : modules) {
    const std::string last = m.substr(m.rfind('.') + 1);
    if (std::find(all.begin(), all.end(), last) == all.end()) all.push_back(last);
  }
  all.insert(all.end(), modules.begin(), modules.end());
  return all;
}

std::string short_names(const std::vector<std::string>& modules) {
  std::string text;
  for (const std::string& m : suggestions(modules)) {
    if (m.find('.') != std::string::npos) break;
    text += (text.empty() ? "" : ", ") + m;
  }
  return text;
}

bool any_match(const std::vector<std::string>& modules, const std::string& entry) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const std::string& m) { return matches_entry(m, entry); });
}

// PEFT's layers_to_transform and layers_pattern, of modules that a list names by their end.
class LayerFilter {
 public:
  LayerFilter(const LoraConfig& config, const std::string& where) : layers_(config.layers_to_transform) {
    for (const std::string& pattern : config.layers_pattern)
      patterns_.emplace_back("(?:.*\\.)?" + pattern, where);
  }

  bool takes(const std::string& module) {
    if (layers_.empty()) return true;
    const std::optional<std::int64_t> layer = layer_of(module);
    return layer && std::find(layers_.begin(), layers_.end(), *layer) != layers_.end();
  }

 private:
  // The first number between dots; before it comes a name that layers_pattern matches, or any after another.
  std::optional<std::int64_t> layer_of(const std::string& module) {
    for (std::size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
      const std::size_t end = module.find('.', dot + 1);
      if (end == std::string::npos) break;
      const std::string number = module.substr(dot + 1, end - dot - 1);
      const bool digits = !number.empty() && number.size() < 10 &&
                          number.find_first_not_of("0123456789") == std::string::npos;
      if (digits && follows(module.substr(0, dot))) return std::stoll(number);
    }
    return std::nullopt;
  }
  bool follows(const std::string& prefix) {
    if (patterns_.empty()) return prefix.find('.') != std::string::npos;
    return std::any_of(patterns_.begin(), patterns_.end(), [&](NamePattern& p) { return p.matches(prefix); });
  }

  std::vector<std::int64_t> layers_;
  std::vector<NamePattern> patterns_;
};

void require_layers(const LoraConfig& config, const model::ModelConfig& model) {
  for (const std::int64_t layer : config.layers_to_transform) {
    if (layer >= 0 && layer < model.num_hidden_layers) continue;
    throw UserError({"option layers_to_transform",
                     "layers from 0 to " + std::to_string(model.num_hidden_layers - 1), std::to_string(layer),
                     "the first layer is 0", "take it out of the list"});
  }
}

std::vector<std::string> choose_by_regex(const LoraConfig& config, const std::vector<std::string>& modules,
                                         bool strict) {
  const std::string& pattern = config.target_modules.front();
  NamePattern regex(pattern, where_of(strict, kTargets));
  std::vector<std::string> chosen;
  for (const std::string& m : modules) {
    if (regex.matches(m)) chosen.push_back(m);
  }
  if (!chosen.empty()) return chosen;
  const bool is_name = any_match(modules, pattern);
  std::string found = "'" + pattern + "', which matches none of " + std::to_string(modules.size()) + ".";
  if (!is_name) found += base::did_you_mean(pattern, suggestions(modules));
  throw UserError({kTarget, "a regular expression that matches the whole name of a module", found,
                   is_name ? "a single name is read as a regular expression, as PEFT does"
                           : "the modules are called " + short_names(modules),
                   is_name ? "write .*\\." + pattern + ", or a list of two names or more"
                           : "for example .*\\.q_proj: the whole name is model.layers.0.self_attn.q_proj"});
}

std::vector<std::string> choose_by_names(const LoraConfig& config, const model::ModelConfig& model,
                                         const std::vector<std::string>& modules, bool strict) {
  std::vector<std::string> entries = config.target_modules;
  if (entries.empty() && config.target_parameters.empty())
    entries = model::traits_of(model.family).lora_targets;
  for (const std::string& entry : entries) {
    if (!strict || any_match(modules, entry)) continue;
    throw UserError(
        {kTarget, "names of linears: " + short_names(modules),
         "'" + entry + "', which matches no module." + base::did_you_mean(entry, suggestions(modules)),
         "a misspelled name",
         "correct or remove it; if it were ignored, fewer modules would be trained than "
         "you asked for"});
  }
  if (strict) require_layers(config, model);
  LayerFilter layers(config, where_of(strict, "layers_pattern"));
  std::vector<std::string> chosen;
  for (const std::string& m : modules) {
    // PEFT asks a module for its layer only when the list does not have its whole name.
    const bool whole = std::find(entries.begin(), entries.end(), m) != entries.end();
    const bool named =
        std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return matches_entry(m, e); });
    if (whole || (named && layers.takes(m))) chosen.push_back(m);
  }
  return chosen;
}

// Removes what exclude_modules names from `chosen`.
void exclude(const LoraConfig& config, const std::vector<std::string>& everything, bool strict,
             std::vector<std::string>& chosen) {
  if (config.exclude_modules.empty()) return;
  if (config.exclude_is_regex) {
    NamePattern regex(config.exclude_modules.front(), where_of(strict, kExcluded));
    const auto hit = [&regex](const std::string& m) { return regex.matches(m); };
    if (strict && std::none_of(everything.begin(), everything.end(), hit)) {
      throw UserError({kExclude, "a regular expression that matches the whole name of a module",
                       "'" + config.exclude_modules.front() + "', which matches none",
                       "the modules are called " + short_names(everything), "for example .*\\.down_proj"});
    }
    std::erase_if(chosen, hit);
    return;
  }
  for (const std::string& entry : config.exclude_modules) {
    if (strict && !any_match(everything, entry)) {
      throw UserError(
          {kExclude, "names of modules: " + short_names(everything),
           "'" + entry + "', which matches no module." + base::did_you_mean(entry, suggestions(everything)),
           "a misspelled name", "correct or remove it"});
    }
    std::erase_if(chosen, [&entry](const std::string& m) { return matches_entry(m, entry); });
  }
}

}  // namespace

bool matches_entry(const std::string& module, const std::string& entry) {
  return module == entry || (!entry.empty() && module.ends_with("." + entry));
}

bool is_all_linear(const LoraConfig& config) {
  if (!config.target_is_regex || config.target_modules.size() != 1) return false;
  std::string lower = config.target_modules.front();
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return lower == "all-linear";
}

std::vector<std::string> select_targets(const LoraConfig& asked, const model::ModelConfig& model,
                                        bool strict) {
  if (asked.full) return {};
  const LoraConfig config = with_expert_targets(asked, model, strict);
  const model::TensorNames& names = model::names_of(model);
  std::vector<std::string> linears;
  for (const model::LinearSpec& spec : model::adaptable_linears(model)) linears.push_back(spec.name);
  std::vector<std::string> everything = linears;
  if (!config.score_head) everything.emplace_back(names.head.hf);
  everything.emplace_back(names.embedding.hf);
  const bool is_regex = config.target_is_regex && !config.target_modules.empty();
  std::vector<std::string> chosen = is_all_linear(config) ? linears
                                    : is_regex            ? choose_by_regex(config, everything, strict)
                                               : choose_by_names(config, model, everything, strict);
  exclude(config, everything, strict, chosen);
  std::erase_if(chosen, [&](const std::string& module) { return is_trained_whole(config, module); });
  const bool embeds = !chosen.empty() && chosen.back() == names.embedding.hf;
  const std::vector<std::string> parameters = parameter_targets(config, model, strict);
  chosen.insert(chosen.end() - (embeds ? 1 : 0), parameters.begin(), parameters.end());
  if (chosen.empty()) {
    throw UserError({kTarget, "at least one module to adapt", "none is left",
                     !config.layers_to_transform.empty() ? "layers_to_transform names no layer of theirs"
                     : config.exclude_modules.empty()    ? "no name matched"
                                                         : "lora_exclude_modules excludes every target",
                     "name some of " + short_names(linears) + ", or all-linear"});
  }
  return chosen;
}

LoraConfig with_recorded_targets(LoraConfig config, const model::ModelConfig& model) {
  if (model.wrapped && config.exclude_modules.empty() && !config.full) {
    config.exclude_modules = {std::string(model::kOtherParts)};  // PEFT adapts the whole model otherwise
    config.exclude_is_regex = true;
  }
  config = with_expert_targets(std::move(config), model, /*strict=*/false);
  if (!is_all_linear(config)) {
    if (config.target_modules.empty() && config.target_parameters.empty())
      config.target_modules = model::traits_of(model.family).lora_targets;
    return config;
  }
  std::set<std::string> names;
  for (const model::LinearSpec& spec : model::adaptable_linears(model)) names.insert(spec.name);
  if (names.size() >= kMinimizeFrom) {
    std::set<std::string> last_parts;
    for (const std::string& name : names) last_parts.insert(name.substr(name.rfind('.') + 1));
    names = std::move(last_parts);
  }
  config.target_modules.assign(names.begin(), names.end());
  config.target_is_regex = false;
  return config;
}

std::vector<std::string> select_targets(const LoraConfig& config, const model::CausalLm& model) {
  return select_targets(config, model.config(), /*strict=*/true);
}

}  // namespace hone::adapters
