// The tiny tokenizer against Hugging Face's `tokenizers` (golden.json, made by make_tiny_tokenizer.py).
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/json.h"
#include "helpers.h"

namespace hone::text {
namespace tokenizer_test {

const base::fs::path kTiny = base::fs::path(HONE_FIXTURES) / "text" / "tiny";

base::Json golden() {
  return base::parse_json(base::read_text(kTiny / "golden.json"), "golden.json");
}

TEST(Tokenizer, IdsOffsetsAndTextsAreHuggingFaces) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const base::Json strings = golden()["strings"];
  ASSERT_GE(strings.size(), 20U);
  for (const auto& golden : strings) {
    const auto text = golden["text"].get<std::string>();
    SCOPED_TRACE(text);
    const Encoding plain = tokenizer.encode(text, false, true);
    EXPECT_EQ(base::Json(plain.ids), golden["ids"]);
    EXPECT_EQ(base::Json(plain.byte_offsets), golden["offsets"]);
    const Encoding special = tokenizer.encode(text, true);
    EXPECT_EQ(base::Json(special.ids), golden["ids_special"]);
    EXPECT_TRUE(special.byte_offsets.empty());
    EXPECT_EQ(tokenizer.decode(special.ids, false), golden["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(special.ids, true), golden["decoded_skip"].get<std::string>());
  }
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  EXPECT_EQ(tokenizer.vocab_size(), 384);
  EXPECT_EQ(tokenizer.special().bos, "<|bos|>");     // written as a string
  EXPECT_EQ(tokenizer.special().eos, "<|im_end|>");  // written as {"content": ...}
  EXPECT_EQ(tokenizer.special().pad, std::nullopt);
  EXPECT_EQ(tokenizer.special().unk, std::nullopt);  // null
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.pad_id(), 2);  // EOS in its place
  EXPECT_EQ(tokenizer.token_to_id("<|im_start|>"), 1);
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(1), "<|im_start|>");
  EXPECT_EQ(tokenizer.id_to_token(384), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(-1), std::nullopt);
}

TEST(Tokenizer, PadIsItsOwnWhenNamed) {
  const Tokenizer tokenizer =
      Tokenizer::from_json(base::read_text(kTiny / "tokenizer.json"),
                           R"({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})", "x");
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.chat_template(), std::nullopt);
}

TEST(Tokenizer, WithoutConfigHasNoSpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::from_json(base::read_text(kTiny / "tokenizer.json"), "", "x");
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
  EXPECT_EQ(tokenizer.pad_id(), std::nullopt);
}

TEST(Tokenizer, InvalidUtf8IsRefused) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const std::string message = user_error([&] { tokenizer.encode("ab\xff", false); });
  EXPECT_TRUE(contains(message, "expected valid UTF-8")) << message;
  EXPECT_TRUE(contains(message, "not valid UTF-8 at byte 2")) << message;
}

TEST(Tokenizer, NegativeIdsAreOurBug) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const std::vector<std::int32_t> ids = {1, -100};
  EXPECT_THROW(tokenizer.decode(ids, false), base::InternalError);
}

TEST(Tokenizer, EncodesFromManyThreads) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const std::string text = "The answer is 42. Äpfel <|im_end|>";
  const auto expected = tokenizer.encode(text, true).ids;
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) count += tokenizer.encode(text, true).ids != expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Tokenizer, SaveCopiesByteForByteEvenWhenTheFolderIsGone) {
  const TempFolder temp;
  const base::fs::path source = temp.path() / "source";
  base::fs::create_directories(source);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    base::fs::copy(kTiny / name, source / name);
  temp.write("source/chat_template.jinja", "{{ 'x' }}\r\n");
  temp.write("source/unrelated.bin", "not the tokenizer's");
  const Tokenizer tokenizer = Tokenizer::from_folder(source);
  base::fs::remove_all(source);

  tokenizer.save(temp.path() / "out");
  EXPECT_EQ(slurp(temp.path() / "out" / "tokenizer.json"), slurp(kTiny / "tokenizer.json"));
  EXPECT_EQ(slurp(temp.path() / "out" / "tokenizer_config.json"), slurp(kTiny / "tokenizer_config.json"));
  EXPECT_EQ(slurp(temp.path() / "out" / "chat_template.jinja"), "{{ 'x' }}\r\n");
  EXPECT_FALSE(base::fs::exists(temp.path() / "out" / "unrelated.bin"));
}

TEST(Tokenizer, AReplacedTemplateIsTheOnlyOneThatIsSaved) {
  const TempFolder temp;
  Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  ASSERT_TRUE(tokenizer.chat_template());
  tokenizer.set_chat_template("{{ 1 }}");
  tokenizer.save(temp.path() / "out");
  EXPECT_EQ(slurp(temp.path() / "out" / "chat_template.jinja"), "{{ 1 }}");
  EXPECT_EQ(slurp(temp.path() / "out" / "tokenizer_config.json").find("chat_template"), std::string::npos);
  EXPECT_EQ(Tokenizer::from_folder(temp.path() / "out").chat_template(), "{{ 1 }}");
}

}  // namespace tokenizer_test
}  // namespace hone::text
