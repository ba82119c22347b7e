#include "rewards/reward_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/strings/suggest.h"

namespace hone::rewards {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view word) : word_(word) {}

  RewardSpec read() {
    RewardSpec out{std::string(word_), key(), {}};
    blanks();
    if (take('(')) {
      blanks();
      while (!take(')')) {
        parameter(out);
        blanks();
        if (!take(',') && !(at_ < word_.size() && word_[at_] == ')')) fail("',' or ')'");
        blanks();
      }
      blanks();
    }
    if (at_ < word_.size()) fail("nothing after the name and its parameters");
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw base::UserError({.where = "reward_funcs",
                           .expected = expected + " at character " + std::to_string(at_ + 1),
                           .found = std::string(word_),
                           .fix = "write it as regex(pattern=\"...\") or exact_match(column=answer)"});
  }

  void blanks() {
    while (at_ < word_.size() && (word_[at_] == ' ' || word_[at_] == '\t' || word_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    if (at_ >= word_.size() || word_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string key() {
    const std::size_t start = at_;
    while (at_ < word_.size() && std::string_view("(),= \t\n").find(word_[at_]) == std::string_view::npos)
      ++at_;
    if (at_ == start) fail("a name");
    return std::string(word_.substr(start, at_ - start));
  }

  std::string quoted(char quote) {
    std::string out;
    for (; at_ < word_.size(); ++at_) {
      if (word_[at_] == quote) {
        ++at_;
        return out;
      }
      if (word_[at_] == '\\' && at_ + 1 < word_.size() && (word_[at_ + 1] == '\\' || word_[at_ + 1] == quote))
        ++at_;
      out += word_[at_];
    }
    fail(std::string("the closing quote ") + quote);
  }

  std::string value() {
    for (const char quote : {'"', '\''})
      if (take(quote)) return quoted(quote);
    const std::size_t start = at_;
    while (at_ < word_.size() && word_[at_] != ',' && word_[at_] != ')') ++at_;
    std::string_view out = word_.substr(start, at_ - start);
    while (!out.empty() && (out.back() == ' ' || out.back() == '\t' || out.back() == '\n'))
      out.remove_suffix(1);
    return std::string(out);
  }

  void parameter(RewardSpec& out) {
    const std::string name = key();
    blanks();
    if (!take('=')) fail("'=' after " + name);
    blanks();
    if (std::ranges::any_of(out.parameters, [&](const auto& one) { return one.first == name; }))
      fail(name + " once");
    std::string text = value();
    out.parameters.emplace_back(name, std::move(text));
  }

  std::string_view word_;
  std::size_t at_ = 0;
};

}  // namespace

RewardSpec parse_reward_spec(std::string_view word) {
  return Reader(word).read();
}

std::optional<std::string> Parameters::take(const std::string& key) {
  known_.push_back(key);
  const auto found =
      std::ranges::find_if(word_.parameters, [&](const auto& one) { return one.first == key; });
  if (found == word_.parameters.end()) return std::nullopt;
  return found->second;
}

bool Parameters::has(const std::string& key) const {
  return std::ranges::any_of(word_.parameters, [&](const auto& one) { return one.first == key; });
}

void Parameters::fail(const std::string& key, const std::string& expected, const std::string& found) const {
  throw base::UserError({.where = where(key), .expected = expected, .found = found});
}

std::string Parameters::text(const std::string& key, const std::string& or_else) {
  const auto found = take(key);
  if (found && found->empty()) fail(key, "a text", "an empty one");
  return found.value_or(or_else);
}

std::string Parameters::needed_text(const std::string& key, const std::string& example) {
  const std::string found = text(key, "");
  if (found.empty()) fail(key, "a value, as in " + example, word_.word);
  return found;
}

std::int64_t Parameters::integer(const std::string& key, std::int64_t or_else, std::int64_t least) {
  const auto found = take(key);
  if (!found) return or_else;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(found->data(), found->data() + found->size(), value);
  if (error != std::errc() || end != found->data() + found->size() || value < least)
    fail(key, "a whole number, " + std::to_string(least) + " or more", *found);
  return value;
}

std::int64_t Parameters::needed_integer(const std::string& key, std::int64_t least,
                                        const std::string& example) {
  const std::int64_t value = integer(key, least - 1, least);
  if (value < least) fail(key, "a whole number, as in " + example, word_.word);
  return value;
}

double Parameters::number(const std::string& key, double or_else) {
  const auto found = take(key);
  if (!found) return or_else;
  double value = 0;
  const auto [end, error] = std::from_chars(found->data(), found->data() + found->size(), value);
  if (error != std::errc() || end != found->data() + found->size() || !std::isfinite(value))
    fail(key, "a number", *found);
  return value;
}

bool Parameters::boolean(const std::string& key, bool or_else) {
  const auto found = take(key);
  if (!found) return or_else;
  for (const char* const yes : {"true", "True", "1", "yes"})
    if (*found == yes) return true;
  for (const char* const no : {"false", "False", "0", "no"})
    if (*found == no) return false;
  fail(key, "true or false", *found);
}

std::string Parameters::choice(const std::string& key, const std::vector<std::string>& choices) {
  const auto found = take(key);
  if (!found) return choices.front();
  if (std::ranges::find(choices, *found) != choices.end()) return *found;
  std::string all;
  for (const auto& one : choices) all += (all.empty() ? "" : ", ") + one;
  fail(key, "one of " + all, *found);
}

void Parameters::finish() const {
  for (const auto& [key, value] : word_.parameters) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    std::string all;
    for (const auto& one : known_) all += (all.empty() ? "" : ", ") + one;
    throw base::UserError({.where = "reward_funcs " + word_.name,
                           .expected = "a parameter of it: " + all,
                           .found = key + "." + base::did_you_mean(key, known_)});
  }
}

}  // namespace hone::rewards
