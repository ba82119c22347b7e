// Secrets in addresses: what is shown or written of them.
//
// A secret is the user:password@ of an address and the value of a query parameter whose name says so (token,
// key, api_key, sig, password, ...). A reference ${NAME} to an environment variable is none: it is shown as
// it is, and whoever opens the address looks the variable up.
#pragma once

#include <string>
#include <string_view>

namespace hone::base {

inline constexpr std::string_view kRedacted = "***";

// `text` with *** for every secret in every address in it. Linear in its length.
std::string without_secrets(std::string_view text);

// Whether a secret of an address in `text` has been replaced by ***: it cannot be opened any more.
bool lacks_secrets(std::string_view text);

// Whether an address in `text` holds secrets, or refers to variables.
bool has_secrets(std::string_view text);

}  // namespace hone::base
