#include "text/gguf/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "helpers.h"
#include "text/gguf/gguf_tokenizer.h"

namespace hone::text {
namespace gguf_vocabulary_test {

using base::Json;
using Entries = std::map<std::string, base::GgufWritten>;

Json byte_level_json(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", regex}};
}

// Five tokens and two added ones; splits as GPT-2 does.
Json tokenizer_json() {
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 5}, {"content", "<|end|>"}, {"special", false}, {"normalized", false}},
            {{"id", 6}, {"content", "<tool>"}, {"special", false}, {"normalized", false}},
            {{"id", 0}, {"content", "<s>"}, {"special", true}, {"normalized", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level_json(true)},
          {"post_processor", nullptr},
          {"decoder", byte_level_json(true)},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"<s>", 0}, {"h", 1}, {"e", 2}, {"he", 3}, {"l", 4}}},
            {"merges", Json::array({Json::array({"h", "e"})})}}}};
}

TokenizerFiles files_of(const Json& tokenizer,
                        const Json& config = {{"eos_token", "<|end|>"}, {"bos_token", "<s>"}}) {
  TokenizerFiles out;
  out.where = "model";
  out.files[kTokenizerJson] = base::dump_json(tokenizer);
  out.files[kTokenizerConfig] = base::dump_json(config);
  read_tokenizer_config(out);
  return out;
}

Entries entries_of(const TokenizerFiles& files, std::int64_t rows = 9, const SpecialIds& fallback = {}) {
  Entries out;
  for (base::GgufEntry& entry : gguf_vocabulary(files, rows, fallback))
    out[entry.key] = std::move(entry.value);
  return out;
}

template <typename T>
T value(const Entries& entries, const std::string& key) {
  const auto it = entries.find("tokenizer.ggml." + key);
  if (it != entries.end() && std::holds_alternative<T>(it->second)) return std::get<T>(it->second);
  ADD_FAILURE() << key;
  return {};
}

TEST(GgufVocabulary, TokensTypesAndMerges) {
  const Entries found = entries_of(files_of(tokenizer_json()));
  EXPECT_EQ(value<std::string>(found, "model"), "gpt2");
  EXPECT_EQ(value<std::string>(found, "pre"), "gpt-2");
  EXPECT_EQ(value<std::vector<std::string>>(found, "tokens"),
            (std::vector<std::string>{"<s>", "h", "e", "he", "l", "<|end|>", "<tool>", "[PAD7]", "[PAD8]"}));
  EXPECT_EQ(value<std::vector<std::int32_t>>(found, "token_type"),
            (std::vector<std::int32_t>{3, 1, 1, 1, 1, 3, 4, 5, 5}));
  EXPECT_EQ(value<std::vector<std::string>>(found, "merges"), std::vector<std::string>{"h e"});
  EXPECT_EQ(value<std::uint32_t>(found, "bos_token_id"), 0U);
  EXPECT_EQ(value<std::uint32_t>(found, "eos_token_id"), 5U);
  EXPECT_FALSE(value<bool>(found, "add_bos_token"));
  EXPECT_FALSE(found.contains("tokenizer.ggml.padding_token_id"));
  EXPECT_FALSE(found.contains("tokenizer.chat_template"));
}

TEST(GgufVocabulary, OldMergesTemplateAndIdsOfTheConfig) {
  Json tokenizer = tokenizer_json();
  tokenizer["model"]["merges"] = {"h e"};
  TokenizerFiles files = files_of(tokenizer, {{"chat_template", "{{ messages }}"}});
  const Entries found = entries_of(files, 7, {.bos = 0, .eos = 5, .pad = 40});
  EXPECT_EQ(value<std::vector<std::string>>(found, "merges"), std::vector<std::string>{"h e"});
  EXPECT_EQ(value<std::uint32_t>(found, "eos_token_id"), 5U);
  EXPECT_FALSE(found.contains("tokenizer.ggml.padding_token_id"));  // beyond the embedding
  EXPECT_EQ(std::get<std::string>(found.at("tokenizer.chat_template")), "{{ messages }}");
}

TEST(GgufVocabulary, BosAndEosAreAddedAsThePostProcessorDoes) {
  const Json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const char* token) {
    return Json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  };
  Json tokenizer = tokenizer_json();
  Json single = Json::array({special("<s>"), sequence, special("<|end|>")});
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}};
  EXPECT_TRUE(value<bool>(entries_of(files_of(tokenizer)), "add_bos_token"));
  EXPECT_TRUE(value<bool>(entries_of(files_of(tokenizer)), "add_eos_token"));
  single = Json::array({special("<s>"), sequence});
  tokenizer["post_processor"] = {
      {"type", "Sequence"},
      {"processors", {byte_level_json(false), {{"type", "TemplateProcessing"}, {"single", single}}}}};
  EXPECT_TRUE(value<bool>(entries_of(files_of(tokenizer)), "add_bos_token"));
  EXPECT_FALSE(value<bool>(entries_of(files_of(tokenizer)), "add_eos_token"));
}

// An answer ends at "<|end|>", a conversation at "<s>" in this template, as in Phi-3's.
TEST(GgufVocabulary, TheTokenThatEndsAnAnswerTravels) {
  const std::string chat =
      "{% for m in messages %}{{ m.content + '<|end|>\n' }}{% endfor %}"
      "{% if not add_generation_prompt %}{{ eos_token }}{% endif %}";
  const TokenizerFiles files = files_of(tokenizer_json(), {{"eos_token", "<s>"}, {"chat_template", chat}});
  const std::vector<base::GgufEntry> entries = gguf_vocabulary(files, 7, {});
  EXPECT_EQ(value<std::uint32_t>(entries_of(files), "eot_token_id"), 5U);
  std::vector<base::GgufEntry> whole = entries;
  whole.insert(whole.begin(), {"general.architecture", std::string("phi3")});
  const TempFolder temp;
  base::GgufWriter(temp.path() / "m.gguf", whole, {}).finish();
  const Tokenizer read = Tokenizer::from_gguf(base::GgufFile::open(temp.path() / "m.gguf"));
  EXPECT_EQ(read.eot_id(), 5);
  EXPECT_EQ(read.eos_id(), 0);
  EXPECT_EQ(read.special().named.at("eot_token"), "<|end|>");  // transformers 5 gives it to templates
  read.save(temp.path() / "folder");
  EXPECT_EQ(Tokenizer::from_folder(temp.path() / "folder").eot_id(), 5);
  // None where EOS ends the answer, where nothing special does, and for a template of another kind.
  for (const char* other :
       {"{% for m in messages %}{{ m.content + eos_token }}{% endfor %}",
        "{% for m in messages %}{{ m.content + 'he' }}{% endfor %}", "{{ documents[0].x }}"}) {
    const Entries found =
        entries_of(files_of(tokenizer_json(), {{"eos_token", "<s>"}, {"chat_template", other}}));
    EXPECT_FALSE(found.contains("tokenizer.ggml.eot_token_id")) << other;
  }
}

// The files that hone makes of a GGUF give that GGUF again, whatever its pre-tokenizer.
TEST(GgufVocabulary, RoundTripsThroughAGguf) {
  for (const std::string pre :
       {"smollm", "gpt-2", "llama-bpe", "qwen2", "qwen35", "tekken", "gpt-4o", "dbrx", "olmo"}) {
    const TempFolder temp;
    const std::vector<std::string> tokens = {"<s>", "</s>", "h", "e", "he", "<u>", "[PAD6]"};
    GgufWriter gguf;
    gguf.text("general.architecture", "llama").text("tokenizer.ggml.model", "gpt2");
    gguf.text("tokenizer.ggml.pre", pre).texts("tokenizer.ggml.tokens", tokens);
    gguf.i32s("tokenizer.ggml.token_type", {3, 3, 1, 1, 1, 4, 5}).texts("tokenizer.ggml.merges", {"h e"});
    gguf.u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eos_token_id", 1);
    gguf.boolean("tokenizer.ggml.add_bos_token", pre == "llama-bpe").text("tokenizer.chat_template", "t");
    const auto files = tokenizer_files_from_gguf(base::GgufFile::open(temp.write("m.gguf", gguf.bytes())));
    const Entries found = entries_of(files, 7);
    EXPECT_EQ(value<std::string>(found, "pre"), pre);
    EXPECT_EQ(value<std::vector<std::string>>(found, "tokens"), tokens);
    EXPECT_EQ(value<std::vector<std::int32_t>>(found, "token_type"),
              (std::vector<std::int32_t>{3, 3, 1, 1, 1, 4, 5}));
    EXPECT_EQ(value<bool>(found, "add_bos_token"), pre == "llama-bpe");
    EXPECT_EQ(value<std::uint32_t>(found, "eos_token_id"), 1U);
    EXPECT_EQ(std::get<std::string>(found.at("tokenizer.chat_template")), "t");
  }
}

std::string refusal(const Json& tokenizer, std::int64_t rows = 9) {
  const TokenizerFiles files = files_of(tokenizer);
  return user_error([&] { gguf_vocabulary(files, rows, {}); });
}

TEST(GgufVocabulary, WhatAGgufCannotSayIsRefused) {
  Json tokenizer = tokenizer_json();
  tokenizer["model"]["byte_fallback"] = true;  // its pre-tokenizer is not SentencePiece's
  EXPECT_TRUE(contains(refusal(tokenizer), "one of SentencePiece's: Metaspace")) << refusal(tokenizer);
  tokenizer = tokenizer_json();
  tokenizer["model"]["type"] = "WordPiece";
  EXPECT_TRUE(contains(refusal(tokenizer), "expected BPE, byte-level or SentencePiece's"));
  tokenizer = tokenizer_json();
  tokenizer["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_TRUE(contains(refusal(tokenizer), "smollm, gpt-2, default, llama-bpe, qwen2")) << refusal(tokenizer);
  tokenizer = tokenizer_json();
  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_TRUE(contains(refusal(tokenizer), "pre_tokenizer"));
  EXPECT_TRUE(contains(refusal(tokenizer_json(), 6), "an id below the 6 rows of the embedding"));
  tokenizer = tokenizer_json();
  tokenizer["model"]["vocab"]["x"] = 4;
  EXPECT_TRUE(contains(refusal(tokenizer), "one token of id 4"));
  tokenizer = tokenizer_json();
  tokenizer["added_tokens"][0].erase("content");
  EXPECT_TRUE(contains(refusal(tokenizer), "as the tokenizers library writes it"));
}

}  // namespace gguf_vocabulary_test
}  // namespace hone::text
