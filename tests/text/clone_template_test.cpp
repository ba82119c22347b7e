// TRL 1.16's clone_chat_template, where it adds no tokens: the template and the end of sequence of another folder.
#include "text/clone_template.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "helpers.h"

namespace hone::text {
namespace clone_template_test {

using base::Json;

const base::fs::path kTiny = base::fs::path(HONE_FIXTURES) / "text" / "tiny";

// The tiny tokenizer with another template and end of sequence, and with `tokens` added.
void write_source(const TempFolder& folder, const std::string& chat_template, const std::string& eos,
                  const std::vector<std::string>& tokens) {
  Json tokenizer = base::parse_json(base::read_text(kTiny / "tokenizer.json"), "tokenizer.json");
  for (const std::string& token : tokens) {
    Json added = tokenizer["added_tokens"][0];
    added["content"] = token;
    added["id"] = 1000 + tokenizer["added_tokens"].size();
    tokenizer["added_tokens"].push_back(added);
  }
  folder.write("tokenizer.json", base::dump_json(tokenizer));
  Json config = {{"eos_token", eos}};
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  folder.write("tokenizer_config.json", base::dump_json(config));
}

TEST(CloneTemplate, TakesTemplateAndEndOfSequence) {
  const TempFolder folder;
  Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const std::string other = "<|im_start|>";
  ASSERT_NE(tokenizer.special().eos, other);
  const std::int64_t before = tokenizer.vocab_size();
  write_source(folder, "{{ eos_token }}", other, {});
  clone_chat_template(folder.path(), tokenizer);
  EXPECT_EQ(tokenizer.chat_template(), "{{ eos_token }}");
  EXPECT_EQ(tokenizer.special().eos, other);
  EXPECT_EQ(tokenizer.eos_id(), tokenizer.token_to_id(other));
  EXPECT_EQ(tokenizer.vocab_size(), before);
}

TEST(CloneTemplate, NamesTheTokensThatWouldNeedRows) {
  const TempFolder folder;
  Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  write_source(folder, "x", "<|im_end|>", {"<one>", "<two>"});
  const std::string two = user_error([&] { clone_chat_template(folder.path(), tokenizer); });
  EXPECT_TRUE(contains(two, "2 that are not: <one>, <two>")) << two;
  write_source(folder, "x", "<|im_end|>", {"<1>", "<2>", "<3>", "<4>", "<5>", "<6>"});
  const std::string six = user_error([&] { clone_chat_template(folder.path(), tokenizer); });
  EXPECT_TRUE(contains(six, "6 that are not: <1>, <2>, <3>, <4>, <5>, ...")) << six;
  EXPECT_NE(tokenizer.chat_template(), "x");
}

TEST(CloneTemplate, NeedsATemplate) {
  const TempFolder folder;
  Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  write_source(folder, "", "<|im_end|>", {});
  EXPECT_TRUE(contains(user_error([&] { clone_chat_template(folder.path(), tokenizer); }), "one without it"));
}

}  // namespace clone_template_test
}  // namespace hone::text
