// What hone bug-report leaves out of the text that a user may send.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/json.h"
#include "base/strings/printable.h"
#include "commands/process/shareable_text.h"
#include "commands/process/spelled_text.h"

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

// In JSON of JSON of JSON, with all that is not ASCII as \u, in what is printed of each, and in an address.
TEST(Shareable, HasNoValuesThatAreEscaped) {
  for (const std::string& secret :
       {std::string("pa\"ss\\w0rd"), std::string("correct\nhorse\r\n  battery"),
        std::string("C:\\new\\\"x\"\\\\"), std::string("p\x1b[31m\x07\x7f\u0085\u202e-word"),
        std::string("\u00fcber/\U0001f511?geheim & = mehr"), std::string("100%25 %41 sure"),
        std::string("'quoted' one\ttwo")}) {
    const Variable variable("A_SECRET", secret.c_str());
    std::string text = secret;
    for (int depth = 0; depth <= 3; ++depth) {
      EXPECT_EQ(shareable("is " + text + ", loss 1"), "is ***, loss 1") << depth;
      EXPECT_EQ(shareable("is " + base::printable(text) + ", loss 1"), "is ***, loss 1") << depth;
      text = base::dump_json(text);
      text = text.substr(1, text.size() - 2);
    }
    std::string ascii = base::Json(secret).dump(-1, ' ', true), address;
    EXPECT_EQ(shareable("is " + ascii + ", loss 1"), "is \"***\", loss 1");
    ascii = base::Json(ascii).dump(-1, ' ', true);
    EXPECT_EQ(shareable("is " + ascii + ", loss 1"), R"(is "\"***\"", loss 1)");
    for (const char c : secret) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      address += c == ' ' ? "+" : std::string("%") + kDigits[byte >> 4] + kDigits[byte & 15];
    }
    EXPECT_EQ(shareable("x?y=" + address + "&z=1"), "x?y=***&z=1");
  }
}

TEST(Shareable, HasNoValueWithAnotherEnd) {
  const Variable of_a_file("A_SECRET", "correct horse\n");
  EXPECT_EQ(shareable("said correct\n    horse; a correct house"), "said ***; a correct house");
}

TEST(Spelled, IsKnownAsYamlPythonAndCWriteIt) {
  EXPECT_EQ(without_spelled("- 'pa''ss: word'", "pa'ss: word", "*"), "- '*'");
  EXPECT_EQ(without_spelled("pa'ss: word", "pa'ss: word", "*"), "*");
  EXPECT_EQ(without_spelled(R"('a\U0001F511b')", "a\U0001f511b", "*"), "'*'");
  EXPECT_EQ(without_spelled(R"("caf\303\251 caf\303")", "caf\u00e9", "*"), R"("* caf\303")");
  EXPECT_EQ(without_spelled(R"("a\Nb a\_b a\Lb")", "a\u0085b", "*"), R"("* a\_b a\Lb")");
  EXPECT_EQ(without_spelled("\"correct\\\n    \\ horse\"", "correct horse", "*"), "\"*\"");
  EXPECT_EQ(without_spelled(R"(correct\ horse)", "correct horse", "*"), "*");
}

TEST(Spelled, OthersStay) {
  EXPECT_EQ(without_spelled(R"(pass\word pass\"Word passw)", "pass\"word", "*"),
            R"(pass\word pass\"Word passw)");
  EXPECT_EQ(without_spelled("50%25 is 50%2", "50%25%", "*"), "50%25 is 50%2");
  EXPECT_EQ(without_spelled(R"(\ud83d\u0041 \ud83d)", "\U0001f511", "*"), R"(\ud83d\u0041 \ud83d)");
  EXPECT_EQ(without_spelled(R"(\ud83d\udd11 \x1 \)", "\U0001f511", "*"), R"(* \x1 \)");
}

TEST(Shareable, HasNoHomeFolder) {
  const std::string before = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", "/home/ada", 1);
  EXPECT_EQ(shareable("/home/ada/runs/out, /home/adam/runs"), "~/runs/out, /home/adam/runs");
  setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace hone::commands
