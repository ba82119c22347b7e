// What hone bug-report leaves out of the text that a user may send.
#include <gtest/gtest.h>

#include <cstdlib>

#include "commands/process/shareable_text.h"

namespace hone::commands {
namespace {

struct Variable {
  Variable(const char* given, const char* value) : name(given) { setenv(given, value, 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

TEST(Shareable, HasNoTokens) {
  EXPECT_EQ(shareable("hub_token: hf_abcdefghijklmnopqrst and sk-proj_0123456789abcdef."),
            "hub_token: hf_*** and sk-***.");
  EXPECT_EQ(shareable("wss://me:mine@host/x?token=abc"), "wss://me:***@host/x?token=***");
  EXPECT_EQ(shareable(R"({"text":"a\nhf_abcdefghijklmnopqrst","url":"x%2Fghs_abcdefghijklmnopqrst"})"),
            R"({"text":"a\nhf_***","url":"x%2Fghs_***"})");
  EXPECT_EQ(shareable("half_hf_model, ask-me-about-this-long-name, hf_short"),
            "half_hf_model, ask-me-about-this-long-name, hf_short");
}

TEST(Shareable, HasNoValuesOfTellingVariables) {
  const Variable own("my_api_key", "correct horse"), longer("OTHER_TOKEN", "correct horse battery"),
      of_words("A_KEY", "loss");
  EXPECT_EQ(shareable("said correct horse battery, correct horse; loss 1"), "said ***, ***; loss 1");
}

TEST(Shareable, HasNoHomeFolder) {
  const std::string before = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", "/home/ada", 1);
  EXPECT_EQ(shareable("/home/ada/runs/out, /home/adam/runs"), "~/runs/out, /home/adam/runs");
  setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace hone::commands
