#include "base/strings/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace hone::base {

namespace {

struct Span {
  std::size_t begin = 0, end = 0;
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_part(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

// Nothing but ${NAME}, once or more.
bool is_reference(std::string_view value) {
  if (value.empty()) return false;
  while (!value.empty()) {
    if (!value.starts_with("${") || value.size() < 4 || !is_letter(value[2])) return false;
    std::size_t end = 3;
    while (end < value.size() && is_name_part(value[end])) ++end;
    if (end >= value.size() || value[end] != '}') return false;
    value.remove_prefix(end + 1);
  }
  return true;
}

// Names of query parameters, compared in small letters with - as _.
bool names_a_secret(std::string_view parameter) {
  std::string name;
  for (const char c : parameter) {
    name += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  static constexpr std::array<std::string_view, 6> kWhole = {"key", "sig", "auth", "pwd", "sas", "code"};
  static constexpr std::array<std::string_view, 9> kParts = {
      "token", "secret", "passw", "passphrase", "apikey", "_key", "signature", "credential", "authorization"};
  return std::ranges::find(kWhole, name) != kWhole.end() ||
         std::ranges::any_of(kParts, [&](const auto& part) { return name.find(part) != std::string::npos; });
}

bool ends_address(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte <= 0x20 || byte == 0x7F || c == '"' || c == '\'' || c == '<' || c == '>' || c == '`';
}

// The values of secret parameters in text[begin, end).
void find_parameters(std::string_view text, std::size_t begin, std::size_t end, std::vector<Span>& out) {
  constexpr std::string_view kBetween = "?&;#";
  for (std::size_t at = begin; at < end;) {
    const std::size_t next = std::min(end, text.substr(0, end).find_first_of(kBetween, at));
    const std::size_t equals = text.substr(at, next - at).find('=');
    if (at > begin && equals != std::string_view::npos && names_a_secret(text.substr(at, equals))) {
      out.push_back({at + equals + 1, next});
    }
    at = next + 1;
  }
}

// Where secrets are, references and *** among them.
std::vector<Span> secrets_in(std::string_view text) {
  std::vector<Span> out;
  for (std::size_t at = text.find("://"), next = 0; at != std::string_view::npos; at = next) {
    const std::size_t begin = at + 3;
    next = text.find("://", begin);  // an address within a query is one of its own
    std::size_t end = begin;
    while (end < std::min(next, text.size()) && !ends_address(text[end])) ++end;
    const std::size_t authority = std::min(end, text.substr(0, end).find_first_of("/?#", begin));
    const std::size_t host = text.substr(begin, authority - begin).rfind('@');
    if (host != std::string_view::npos && host > 0) {
      // user:password, or a token in the place of the user
      const std::size_t colon = text.substr(begin, host).find(':');
      out.push_back({colon == std::string_view::npos ? begin : begin + colon + 1, begin + host});
    }
    find_parameters(text, authority, end, out);
  }
  std::erase_if(out, [](const Span& one) { return one.begin == one.end; });
  return out;
}

}  // namespace

std::string redact_secrets(std::string_view text) {
  std::string out;
  std::size_t done = 0;
  for (const Span& one : secrets_in(text)) {
    if (is_reference(text.substr(one.begin, one.end - one.begin))) continue;
    out += text.substr(done, one.begin - done);
    out += kRedacted;
    done = one.end;
  }
  out += text.substr(done);
  return out;
}

bool is_redacted(std::string_view text) {
  return std::ranges::any_of(secrets_in(text), [&](const Span& one) {
    return text.substr(one.begin, one.end - one.begin) == kRedacted;
  });
}

bool has_secrets(std::string_view text) {
  const std::size_t address = text.find("://");
  if (address == std::string_view::npos) return false;
  return !secrets_in(text).empty() || text.find("${", address) != std::string_view::npos;
}

}  // namespace hone::base
