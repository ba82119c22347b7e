// Which modules an adapter goes on: PEFT's check_target_module_exists and _maybe_include_all_linear_layers.
#include <algorithm>
#include <set>

#include "adapters/lora.h"
#include "base/error.h"
#include "base/pattern.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "model/families.h"

namespace hone::adapters {
namespace {

using base::UserError;

constexpr const char* kTarget = "option lora_target_modules";
constexpr const char* kExclude = "option lora_exclude_modules";
constexpr std::size_t kMinimizeFrom = 20;  // PEFT's MIN_TARGET_MODULES_FOR_OPTIMIZATION

// PEFT's re.fullmatch of one pattern with many names; all matches together have one budget of steps.
class NamePattern {
 public:
  NamePattern(const std::string& pattern, const std::string& where)
      : where_(where), source_(pattern), pattern_(pattern, {}, where) {}

  bool matches(const std::string& name) {
    try {
      return pattern_.full_match(base::to_code_points(name), steps_);
    } catch (const base::PatternTooSlow&) {
      throw UserError({where_,
                       "a regular expression that needs at most " + std::to_string(base::Pattern::kMaxSteps) +
                           " steps for all names of modules",
                       "'" + base::cut_text(source_, 200) + "', which needs more; it came as far as " + name,
                       "a back-reference in a nested repetition",
                       "write it without, or give a list of names"});
    }
  }

 private:
  std::string where_;
  std::string source_;
  base::Pattern pattern_;
  long steps_ = base::Pattern::kMaxSteps;
};

// `strict`: the option of this run; else the file of an adapter that somebody made.
std::string where_of(bool strict, const char* option) {
  return strict ? option : "adapter_config.json: " + std::string(option).substr(sizeof("option lora_") - 1);
}

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

// lm_head and embed_tokens: PEFT adapts them and then saves whole base tensors; hone's losses read the head
// directly.
void refuse_embeddings(const std::string& found) {
  throw UserError({kTarget, "linears of the decoder layers (GRAD-07)", "'" + found + "'",
                   "an adapter on lm_head or embed_tokens would save a copy of the whole embedding and break "
                   "weight tying",
                   "take lm_head and embed_tokens out of the targets; all-linear does not include them"});
}

bool any_match(const std::vector<std::string>& modules, const std::string& entry) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const std::string& m) { return matches_entry(m, entry); });
}

std::vector<std::string> choose(const LoraConfig& config, const model::ModelConfig& model,
                                const std::vector<std::string>& modules,
                                const std::vector<std::string>& outside, bool strict) {
  if (is_all_linear(config)) return modules;
  if (config.target_is_regex && !config.target_modules.empty()) {
    const std::string& pattern = config.target_modules.front();
    NamePattern regex(pattern, where_of(strict, kTarget));
    std::vector<std::string> chosen;
    for (const std::string& m : modules) {
      if (regex.matches(m)) chosen.push_back(m);
    }
    for (const std::string& m : outside) {
      if (regex.matches(m)) refuse_embeddings(m);
    }
    if (chosen.empty()) {
      const bool is_name = any_match(modules, pattern);
      std::string found = "'" + pattern + "', which matches none of " + std::to_string(modules.size()) + ".";
      if (!is_name) found += base::did_you_mean(pattern, suggestions(modules));
      throw UserError({kTarget, "a regular expression that matches the whole name of a module", found,
                       is_name ? "a single name is read as a regular expression, as PEFT does"
                               : "the modules are called " + short_names(modules),
                       is_name
                           ? "write .*\\." + pattern + ", or a list of two names or more"
                           : "for example .*\\.q_proj: the whole name is model.layers.0.self_attn.q_proj"});
    }
    return chosen;
  }
  std::vector<std::string> entries = config.target_modules;
  if (entries.empty()) entries = model::traits_of(model.family).lora_targets;
  for (const std::string& entry : entries) {
    if (any_match(modules, entry)) continue;
    if (any_match(outside, entry)) refuse_embeddings(entry);
    if (!strict) continue;
    throw UserError(
        {kTarget, "names of linears: " + short_names(modules),
         "'" + entry + "', which matches no module." + base::did_you_mean(entry, suggestions(modules)),
         "a misspelled name",
         "correct or remove it; if it were ignored, fewer modules would be trained than "
         "you asked for"});
  }
  std::vector<std::string> chosen;
  for (const std::string& m : modules) {
    if (std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return matches_entry(m, e); })) {
      chosen.push_back(m);
    }
  }
  return chosen;
}

// Removes what exclude_modules names from `chosen`.
void exclude(const LoraConfig& config, const std::vector<std::string>& modules,
             const std::vector<std::string>& outside, bool strict, std::vector<std::string>& chosen) {
  if (config.exclude_modules.empty()) return;
  std::vector<std::string> everything = modules;
  everything.insert(everything.end(), outside.begin(), outside.end());
  if (config.exclude_is_regex) {
    NamePattern regex(config.exclude_modules.front(), where_of(strict, kExclude));
    const auto hit = [&regex](const std::string& m) { return regex.matches(m); };
    if (strict && std::none_of(everything.begin(), everything.end(), hit)) {
      throw UserError({kExclude, "a regular expression that matches the whole name of a module",
                       "'" + config.exclude_modules.front() + "', which matches none",
                       "the modules are called " + short_names(modules), "for example .*\\.down_proj"});
    }
    std::erase_if(chosen, hit);
    return;
  }
  for (const std::string& entry : config.exclude_modules) {
    if (strict && !any_match(everything, entry)) {
      throw UserError(
          {kExclude, "names of modules: " + short_names(modules),
           "'" + entry + "', which matches no module." + base::did_you_mean(entry, suggestions(modules)),
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

std::vector<std::string> select_targets(const LoraConfig& config, const model::ModelConfig& model,
                                        bool strict) {
  const model::TensorNames& names = model::traits_of(model.family).names;
  const std::vector<std::string> outside = {std::string(names.head.hf), std::string(names.embedding.hf)};
  std::vector<std::string> modules;
  for (const model::LinearSpec& spec : model::adaptable_linears(model)) modules.push_back(spec.name);
  std::vector<std::string> chosen = choose(config, model, modules, outside, strict);
  exclude(config, modules, outside, strict, chosen);
  if (chosen.empty()) {
    throw UserError(
        {kTarget, "at least one module to adapt", "none is left",
         config.exclude_modules.empty() ? "no name matched" : "lora_exclude_modules excludes every target",
         "name some of " + short_names(modules) + ", or all-linear"});
  }
  return chosen;
}

LoraConfig with_recorded_targets(LoraConfig config, const model::ModelConfig& model) {
  if (!is_all_linear(config)) {
    if (config.target_modules.empty()) config.target_modules = model::traits_of(model.family).lora_targets;
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
