// Whose options a YAML file holds, for commands that take the run of any method.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/plan.h"

namespace hone::config {

std::optional<Method> find_method(std::string_view word);  // "grpo"
std::vector<std::string> method_names();                   // "sft", "grpo", ...

// Of a plan.yaml that a run wrote, the method that its first line names. Of others the first of
// method_names() that has most of the keys: those of the text (empty: none) and `more` names. Text that is no
// YAML counts as without keys: reading it for the run says what is wrong.
Method method_of(const std::string& yaml, const std::vector<std::string>& more = {});

}  // namespace hone::config
