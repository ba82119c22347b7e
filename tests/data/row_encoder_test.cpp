// Tokens that were prepared are those that each row gets alone.
#include "data/forms/row_encoder.h"

#include <gtest/gtest.h>

#include "base/files/file.h"

namespace hone::data {
namespace row_encoder_test {

using base::Json;
using Ids = std::vector<std::int32_t>;

const base::fs::path kTiny = base::fs::path(HONE_FIXTURES) / "text" / "tiny";

Json turn(const char* role, const char* content) {
  return Json::array({{{"role", role}, {"content", content}}});
}

class RowEncoderTest : public testing::Test {
 protected:
  EncodedRow row(const Json& prompt) const { return {prompt, none_, none_, where_}; }

  text::Tokenizer tokenizer_ = text::Tokenizer::from_folder(kTiny);
  text::ChatTemplate template_{*tokenizer_.chat_template(), tokenizer_.special(), "tiny"};
  Json none_;
  RowName where_ = [] { return std::string("rows:1"); };
};

TEST_F(RowEncoderTest, WhatIsPreparedIsWhatIsAskedFor) {
  for (const bool chat : {true, false}) {
    const Json prompt = chat ? turn("user", "one two") : Json("one two");
    Json answer = chat ? turn("assistant", "three") : Json(" three");
    RowEncoder encoder(chat, tokenizer_, &template_, 0);
    const Ids of_prompt = encoder.prompt(row(prompt)), of_whole = encoder.whole(row(prompt), answer);
    const Ids alone = encoder.whole(row(none_), answer);
    encoder.prepare([&](RowEncoder::Expected& expected) {
      expected.prompt(row(prompt));
      expected.whole(row(prompt), answer);
    });
    EXPECT_EQ(encoder.prompt(row(prompt)), of_prompt);
    EXPECT_EQ(encoder.whole(row(prompt), answer), of_whole);
    answer = chat ? turn("assistant", "four") : Json(" four");
    EXPECT_EQ(encoder.whole(row(prompt), answer), of_whole) << "it was not looked for among what is prepared";
    answer = chat ? turn("assistant", "three") : Json(" three");
    encoder.prepare([&](RowEncoder::Expected& expected) { expected.whole(row(none_), answer); });
    EXPECT_EQ(encoder.whole(row(none_), answer), alone);
  }
}

TEST_F(RowEncoderTest, AnErrorIsThatOfTheRow) {
  const Json good = turn("user", "one"), bad = turn("nobody", "one");
  RowEncoder encoder(true, tokenizer_, &template_, 0);
  const Ids before = encoder.prompt(row(good));
  encoder.prepare([&](RowEncoder::Expected& expected) {
    expected.prompt(row(good));
    expected.prompt(row(bad));
  });
  EXPECT_EQ(encoder.prompt(row(good)), before);
  try {
    encoder.prompt(row(bad));
    ADD_FAILURE() << "no error";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("[rows:1, tiny]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("Unknown role: nobody"), std::string::npos) << error.what();
  }
}

}  // namespace row_encoder_test
}  // namespace hone::data
