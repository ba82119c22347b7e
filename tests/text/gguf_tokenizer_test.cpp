#include "text/gguf/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "helpers.h"

namespace hone::text {
namespace gguf_tokenizer_test {

using base::Json;

// Ten tokens: "hello" is a word of two merges, digits stand alone.
const std::vector<std::string> kTokens = {"<s>", "</s>", "h",  "e",  "l",   "o",
                                          "1",   "2",    "he", "12", "hel", "<u>"};
const std::vector<std::int32_t> kTypes = {3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4};
const std::vector<std::string> kMerges = {"h e", "he l", "1 2"};

struct Parts {
  std::string model = "gpt2";
  std::string pre = "smollm";
  std::vector<std::string> tokens = kTokens;
  std::vector<std::int32_t> types = kTypes;
  std::vector<std::string> merges = kMerges;
  std::uint32_t eos = 1;
};

GgufWriter writer(const Parts& parts) {
  GgufWriter out;
  out.text("general.architecture", "llama").u32("llama.context_length", 512);
  out.text("tokenizer.ggml.model", parts.model).text("tokenizer.ggml.pre", parts.pre);
  out.texts("tokenizer.ggml.tokens", parts.tokens).i32s("tokenizer.ggml.token_type", parts.types);
  out.texts("tokenizer.ggml.merges", parts.merges);
  out.u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eos_token_id", parts.eos);
  return out;
}

Tokenizer load(const TempFolder& temp, const GgufWriter& gguf) {
  return Tokenizer::from_gguf(base::GgufFile::open(temp.write("m.gguf", gguf.bytes())));
}

std::string refusal(const Parts& parts) {
  const TempFolder temp;
  return user_error([&] { load(temp, writer(parts)); });
}

using Ids = std::vector<std::int32_t>;

TEST(GgufTokenizer, EachNameHasItsOwnPreTokenizer) {
  const TempFolder temp;
  Parts parts;
  EXPECT_EQ(load(temp, writer(parts)).encode("hello12", true).ids, (Ids{10, 4, 5, 6, 7}));  // digits alone
  for (const char* pre : {"gpt-2", "default"}) {
    parts.pre = pre;
    EXPECT_EQ(load(temp, writer(parts)).encode("hello12", true).ids, (Ids{10, 4, 5, 9})) << pre;
  }
  parts.pre = "qwen2";
  EXPECT_EQ(load(temp, writer(parts)).encode("hello12", true).ids, (Ids{10, 4, 5, 6, 7}));
  parts.pre = "llama-bpe";  // adds BOS by default
  EXPECT_EQ(load(temp, writer(parts)).encode("hello12", true).ids, (Ids{0, 10, 4, 5, 9}));
  EXPECT_EQ(load(temp, writer(parts)).encode("hello12", false).ids, (Ids{10, 4, 5, 9}));
}

TEST(GgufTokenizer, LlamaTakesAWholeWordBeforeMerging) {
  const TempFolder temp;
  Parts parts;
  parts.tokens.push_back("hello");  // no merge leads to it
  parts.types.push_back(1);
  EXPECT_EQ(load(temp, writer(parts)).encode("hello", false).ids, (Ids{10, 4, 5}));
  parts.pre = "llama-bpe";
  EXPECT_EQ(load(temp, writer(parts)).encode("hello", false).ids, (Ids{12}));
}

TEST(GgufTokenizer, QwenNormalizes) {
  const TempFolder temp;
  Parts parts;
  parts.tokens.insert(parts.tokens.end(),
                      {"Ã", "©", "Ì", "ģ"});  // the bytes of é, and those of a combining accent
  parts.types.insert(parts.types.end(), {1, 1, 1, 1});
  const std::string decomposed = "e\xcc\x81";
  EXPECT_EQ(load(temp, writer(parts)).encode(decomposed, false).ids, (Ids{3, 14, 15}));
  parts.pre = "qwen2";
  EXPECT_EQ(load(temp, writer(parts)).encode(decomposed, false).ids, (Ids{12, 13}));
}

TEST(GgufTokenizer, ControlTokensAreSpecialUserDefinedOnesAreNot) {
  const TempFolder temp;
  const Tokenizer tokenizer = load(temp, writer({}));
  const Ids ids = tokenizer.encode("h<u>e</s>", false).ids;
  EXPECT_EQ(ids, (Ids{2, 11, 3, 1}));
  EXPECT_EQ(tokenizer.decode(ids, false), "h<u>e</s>");
  EXPECT_EQ(tokenizer.decode(ids, true), "h<u>e");
}

TEST(GgufTokenizer, BosAndEosAreAddedAsTheFileSays) {
  const TempFolder temp;
  GgufWriter gguf = writer({});
  gguf.boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_eos_token", true);
  const Tokenizer both = load(temp, gguf);
  EXPECT_EQ(both.encode("he", true).ids, (Ids{0, 8, 1}));
  EXPECT_EQ(both.encode("he", false).ids, (Ids{8}));

  Parts llama;
  llama.pre = "llama-bpe";
  gguf = writer(llama);
  gguf.boolean("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(load(temp, gguf).encode("he", true).ids, (Ids{8}));
}

TEST(GgufTokenizer, RowsThatOnlyPadTheEmbeddingAreLeftOut) {
  const TempFolder temp;
  Parts parts;
  parts.tokens.insert(parts.tokens.end(), {"[PAD12]", "[PAD13]"});
  parts.types.insert(parts.types.end(), {5, 5});
  EXPECT_EQ(load(temp, writer(parts)).vocab_size(), 12);
}

TEST(GgufTokenizer, SavesWhatAFolderWouldHold) {
  const TempFolder temp;
  GgufWriter gguf = writer({});
  gguf.text("tokenizer.chat_template", "{{ messages }}").u32("tokenizer.ggml.padding_token_id", 0);
  const Tokenizer tokenizer = load(temp, gguf);
  EXPECT_EQ(tokenizer.eos_id(), 1);
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");

  tokenizer.save(temp.path() / "out");
  EXPECT_EQ(slurp(temp.path() / "out" / "chat_template.jinja"), "{{ messages }}");
  const Json special = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<s>"}};
  EXPECT_EQ(Json::parse(slurp(temp.path() / "out" / "special_tokens_map.json")), special);
  Json config = {{"clean_up_tokenization_spaces", false},
                 {"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"model_max_length", 512}};
  config.update(special);
  EXPECT_EQ(Json::parse(slurp(temp.path() / "out" / "tokenizer_config.json")), config);

  const Tokenizer again = Tokenizer::from_folder(temp.path() / "out");
  EXPECT_EQ(again.encode("hello12</s>", true).ids, tokenizer.encode("hello12</s>", true).ids);
  EXPECT_EQ(again.chat_template(), tokenizer.chat_template());
  EXPECT_EQ(again.pad_id(), 0);
}

TEST(GgufTokenizer, UnknownKindsAreRefusedByName) {
  Parts parts;
  parts.model = "t5";
  std::string message = refusal(parts);
  EXPECT_TRUE(
      contains(message, "tokenizer.ggml.model] expected \"gpt2\" (byte-level BPE), \"llama\" or \"gemma4\""))
      << message;
  EXPECT_TRUE(contains(message, "found:  \"t5\"")) << message;

  parts = {};
  parts.pre = "deepseek-llm";
  message = refusal(parts);
  EXPECT_TRUE(contains(message, "expected one of smollm, gpt-2, default, llama-bpe, qwen2")) << message;
  EXPECT_TRUE(contains(message, "found:  \"deepseek-llm\"")) << message;
}

TEST(GgufTokenizer, ListsThatDoNotFitAreRefused) {
  Parts parts;
  parts.types.pop_back();
  std::string message = refusal(parts);
  EXPECT_TRUE(contains(message, "tokenizer.ggml.token_type] expected 12 types, one a token\n  found:  11"))
      << message;

  parts = {};
  parts.merges[1] = "hel";
  message = refusal(parts);
  EXPECT_TRUE(contains(message, "tokenizer.ggml.merges[1]] expected two tokens with a space between"))
      << message;
  EXPECT_TRUE(contains(message, "found:  \"hel\"")) << message;

  parts = {};
  parts.merges[1] = "h zz";  // a token that is not in the list
  message = refusal(parts);
  EXPECT_TRUE(contains(message, "zz")) << message;

  parts = {};
  parts.eos = 12;
  message = refusal(parts);
  EXPECT_TRUE(contains(message, "tokenizer.ggml.eos_token_id] expected an id from 0 to 11\n  found:  12"))
      << message;

  parts = {};
  parts.tokens.clear();
  parts.types.clear();
  message = refusal(parts);
  EXPECT_TRUE(contains(message, "tokenizer.ggml.tokens] expected a list of tokens\n  found:  none"))
      << message;
}

}  // namespace gguf_tokenizer_test
}  // namespace hone::text
