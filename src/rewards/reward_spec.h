// A built-in reward as it is written in reward_funcs: name, or name(key=value, key="a, b").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::rewards {

struct RewardSpec {
  std::string word;  // as the user wrote it, for messages
  std::string name;
  std::vector<std::pair<std::string, std::string>> parameters;  // in order, values without their quotes
};

// Values may be quoted with ' or "; between quotes \" and \\ are a quote and a backslash, any other backslash
// stands for itself. UserError for an open parenthesis, a key twice, a value without a key.
RewardSpec parse_reward_spec(std::string_view word);

// Takes parameters one by one; finish() throws for unknown parameters. Errors name the reward.
class Parameters {
 public:
  explicit Parameters(RewardSpec word) : word_(std::move(word)) {}

  std::string text(const std::string& key, const std::string& or_else);
  std::string needed_text(const std::string& key, const std::string& example);
  std::int64_t integer(const std::string& key, std::int64_t or_else, std::int64_t least);
  std::int64_t needed_integer(const std::string& key, std::int64_t least, const std::string& example);
  double number(const std::string& key, double or_else);
  bool boolean(const std::string& key, bool or_else);
  std::string choice(const std::string& key,
                     const std::vector<std::string>& choices);  // the first is the default

  bool has(const std::string& key) const;
  void finish() const;
  std::string where(const std::string& key) const { return "reward_funcs " + word_.name + ", " + key; }
  [[noreturn]] void fail(const std::string& key, const std::string& expected, const std::string& found) const;

 private:
  std::optional<std::string> take(const std::string& key);

  RewardSpec word_;
  std::vector<std::string> known_;
};

}  // namespace hone::rewards
