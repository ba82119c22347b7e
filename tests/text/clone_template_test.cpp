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

// A folder of the tiny tokenizer in which a token stands outside of tokenizer.json.
void write_with_other_tokens(const TempFolder& folder, const Json& config, const Json& added_file) {
  folder.write("tokenizer.json", base::read_text(kTiny / "tokenizer.json"));
  folder.write("tokenizer_config.json", base::dump_json(config));
  if (!added_file.is_null()) folder.write("added_tokens.json", base::dump_json(added_file));
}

Json decoder_of_tiny(std::int64_t next) {
  Json out = Json::object();
  const Json tiny = base::parse_json(base::read_text(kTiny / "tokenizer.json"), "f");
  for (Json token : tiny["added_tokens"]) {
    const std::string id = std::to_string(token["id"].get<std::int64_t>());
    token.erase("id");
    out[id] = token;
  }
  if (next > 0) out[std::to_string(next)] = {{"content", "<a>"}, {"special", true}};
  return out;
}

Json whole_token(const std::string& content, bool special) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", special}};
}

// The ids of tokens that are added are those that the saved folder gives them, whatever file names the
// others.
TEST(CloneTemplate, AddsBehindTheTokensOfOtherFiles) {
  const std::int64_t next = Tokenizer::from_folder(kTiny).vocab_size();
  int forms = 0;
  for (const char* class_name : {"TokenizersBackend", "Qwen2Tokenizer", "GPT2Tokenizer"}) {
    std::vector<std::pair<Json, Json>> all = {
        {{{"added_tokens_decoder", decoder_of_tiny(next)}}, Json()},
        {{{"extra_special_tokens", {"<a>"}}}, Json()},
        {{{"extra_special_tokens", {"<a>"}}, {"added_tokens_decoder", decoder_of_tiny(0)}}, Json()},
        {{{"image_token", "<a>"}, {"added_tokens_decoder", decoder_of_tiny(0)}}, Json()},
        {{{"pad_token", "<a>"}}, Json()},
        {Json::object(), {{"<a>", next}}},
    };
    for (auto& [config, added_file] : all) {
      const TempFolder folder;
      config["tokenizer_class"] = class_name;
      SCOPED_TRACE(base::dump_json(config));
      write_with_other_tokens(folder, config, added_file);
      Tokenizer tokenizer = Tokenizer::from_folder(folder.path());
      const auto before = tokenizer.token_to_id("<a>");
      ASSERT_TRUE(before);
      const std::int64_t size = tokenizer.vocab_size();
      const auto ids = tokenizer.add_tokens({whole_token("<b>", true), whole_token("<c>", false)});
      const auto fillers = fill_vocabulary(size + 4, tokenizer);
      EXPECT_EQ(ids, (std::vector<std::int64_t>{size, size + 1}));
      EXPECT_EQ(fillers, (std::vector<std::int64_t>{size + 2, size + 3}));
      tokenizer.save(folder.path() / "saved");
      const Tokenizer again = Tokenizer::from_folder(folder.path() / "saved");
      for (const Tokenizer* one : {&std::as_const(tokenizer), &again}) {
        EXPECT_EQ(one->token_to_id("<a>"), before);
        EXPECT_EQ(one->token_to_id("<b>"), ids[0]);
        EXPECT_EQ(one->token_to_id("<c>"), ids[1]);
        EXPECT_EQ(one->token_to_id("<extra_id_1>"), fillers[1]);
        EXPECT_EQ(one->vocab_size(), size + 4);
      }
      ++forms;
    }
  }
  EXPECT_EQ(forms, 18);
}

TEST(CloneTemplate, TakesTokensThatOnlyOtherFilesName) {
  const std::int64_t next = Tokenizer::from_folder(kTiny).vocab_size();
  const std::vector<std::pair<Json, Json>> all = {
      {{{"added_tokens_decoder", decoder_of_tiny(next)}}, Json()},
      {{{"extra_special_tokens", {"<a>"}}}, Json()},
      {{{"eos_token", "<a>"}}, Json()},
      {Json::object(), {{"<a>", next}}},
  };
  for (auto [config, added_file] : all) {
    const TempFolder folder;
    config["chat_template"] = "x";
    SCOPED_TRACE(base::dump_json(config));
    write_with_other_tokens(folder, config, added_file);
    Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
    EXPECT_EQ(clone_chat_template(folder.path(), tokenizer), std::vector<std::int64_t>{next});
    EXPECT_EQ(tokenizer.token_to_id("<a>"), next);
  }
}

TEST(CloneTemplate, NeedsATemplate) {
  const TempFolder folder;
  Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  write_source(folder, "", "<|im_end|>", {});
  EXPECT_TRUE(contains(user_error([&] { clone_chat_template(folder.path(), tokenizer); }), "one without it"));
}

}  // namespace clone_template_test
}  // namespace hone::text
