// Secrets among the options: what is shown and written of them, and what cannot be read back.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "config/plan.h"

namespace hone::config {

// `value` of `option` as plans, checkpoints and messages have it: *** for tokens of the hub and for secrets
// in addresses (base/secrets.h).
base::Json redact_secrets(std::string_view option, const base::Json& value);

// UserError for an address out of a written plan whose secret is *** there.
void require_unredacted_url(const std::string& word, const std::string& where);

// UserError, which does not tell the word, where it is neither empty nor a variable's name.
void require_variable_name(const std::string& word, const std::string& where);

// judge_api_key_env as the plan has it, "" when it is not set.
std::string judge_key_variable(const Plan& plan);

}  // namespace hone::config
