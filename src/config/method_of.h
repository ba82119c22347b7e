// Infers the method of a YAML file, for commands that accept a run of any method.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/plan.h"

namespace hone::config {

std::optional<Method> find_method(std::string_view word);  // "grpo"
std::vector<std::string> method_names();                   // "sft", "grpo", ...

// For a plan.yaml that a run wrote: the method in its first line. For other files: the method that has the
// most of the keys, the first of method_names() on a tie. Keys are those of the text (empty: none) and the
// names in `more`. Invalid YAML counts as having no keys; parsing it for the run reports the error.
Method method_of(const std::string& yaml, const std::vector<std::string>& more = {});

}  // namespace hone::config
