#include "adapters/name_pattern.h"

#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::adapters {

NamePattern::NamePattern(const std::string& pattern, const std::string& where)
    : where_(where), source_(pattern), pattern_(pattern, {}, where) {}

bool NamePattern::matches(const std::string& name) {
  try {
    return pattern_.full_match(base::to_code_points(name), steps_);
  } catch (const base::PatternTooSlow&) {
    throw base::UserError(
        {where_,
         "a regular expression that needs at most " + std::to_string(base::Pattern::kMaxSteps) +
             " steps for all names of modules",
         "'" + base::cut_text(source_, 200) + "', which needs more; it came as far as " + name,
         "a back-reference in a nested repetition", "write it without, or give a list of names"});
  }
}

std::string where_of(bool strict, const std::string& option) {
  if (strict) return "option " + option;
  return "adapter_config.json: " + (option.starts_with("lora_") ? option.substr(5) : option);
}

}  // namespace hone::adapters
