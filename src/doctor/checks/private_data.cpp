// Secrets and personal data by their form and checksum (row_rules.h). A finding names its kind and never its value.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "doctor/checks/row_rules.h"

namespace hone::doctor {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

bool is_word(char c) {
  return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z') || c == '_' || c == '-';
}

// Bits a character: of a key drawn at random it is above 3.5; of a placeholder it is not.
double entropy(std::string_view text) {
  std::map<char, double> counts;
  for (const char c : text) counts[c] += 1;
  double out = 0;
  for (const auto& [c, count] : counts) {
    const double p = count / static_cast<double>(text.size());
    out -= p * std::log2(p);
  }
  return out;
}

constexpr double kKeyEntropy = 3.5;

struct Prefix {
  std::string_view prefix;
  std::size_t least, most;  // characters behind it
  std::string_view kind;
  bool capitals = false;  // capitals and digits alone
};

// Forms as their makers write them in their documentation.
constexpr Prefix kPrefixes[] = {
    {"hf_", 30, 60, "a Hugging Face token"},     {"sk-", 20, 220, "an API key (sk-)"},
    {"ghp_", 36, 60, "a GitHub token"},          {"gho_", 36, 60, "a GitHub token"},
    {"ghs_", 36, 60, "a GitHub token"},          {"github_pat_", 50, 100, "a GitHub token"},
    {"glpat-", 20, 40, "a GitLab token"},        {"AKIA", 16, 16, "an AWS access key", true},
    {"ASIA", 16, 16, "an AWS access key", true}, {"AIza", 35, 35, "a Google API key"},
    {"xoxb-", 20, 120, "a Slack token"},         {"xoxp-", 20, 120, "a Slack token"},
    {"sk_live_", 20, 120, "a Stripe key"},       {"npm_", 36, 36, "an npm token"},
};

bool is_example(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(std::array{"example", "xxxx", "your", "placeholder", "1234567890"},
                             [&](const char* one) { return low.find(one) != std::string::npos; });
}

RowFinding key_in(std::string_view text) {
  for (const Prefix& one : kPrefixes) {
    for (std::size_t at = text.find(one.prefix); at != std::string_view::npos;
         at = text.find(one.prefix, at + 1)) {
      if (at > 0 && is_word(text[at - 1])) continue;
      const std::size_t begin = at + one.prefix.size();
      std::size_t end = begin;
      while (end < text.size() && is_word(text[end])) ++end;
      const std::string_view key = text.substr(begin, end - begin);
      if (key.size() < one.least || key.size() > one.most) continue;
      if (one.capitals && !std::ranges::all_of(key, [](char c) { return is_digit(c) || is_upper(c); }))
        continue;
      if (is_example(key) || entropy(key) <= (one.capitals ? 3.0 : kKeyEntropy)) continue;
      // Words that are joined by hyphens have no digit.
      if (std::ranges::none_of(key, is_digit)) continue;
      return std::string(one.kind);
    }
  }
  return std::nullopt;
}

RowFinding private_key_in(std::string_view text) {
  const std::size_t at = text.find("PRIVATE KEY-----");
  if (at == std::string_view::npos || text.substr(0, at).rfind("-----BEGIN ") == std::string_view::npos)
    return std::nullopt;
  std::size_t letters = 0;
  for (std::size_t i = at + 16; i < text.size() && letters < 64 && text[i] != '-' && text[i] != '.'; ++i)
    letters += is_word(text[i]) || text[i] == '+' || text[i] == '/' ? 1 : 0;
  if (letters < 64) return std::nullopt;  // the first line of a key alone, as guides show it
  return "a private key";
}

// ---- personal data
RowFinding mail_in(std::string_view text) {
  for (std::size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    std::size_t begin = at, end = at + 1;
    while (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '.' || text[begin - 1] == '+'))
      --begin;
    while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
    std::string_view host = text.substr(at + 1, end - at - 1);
    while (host.ends_with('.')) host.remove_suffix(1);
    const std::size_t dot = host.rfind('.');
    if (at - begin < 2 || dot == std::string_view::npos || dot == 0 || host.size() - dot < 3) continue;
    const std::string_view top = host.substr(dot + 1);
    if (!std::ranges::all_of(top, [](char c) { return c >= 'a' && c <= 'z'; })) continue;
    if (is_example(host) || top == "test" || top == "invalid" || top == "local" || host == "email.com" ||
        host == "domain.com" || host == "company.com")
      continue;
    return "an e-mail address";
  }
  return std::nullopt;
}

// The digits of a number from `at` on, with single blanks and hyphens between them; `end` behind the last.
std::string digits_from(std::string_view text, std::size_t at, std::size_t& end) {
  std::string out;
  end = at;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (is_digit(text[i])) {
      out += text[i];
      end = i + 1;
    } else if ((text[i] != ' ' && text[i] != '-') || i != end) {
      break;
    }
  }
  return out;
}

// ISO/IEC 7812-1: the sum of digits, every second one doubled from the right.
bool has_luhn_sum(const std::string& digits) {
  int sum = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    int digit = digits[digits.size() - 1 - i] - '0';
    if (i % 2 == 1) digit = digit > 4 ? 2 * digit - 9 : 2 * digit;
    sum += digit;
  }
  return sum % 10 == 0;
}

bool is_card(const std::string& digits) {
  const bool network = (digits.size() == 16 &&
                        (digits[0] == '4' || (digits[0] == '5' && digits[1] >= '1' && digits[1] <= '5'))) ||
                       (digits.size() == 15 && digits[0] == '3' && (digits[1] == '4' || digits[1] == '7'));
  // Cards of tests repeat a digit: 4111 1111 1111 1111, 4242 4242 4242 4242.
  return network && has_luhn_sum(digits) && entropy(digits) > 2.4;
}

RowFinding card_or_telephone_in(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = i == 0 || (!is_word(text[i - 1]) && text[i - 1] != '.');
    if (!begins || (!is_digit(text[i]) && text[i] != '+')) continue;
    std::size_t end = 0;
    if (text[i] == '+') {
      const std::string digits = i + 1 < text.size() ? digits_from(text, i + 1, end) : "";
      const bool grouped = !digits.empty() && end - i - 1 > digits.size();  // +49 30 1234567, and not a sum
      if (digits.size() >= 10 && digits.size() <= 15 && digits[0] != '0' && grouped && entropy(digits) > 2.0)
        return "a telephone number";
      continue;
    }
    const std::string digits = digits_from(text, i, end);
    const bool ends = end >= text.size() || (!is_word(text[end]) && text[end] != '.');
    if (ends && is_card(digits)) return "a payment card's number";
    if (end > i) i = end - 1;
  }
  return std::nullopt;
}

struct AccountLength {
  std::string_view country;
  std::size_t characters;
};

// The registry of ISO 13616, as far as it is common.
constexpr AccountLength kAccounts[] = {{"DE", 22}, {"FR", 27}, {"GB", 22}, {"ES", 24}, {"IT", 27},
                                       {"NL", 18}, {"BE", 16}, {"AT", 20}, {"CH", 21}, {"PL", 28},
                                       {"PT", 25}, {"SE", 24}, {"DK", 18}, {"NO", 15}, {"FI", 18},
                                       {"IE", 22}, {"LU", 20}, {"CZ", 24}};

// ISO 13616: letters are 10 to 35, the first four characters stand last, and the remainder by 97 is 1.
bool has_account_sum(const std::string& account) {
  int rest = 0;
  for (std::size_t k = 0; k < account.size(); ++k) {
    const char c = account[(k + 4) % account.size()];
    rest = is_digit(c) ? (10 * rest + (c - '0')) % 97 : (100 * rest + (c - 'A' + 10)) % 97;
  }
  return rest == 1;
}

RowFinding iban_in(std::string_view text) {
  for (const AccountLength& one : kAccounts) {
    for (std::size_t at = text.find(one.country); at != std::string_view::npos;
         at = text.find(one.country, at + 1)) {
      if (at > 0 && is_word(text[at - 1])) continue;
      std::string account;
      std::size_t end = at;
      for (; end < text.size() && account.size() < one.characters; ++end) {
        if (is_digit(text[end]) || is_upper(text[end])) {
          account += text[end];
        } else if (text[end] != ' ') {
          break;
        }
      }
      const bool ends = end >= text.size() || !is_word(text[end]);
      if (ends && account.size() == one.characters && has_account_sum(account)) return "an IBAN";
    }
  }
  return std::nullopt;
}

}  // namespace

RowFinding find_secret(std::string_view text) {
  if (RowFinding key = private_key_in(text)) return key;
  return key_in(text);
}

RowFinding find_personal(std::string_view text) {
  for (const auto find : {iban_in, card_or_telephone_in, mail_in}) {
    if (RowFinding found = find(text)) return found;
  }
  return std::nullopt;
}

}  // namespace hone::doctor
