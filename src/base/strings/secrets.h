// Secrets in addresses: how they are redacted when shown or written.
//
// A secret is the user:password@ of an address and the value of a query parameter with a telling name (token,
// key, api_key, sig, password, ...). A reference ${NAME} to an environment variable is not a secret: it is
// shown unchanged, and expanded when the address is opened.
#pragma once

#include <string>
#include <string_view>

namespace hone::base {

inline constexpr std::string_view kRedacted = "***";

// `text` with *** for every secret in every address in it. Linear in its length.
std::string redact_secrets(std::string_view text);

// Whether a secret of an address in `text` has been replaced by ***, so that the address cannot be opened.
bool is_redacted(std::string_view text);

// Whether an address in `text` holds secrets, or refers to variables.
bool has_secrets(std::string_view text);

}  // namespace hone::base
