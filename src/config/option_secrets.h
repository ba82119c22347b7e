// Secrets among the options: how they are shown and written, and what cannot be read back.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "config/plan.h"

namespace hone::config {

// `value` of `option` as shown in plans, checkpoints and messages: *** for hub tokens and for secrets in
// addresses (base/strings/secrets.h).
base::Json redact_secrets(std::string_view option, const base::Json& value);

// UserError for an address from a written plan in which the secret is ***.
void require_unredacted_url(const std::string& word, const std::string& where);

// UserError when the value is neither empty nor a variable's name; the message does not show the value.
void require_variable_name(const std::string& word, const std::string& where);

// judge_api_key_env as the plan has it, "" when it is not set.
std::string judge_key_variable(const Plan& plan);

}  // namespace hone::config
