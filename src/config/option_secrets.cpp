#include "config/option_secrets.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings/secrets.h"

namespace hone::config {

base::Json redact_secrets(std::string_view option, const base::Json& value) {
  if (value.is_string()) {
    if (option == "hub_token") return std::string(base::kRedacted);
    return base::redact_secrets(value.get_ref<const std::string&>());
  }
  if (!value.is_structured()) return value;
  base::Json out = value;
  for (base::Json& one : out) one = redact_secrets(option, one);
  return out;
}

void require_unredacted_url(const std::string& word, const std::string& where) {
  if (!base::is_redacted(word)) return;
  throw base::UserError({.where = where,
                         .expected = "the whole address",
                         .found = word + ", with *** instead of a secret",
                         .cause = "hone leaves secrets out of the plans that it writes",
                         .fix = "put the secret into an environment variable NAME and write ${NAME} instead: "
                                "plans keep it"});
}

void require_variable_name(const std::string& word, const std::string& where) {
  const auto part = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (word.empty() || (std::ranges::all_of(word, part) && (word[0] < '0' || word[0] > '9'))) return;
  throw base::UserError({.where = where,
                         .expected = "the name of an environment variable, such as JUDGE_KEY",
                         .found = "something else (it is not shown: it may be the key)",
                         .cause = "options are written to plans and messages, where the key does not belong",
                         .fix = "export JUDGE_KEY=..., and name JUDGE_KEY"});
}

std::string judge_key_variable(const Plan& plan) {
  const auto found = std::ranges::find_if(
      plan.resolved, [](const auto& option) { return option.first == "judge_api_key_env"; });
  return found == plan.resolved.end() || found->second == "null" ? "" : found->second;
}

}  // namespace hone::config
