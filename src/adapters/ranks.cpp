#include "adapters/ranks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "adapters/name_pattern.h"
#include "base/error.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"

namespace hone::adapters {
namespace {

template <typename Value>
using Rows = std::vector<std::pair<std::string, Value>>;

std::vector<std::string> last_parts(const std::vector<std::string>& modules) {
  std::vector<std::string> out;
  for (const std::string& module : modules) {
    std::string last = module.substr(module.rfind('.') + 1);
    if (std::find(out.begin(), out.end(), last) == out.end()) out.push_back(std::move(last));
  }
  return out;
}

[[noreturn]] void throw_unmatched(const std::string& option, const std::string& pattern,
                                  const std::vector<std::string>& modules) {
  const std::vector<std::string> known = last_parts(modules);
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  throw base::UserError(
      {"option " + option, "patterns that match a module with an adapter: " + names,
       "'" + base::cut_text(pattern, 200) + "', which matches none." + base::did_you_mean(pattern, known),
       "a misspelled name, or a module that lora_target_modules leaves out",
       "correct or remove it; PEFT would ignore it"});
}

// The value of each module: that of the first row whose pattern its name matches.
template <typename Value>
std::vector<Value> values_of(const Rows<Value>& rows, Value otherwise, const std::string& option,
                             const std::vector<std::string>& modules, bool strict) {
  std::vector<Value> out(modules.size(), otherwise);
  std::vector<bool> taken(modules.size(), false);
  for (const auto& [text, value] : rows) {
    NamePattern pattern("(.*\\.)?(" + text + ")", where_of(strict, option));
    bool any = false;
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if (!pattern.matches(modules[i])) continue;
      any = true;
      if (!taken[i]) out[i] = value;
      taken[i] = true;
    }
    if (strict && !any) throw_unmatched(option, text, modules);
  }
  return out;
}

std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : name) out += c == '.' ? std::string("\\.") : std::string(1, c);
  return out;
}

template <typename Value>
Rows<Value> recorded(const Rows<Value>& rows, Value otherwise, const std::string& option,
                     const std::vector<std::string>& modules) {
  Rows<Value> sorted = rows;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::vector<Value> wanted = values_of(rows, otherwise, option, modules, false);
  if (values_of(sorted, otherwise, option, modules, false) == wanted) return sorted;
  Rows<Value> whole;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (wanted[i] != otherwise) whole.emplace_back(escaped(modules[i]), wanted[i]);
  }
  std::sort(whole.begin(), whole.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return whole;
}

constexpr const char* kRankPattern = "rank_pattern";
constexpr const char* kAlphaPattern = "alpha_pattern";

}  // namespace

std::vector<ModuleRank> ranks_of(const LoraConfig& config, const std::vector<std::string>& modules,
                                 bool strict) {
  const std::vector<std::int64_t> ranks =
      values_of(config.rank_pattern, config.r, kRankPattern, modules, strict);
  const std::vector<double> alphas =
      values_of(config.alpha_pattern, config.alpha, kAlphaPattern, modules, strict);
  std::vector<ModuleRank> out;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto rank = static_cast<double>(ranks[i]);
    out.push_back({.r = ranks[i], .scale = alphas[i] / (config.rslora ? std::sqrt(rank) : rank)});
  }
  return out;
}

LoraConfig with_recorded_patterns(LoraConfig config, const std::vector<std::string>& modules) {
  config.rank_pattern = recorded(config.rank_pattern, config.r, kRankPattern, modules);
  config.alpha_pattern = recorded(config.alpha_pattern, config.alpha, kAlphaPattern, modules);
  return config;
}

}  // namespace hone::adapters
