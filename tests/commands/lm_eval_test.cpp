// What hone eval gives to the harness.
#include "commands/serving/lm_eval.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

namespace hone::commands {
namespace {

using Names = std::optional<std::string>;  // of a variable; nothing: it is not set

void set(const char* variable, const Names& names) {
  if (names) {
    setenv(variable, names->c_str(), 1);
  } else {
    unsetenv(variable);
  }
}

Names names_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? Names() : Names(value);
}

TEST(LmEval, NoProxyIsAskedOfThisMachineWhateverIsSet) {
  const Names capital = names_of("NO_PROXY"), small = names_of("no_proxy");
  const auto then = [](const Names& first, const Names& second) {
    set("NO_PROXY", first);
    set("no_proxy", second);
    ask_no_proxy_of_this_machine();
    ask_no_proxy_of_this_machine();  // once more changes nothing
    return std::pair(*names_of("NO_PROXY"), *names_of("no_proxy"));
  };
  const auto both = [](const std::string& names) { return std::pair(names, names); };
  EXPECT_EQ(then({}, {}), both("127.0.0.1"));
  EXPECT_EQ(then("", {}), both("127.0.0.1"));
  EXPECT_EQ(then("corp.example", {}), both("corp.example,127.0.0.1"));
  EXPECT_EQ(then({}, "corp.example"), both("corp.example,127.0.0.1"));
  EXPECT_EQ(then("a, b", "c"), std::pair(std::string("a, b,127.0.0.1"), std::string("c,127.0.0.1")));
  EXPECT_EQ(then("10.127.0.0.1", "*"), std::pair(std::string("10.127.0.0.1,127.0.0.1"), std::string("*")));
  set("NO_PROXY", capital);
  set("no_proxy", small);
}

}  // namespace
}  // namespace hone::commands
