// TRL 1.16's clone_chat_template: the template, the end of sequence and the added tokens of another folder.
#include "text/clone_template.h"

#include <gtest/gtest.h>

#include <utility>

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

TEST(CloneTemplate, AddsTheTokensThatTheVocabularyLacks) {
  const TempFolder folder, saved;
  Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const std::int64_t before = tokenizer.vocab_size();
  write_source(folder, "x", "<two>", {"<one>", "<two>"});
  EXPECT_EQ(clone_chat_template(folder.path(), tokenizer), (std::vector<std::int64_t>{before, before + 1}));
  EXPECT_EQ(tokenizer.chat_template(), "x");
  EXPECT_EQ(tokenizer.eos_id(), before + 1);
  const auto fillers = fill_vocabulary(before + 5, tokenizer);
  EXPECT_EQ(fillers, (std::vector<std::int64_t>{before + 2, before + 3, before + 4}));
  EXPECT_EQ(tokenizer.vocab_size(), before + 5);
  EXPECT_TRUE(fill_vocabulary(before + 5, tokenizer).empty());
  tokenizer.save(saved.path());
  const Tokenizer again = Tokenizer::from_folder(saved.path());
  for (const Tokenizer* one : {&std::as_const(tokenizer), &again}) {
    EXPECT_EQ(
        one->encode("<two><one><extra_id_2>", false).ids,
        (std::vector<std::int32_t>{static_cast<std::int32_t>(before + 1), static_cast<std::int32_t>(before),
                                   static_cast<std::int32_t>(before + 4)}));
    EXPECT_EQ(one->special().eos, "<two>");
  }
  EXPECT_TRUE(contains(user_error([&] { tokenizer.add_tokens({{{"content", "<one>"}}}); }), "<one>"));
}

TEST(CloneTemplate, NeedsATemplate) {
  const TempFolder folder;
  Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  write_source(folder, "", "<|im_end|>", {});
  EXPECT_TRUE(contains(user_error([&] { clone_chat_template(folder.path(), tokenizer); }), "one without it"));
}

}  // namespace clone_template_test
}  // namespace hone::text
