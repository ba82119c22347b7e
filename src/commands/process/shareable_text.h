// Text that a user may send to strangers.
#pragma once

#include <string>
#include <string_view>

namespace hone::commands {

// `text` without what is a secret: *** stands for secrets of addresses (base/strings/secrets.h), for the values of
// environment variables whose names hold TOKEN, KEY, SECRET, PASSWORD, PASSWD, _PASS or CREDENTIAL in letters of any
// size, plain or escaped (spelled_text.h), and for words that begin as access tokens of Hugging Face, GitHub, GitLab,
// OpenAI, AWS, Google and Slack do. The home folder is ~.
std::string shareable(std::string_view text);

}  // namespace hone::commands
