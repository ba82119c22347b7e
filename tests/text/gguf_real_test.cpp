// Real tokenizers through GGUF: llama.cpp's own vocabularies against the tokens that it tests itself with
// (which are the original tokenizers'), and tokenizer.json written as a GGUF and read back. Fetched by
// tests/parity/fetch_tokenizers; without the files the tests are skipped, and so not run.
#include <gtest/gtest.h>

#include <sstream>

#include "base/gguf/gguf_write.h"
#include "helpers.h"
#include "strings.h"
#include "text/gguf/gguf_tokenizer.h"
#include "text/gguf/gguf_vocabulary.h"

namespace hone::text {
namespace gguf_real_test {

const base::fs::path kRoot = HONE_SOURCE_DIR;
const base::fs::path kVocabularies = kRoot / "third_party/llama-cpp/vocabs";

Tokenizer through_gguf(const TokenizerFiles& files, std::int64_t rows, const std::string& architecture) {
  const TempFolder temp;
  std::vector<base::GgufEntry> entries = gguf_vocabulary(files, rows, {});
  entries.insert(entries.begin(), {"general.architecture", architecture});
  base::GgufWriter(temp.path() / "again.gguf", entries, {}).finish();
  return Tokenizer::from_gguf(base::GgufFile::open(temp.path() / "again.gguf"));
}

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (std::size_t next = text.find(by); next != std::string::npos; next = text.find(by, at)) {
    out.push_back(text.substr(at, next - at));
    at = next + by.size();
  }
  out.push_back(text.substr(at));
  return out;
}

std::vector<std::int32_t> ids_in(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::int32_t> out;
  for (std::int32_t id = 0; in >> id;) out.push_back(id);
  return out;
}

bool has_combining_accent(const std::string& text) {
  return text.find("\u0300") != std::string::npos || text.find("\u0301") != std::string::npos;
}

void compare(const std::string& name) {
  const base::fs::path path = kVocabularies / ("ggml-vocab-" + name + ".gguf");
  if (!base::fs::exists(path)) GTEST_SKIP() << path << " is absent; tests/parity/fetch_tokenizers fetches it";
  const base::GgufFile file = base::GgufFile::open(path);
  const Tokenizer read = Tokenizer::from_gguf(file);
  const std::vector<std::string> texts = split(slurp(path.string() + ".inp"), "\n__ggml_vocab_test__\n");
  const std::vector<std::string> lines = split(slurp(path.string() + ".out"), "\n");
  ASSERT_GE(lines.size(), texts.size());
  ASSERT_GT(texts.size(), 40U);
  std::size_t compared = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (name == "qwen35" && has_combining_accent(texts[i])) continue;  // composed by Qwen, not by llama.cpp
    EXPECT_EQ(read.encode(texts[i], false).ids, ids_in(lines[i])) << name << ": " << texts[i];
    ++compared;
  }
  EXPECT_EQ(compared, texts.size() - (name == "qwen35" ? 3 : 0));

  const std::int64_t rows = std::ssize(*file.strings("tokenizer.ggml.tokens"));
  const Tokenizer again =
      through_gguf(tokenizer_files_from_gguf(file), rows, file.require_string("general.architecture"));
  for (const std::string& text : golden_strings())
    ASSERT_EQ(again.encode(text, true).ids, read.encode(text, true).ids) << name << ": " << text;
}

TEST(GgufReal, LlamaSentencePiece) {
  compare("llama-spm");
}
TEST(GgufReal, Phi3) {
  compare("phi-3");
}
TEST(GgufReal, SlowGemma4) {
  compare("gemma-4");
}
TEST(GgufReal, SlowLlama3) {
  compare("llama-bpe");
}
TEST(GgufReal, SlowQwen2) {
  compare("qwen2");
}
TEST(GgufReal, SlowQwen35) {
  compare("qwen35");
}
TEST(GgufReal, Gpt2) {
  compare("gpt-2");
}
TEST(GgufReal, Refact) {
  compare("refact");
}
TEST(GgufReal, Starcoder) {
  compare("starcoder");
}

// A folder's tokenizer.json as a GGUF: the same tokens for 4,111 strings. Their texts are compared with special
// tokens: added tokens that look special, as "<|fim_prefix|>", become control tokens (text/gguf/gguf_vocabulary.h).
void keep_tokens(const std::string& name, const std::string& architecture, std::int64_t rows) {
  const base::fs::path folder = kRoot / "third_party/tokenizers" / name;
  if (!base::fs::exists(folder))
    GTEST_SKIP() << folder << " is absent; tests/parity/fetch_tokenizers fetches it";
  // tokenizer.json by itself: Llama's class reads a leading space in another way than llama.cpp does
  TokenizerFiles files = read_tokenizer_folder(folder);
  nlohmann::json config = nlohmann::json::parse(files.files[kTokenizerConfig]);
  config["tokenizer_class"] = "TokenizersBackend";
  const Tokenizer own =
      Tokenizer::from_json(files.files[kTokenizerJson], config.dump(), (folder / "tokenizer.json").string());
  const Tokenizer read = through_gguf(files, rows, architecture);
  for (const std::string& text : golden_strings()) {
    const std::vector<std::int32_t> ids = own.encode(text, true).ids;
    ASSERT_EQ(read.encode(text, true).ids, ids) << text;
    ASSERT_EQ(read.decode(ids, false), own.decode(ids, false)) << text;
  }
}

TEST(GgufReal, Llama2KeepsItsTokens) {
  keep_tokens("llama2", "llama", 32000);
}
TEST(GgufReal, SlowGemma3KeepsItsTokens) {
  keep_tokens("gemma3", "gemma3", 262208);
}
TEST(GgufReal, SlowGpt4oKeepsItsTokens) {
  keep_tokens("gpt4o", "phi3", 200064);
}
TEST(GgufReal, SlowLlama3KeepsItsTokens) {
  keep_tokens("llama3", "llama", 128256);
}
TEST(GgufReal, SlowQwen3KeepsItsTokens) {
  keep_tokens("qwen3", "qwen3", 151936);
}

}  // namespace gguf_real_test
}  // namespace hone::text
