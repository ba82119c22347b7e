// Regular expressions over names of modules, as PEFT matches them.
#pragma once

#include <string>

#include "base/strings/pattern.h"

namespace hone::adapters {

// Python's re.fullmatch of one pattern with many names; all matches together have one budget of steps.
class NamePattern {
 public:
  // UserError at `where` for what base::Pattern does not read.
  NamePattern(const std::string& pattern, const std::string& where);
  bool matches(const std::string& name);  // UserError when the budget is spent

 private:
  std::string where_;
  std::string source_;
  base::Pattern pattern_;
  long steps_ = base::Pattern::kMaxSteps;
};

// Says where an option of LoraConfig comes from: `strict` is the option of this run ("option
// lora_target_modules"), else the file of an adapter that somebody made ("adapter_config.json:
// target_modules"). `option` is hone's name.
std::string where_of(bool strict, const std::string& option);

}  // namespace hone::adapters
