#include "base/strings/secrets.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hone::base {
namespace secrets_test {

TEST(Secrets, AreNotShown) {
  const auto shown = [](const char* text) { return redact_secrets(text); };
  EXPECT_EQ(shown("https://me:pass@host:80/score?x=1"), "https://me:***@host:80/score?x=1");
  EXPECT_EQ(shown("https://ghp_12@host/score"), "https://***@host/score");
  EXPECT_EQ(shown("http://h/s?token=abc&a=1&API-Key=d;sig=e%2F#access_token=f"),
            "http://h/s?token=***&a=1&API-Key=***;sig=***#access_token=***");
  EXPECT_EQ(shown("[reward https://h/s?key=abc] and \"http://u:p@h\" and https://h/?X-Amz-Signature=1"),
            "[reward https://h/s?key=*** and \"http://u:***@h\" and https://h/?X-Amz-Signature=***");
  EXPECT_EQ(shown("https://host/token/s?keys=1&monkey=2&tokens=3"),
            "https://host/token/s?keys=1&monkey=2&tokens=***");
  for (const char* const plain : {"", "://", "https://", "https://@", "a:b@c", "https://host/a@b?x=y:z@w",
                                  "https://host/s?token=", "https://host/s?token=${TOKEN}",
                                  "https://me:${PASS}@host/s", "http://h:1/?"}) {
    EXPECT_EQ(shown(plain), plain);
  }
  EXPECT_EQ(shown("https://h/?to=https://u:p@i/?key=1&token=2"),
            "https://h/?to=https://u:***@i/?key=***&token=***");
  EXPECT_EQ(shown("https://h/?token=${A}b"), "https://h/?token=***");
}

TEST(Secrets, WhatWasTakenOutIsSeen) {
  EXPECT_TRUE(is_redacted("https://me:***@host/score"));
  EXPECT_TRUE(is_redacted("https://host/score?a=1&token=***"));
  EXPECT_FALSE(is_redacted("https://host/***?a=***&token=${T}"));
  EXPECT_TRUE(has_secrets("https://host/?key=1"));
  EXPECT_TRUE(has_secrets("https://${HOST}/"));
  EXPECT_FALSE(has_secrets("https://host/?a=1"));
  EXPECT_FALSE(has_secrets("${HOME}/r.py:score"));
}

TEST(Secrets, AnErrorDoesNotTellThem) {
  const UserError error({.where = "reward https://h/s?token=abc", .found = "https://u:pw@h"});
  EXPECT_EQ(std::string(error.what()).find("abc"), std::string::npos) << error.what();
  EXPECT_EQ(std::string(error.what()).find("pw"), std::string::npos) << error.what();
}

TEST(Secrets, LongTextsTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "://a?&;#=";
  EXPECT_EQ(redact_secrets(text), text);
  EXPECT_FALSE(redact_secrets("://" + std::string(2000000, '@')).empty());
}

}  // namespace secrets_test
}  // namespace hone::base
