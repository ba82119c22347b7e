#include "commands/process/shareable_text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "base/strings/secrets.h"
#include "commands/process/spelled_text.h"

namespace hone::commands {
namespace {

constexpr std::array<std::string_view, 7> kTellingNames = {"TOKEN",      "KEY",    "SECRET", "PASSWORD",
                                                           "CREDENTIAL", "PASSWD", "_PASS"};
constexpr std::array<std::string_view, 18> kTokens = {
    "hf_",  "api_org_", "sk-",         "ghp_",  "gho_",  "ghs_",  "ghu_",  "ghr_",  "AKIA",
    "ASIA", "AIza",     "github_pat_", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xapp-", "glpat-"};
constexpr std::size_t kShortestValue = 8;   // of a variable: a shorter one is found in innocent words
constexpr std::size_t kShortestToken = 16;  // of what follows the beginning of a token

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

// Also behind an escape: "\\n" of JSON and YAML, "%2F" of an address.
bool begins_word(std::string_view text, std::size_t at) {
  return at == 0 || !is_of_word(text[at - 1]) || (at > 1 && text[at - 2] == '\\') ||
         (at > 2 && text[at - 3] == '%');
}

// Without the white space around it: a file's last newline is no part of its secret.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kWhite);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhite) + 1 - first);
}

// The values of variables with telling names, the longest first: one may be a part of another.
std::vector<std::string> secret_values() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    const std::string_view value = trimmed(variable.substr(std::min(name.size() + 1, variable.size())));
    std::string capitals(name);
    for (char& c : capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const bool tells = std::any_of(kTellingNames.begin(), kTellingNames.end(), [&](std::string_view word) {
      return capitals.find(word) != std::string::npos;
    });
    if (tells && value.size() >= kShortestValue) out.emplace_back(value);
  }
  std::sort(out.begin(), out.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return out;
}

void hide_tokens(std::string& text) {
  for (const std::string_view beginning : kTokens) {
    for (std::size_t at = text.find(beginning); at != std::string::npos;
         at = text.find(beginning, at + beginning.size())) {
      if (!begins_word(text, at)) continue;
      const std::size_t from = at + beginning.size();
      const auto end =
          std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), is_of_word);
      const std::size_t length = static_cast<std::size_t>(end - text.begin()) - from;
      if (length >= kShortestToken) text.replace(from, length, base::kRedacted);
    }
  }
}

// Not in "/home/adam" where the home folder is "/home/ada".
void hide_home(std::string& text, std::string_view home) {
  for (std::size_t at = text.find(home); at != std::string::npos; at = text.find(home, at + 1)) {
    const std::size_t end = at + home.size();
    if (end == text.size() || !is_of_word(text[end])) text.replace(at, home.size(), "~");
  }
}

}  // namespace

std::string shareable(std::string_view text) {
  std::string out = base::redact_secrets(text);
  for (const std::string& value : secret_values()) out = without_spelled(out, value, base::kRedacted);
  hide_tokens(out);
  const char* const home = std::getenv("HOME");
  if (home != nullptr && std::string_view(home).size() > 1) hide_home(out, home);
  return out;
}

}  // namespace hone::commands
