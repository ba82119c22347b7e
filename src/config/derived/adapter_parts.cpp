#include "config/derived/adapter_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json_tools.h"

namespace hone::config {
namespace {

using base::Json;

constexpr std::int64_t kMostRank = 1'000'000;
constexpr double kMostAlpha = 1e9;

void read_ranks(Plan& plan, const Settings& settings) {
  const Json& rows = settings.value("rank_pattern");
  if (rows.is_null()) return;
  for (const auto& [pattern, rank] : rows.items()) {
    const bool fits = rank.is_number_integer() && rank >= 1 && rank <= kMostRank;
    if (!fits || pattern.empty()) {
      conflict(settings, "rank_pattern",
               "a name or regular expression and a rank of at least 1 in rank_pattern",
               fmt::format("{}: {}", pattern, base::short_json(rank)), {}, "write {q_proj: 8, ...}");
    }
    plan.rank_pattern.emplace_back(pattern, rank.get<std::int64_t>());
  }
}

void read_alphas(Plan& plan, const Settings& settings) {
  const Json& rows = settings.value("alpha_pattern");
  if (rows.is_null()) return;
  for (const auto& [pattern, alpha] : rows.items()) {
    const bool fits = alpha.is_number() && alpha.get<double>() > 0 && alpha.get<double>() <= kMostAlpha;
    if (!fits || pattern.empty()) {
      conflict(settings, "alpha_pattern",
               "a name or regular expression and a number above 0 in alpha_pattern",
               fmt::format("{}: {}", pattern, base::short_json(alpha)), {}, "write {q_proj: 16, ...}");
    }
    plan.alpha_pattern.emplace_back(pattern, alpha.get<double>());
  }
}

constexpr const char* kLayers = "layers_to_transform";

void read_layers(Plan& plan, const Settings& settings) {
  plan.layers_to_transform = layer_numbers(settings);
  plan.layers_pattern = settings.list("layers_pattern");
  const bool one_pattern = plan.lora_target_modules.size() == 1;
  if (!plan.layers_to_transform.empty() && one_pattern) {
    conflict(settings, kLayers,
             "a list of at least two names in lora_target_modules, with layers_to_transform",
             fmt::format("'{}', which is one expression for whole names", plan.lora_target_modules.front()),
             "PEFT refuses layers_to_transform with an expression, and TRL makes one of a list with one name",
             "name the layers in the expression: .*\\.layers\\.(0|1)\\..*q_proj");
  }
  if (!plan.layers_pattern.empty() && plan.layers_to_transform.empty()) {
    conflict(settings, "layers_pattern", "layers_to_transform with layers_pattern", "layers_pattern alone",
             "it says what the list of layers is called, of which layers_to_transform names some",
             "set layers_to_transform, or remove layers_pattern");
  }
}

}  // namespace

std::vector<std::int64_t> layer_numbers(const Settings& settings) {
  std::vector<std::int64_t> out;
  for (const std::string& text : settings.list(kLayers)) {
    std::int64_t layer = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
    if (error != std::errc() || end != text.data() + text.size() || layer < 0)
      conflict(settings, kLayers, "numbers of layers, from 0, in layers_to_transform",
               fmt::format("'{}'", text));
    out.push_back(layer);
  }
  return out;
}

void finish_adapter_parts(Plan& plan, const Settings& settings) {
  read_ranks(plan, settings);
  read_alphas(plan, settings);
  read_layers(plan, settings);
  const std::vector<std::string>& saved = plan.lora_modules_to_save;
  if (std::find(saved.begin(), saved.end(), "") != saved.end())
    conflict(settings, "lora_modules_to_save", "names in lora_modules_to_save", "an empty name");
}

}  // namespace hone::config
