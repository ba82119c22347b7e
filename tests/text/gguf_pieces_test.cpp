#include "text/gguf/gguf_pieces.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/gguf/gguf_write.h"
#include "children.h"
#include "helpers.h"
#include "strings.h"
#include "text/gguf/gguf_tokenizer.h"
#include "text/gguf/gguf_vocabulary.h"

namespace hone::text {
namespace gguf_pieces_test {

using base::Json;
using Ids = std::vector<std::int32_t>;

// "▁he" (9) has a higher score than "el" (10), which has a higher one than "ll" (11).
const std::vector<std::string> kPieces = {"<unk>", "<s>", "</s>", "<0x0A>",  "\u2581",   "h",  "e", "l", "o",
                                          "he",    "el",  "ll",   "\u2581h", "\u2581he", "  ", "lo"};
const std::vector<std::int32_t> kTypes = {2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1};
const std::vector<double> kScores = {0, 0, 0, 0, -9, -9, -9, -9, -9, -2, -3, -4, -1, -5, 0, -6};

std::vector<bool> normal_ones() {
  std::vector<bool> out;
  for (const std::int32_t type : kTypes) out.push_back(type == 1);
  return out;
}

TEST(GgufPieces, AHigherScoreMergesFirst) {
  const std::vector<Merge> expected = {{"\u2581", "h"},  {"h", "e"},       {"e", "l"}, {"l", "l"},
                                       {"\u2581h", "e"}, {"\u2581", "he"}, {"l", "o"}};
  EXPECT_EQ(merges_of_pieces(kPieces, kScores, normal_ones(), "m"), expected);
}

TEST(GgufPieces, ALongPieceIsRefused) {
  const std::vector<std::string> tokens = {std::string(1025, 'a')};
  const std::vector<double> scores = {0};
  const std::string message = user_error([&] { merges_of_pieces(tokens, scores, {true}, "m.gguf"); });
  EXPECT_TRUE(contains(message, "m.gguf, token 0] expected a piece of at most 1024 bytes")) << message;
}

TEST(GgufPieces, ScoresStandForMergesThatNameEveryPair) {
  const std::vector<Merge> all = merges_of_pieces(kPieces, kScores, normal_ones(), "m");
  const auto scores = scores_of_merges(kPieces, all, normal_ones(), "m");
  ASSERT_TRUE(scores);
  EXPECT_EQ(
      merges_of_pieces(kPieces, std::vector<double>(scores->begin(), scores->end()), normal_ones(), "m"),
      all);
  std::vector<Merge> some = all;
  some.pop_back();
  EXPECT_FALSE(scores_of_merges(kPieces, some, normal_ones(), "m"));
  std::vector<Merge> apart = all;  // both merges of "▁he" have to be next to each other
  std::swap(apart[5], apart[6]);
  EXPECT_FALSE(scores_of_merges(kPieces, apart, normal_ones(), "m"));
}

// Llama 2's and Phi-3's runs of spaces all have the score -1e9; their merges alternate.
TEST(GgufPieces, PiecesOfOneScoreKeepOneScore) {
  const std::vector<std::string> pieces = {
      "a", "b", "ab", "\u2581", "\u2581\u2581", "\u2581\u2581\u2581", "\u2581\u2581\u2581\u2581"};
  const std::vector<double> own = {-9, -9, -1, -9, -5, -5, -5};
  const std::vector<bool> normal(pieces.size(), true);
  const std::vector<Merge> all = merges_of_pieces(pieces, own, normal, "m");
  ASSERT_EQ(all.size(), 7U);
  EXPECT_EQ(all[2], (Merge{"\u2581\u2581", "\u2581\u2581"}));
  EXPECT_EQ(all[3], (Merge{"\u2581\u2581", "\u2581"}));
  const auto scores = scores_of_merges(pieces, all, normal, "m");
  ASSERT_TRUE(scores);
  EXPECT_GT((*scores)[2], (*scores)[4]);
  EXPECT_EQ((*scores)[5], (*scores)[6]);
  EXPECT_EQ(merges_of_pieces(pieces, std::vector<double>(scores->begin(), scores->end()), normal, "m"), all);
  std::vector<Merge> other = all;
  std::swap(other[2], other[3]);
  EXPECT_FALSE(scores_of_merges(pieces, other, normal, "m"));
}

std::vector<base::GgufEntry> metadata(const std::string& architecture, std::optional<bool> prefix = {}) {
  std::vector<base::GgufEntry> out = {
      {"general.architecture", architecture},
      {"tokenizer.ggml.model", std::string("llama")},
      {"tokenizer.ggml.tokens", kPieces},
      {"tokenizer.ggml.token_type", kTypes},
      {"tokenizer.ggml.scores", std::vector<float>(kScores.begin(), kScores.end())},
      {"tokenizer.ggml.bos_token_id", std::uint32_t{1}},
      {"tokenizer.ggml.eos_token_id", std::uint32_t{2}},
      {"tokenizer.ggml.unknown_token_id", std::uint32_t{0}}};
  if (prefix) out.push_back({"tokenizer.ggml.add_space_prefix", *prefix});
  return out;
}

std::vector<base::GgufEntry> gemma4() {
  std::vector<base::GgufEntry> out = metadata("gemma4");
  out[1].value = std::string("gemma4");
  out.erase(out.begin() + 4);  // the scores
  out.push_back({"tokenizer.ggml.merges",
                 std::vector<std::string>{"l l", "\u2581 h", "h e", "\u2581h e", "l o", "e l"}});
  out.push_back({"tokenizer.ggml.add_bos_token", true});
  return out;
}

TokenizerFiles files_of(const std::vector<base::GgufEntry>& entries) {
  const TempFolder temp;
  const base::fs::path path = temp.path() / "m.gguf";
  base::GgufWriter(path, entries, {}).finish();
  return tokenizer_files_from_gguf(base::GgufFile::open(path));
}

Tokenizer load(const std::vector<base::GgufEntry>& entries) {
  const TempFolder temp;
  const base::fs::path path = temp.path() / "m.gguf";
  base::GgufWriter(path, entries, {}).finish();
  return Tokenizer::from_gguf(base::GgufFile::open(path));
}

// What llama.cpp gives for the same files (tests/parity/check_gguf_tokenizers.py asks it for real ones).
TEST(GgufPieces, EachArchitectureBeginsATextInItsWay) {
  const Tokenizer llama = load(metadata("llama"));
  EXPECT_EQ(llama.encode("hello", true).ids, (Ids{1, 12, 10, 15}));
  EXPECT_EQ(llama.encode("hello</s>hello\n", false).ids, (Ids{12, 10, 15, 2, 12, 10, 15, 3}));
  EXPECT_EQ(llama.decode(llama.encode("hello hello", false).ids, true), "hello hello");
  const Tokenizer gemma = load(metadata("gemma3"));
  EXPECT_EQ(gemma.encode("hello", false).ids, (Ids{9, 11, 8}));
  const Tokenizer bare = load(metadata("llama", false));
  EXPECT_EQ(bare.encode("hello h", false).ids, (Ids{9, 11, 8, 12}));
  EXPECT_EQ(bare.decode(bare.encode("hello h", false).ids, true), "hello h");
}

// As AutoTokenizer of transformers 5.23.0 reads it, and as Mistral 7B v0.3's tokenizer.json is.
TEST(GgufPieces, OneSpaceBeforeTheWholeText) {
  std::vector<base::GgufEntry> entries = metadata("llama");
  entries.push_back({kPrependScheme, std::string("first")});
  EXPECT_EQ(load(entries).encode("hello</s>hello\n", false).ids, (Ids{12, 10, 15, 2, 9, 11, 8, 3}));
  const std::vector<base::GgufEntry> again = gguf_vocabulary(files_of(entries), std::ssize(kPieces), {});
  EXPECT_EQ(again.back().key, kPrependScheme);
  entries = metadata("llama", false);  // nothing before the text goes before
  entries.push_back({kPrependScheme, std::string("first")});
  EXPECT_EQ(load(entries).encode("hello", false).ids, (Ids{9, 11, 8}));
}

// As transformers 5 saves a tokenizer of Llama 2.
TEST(GgufPieces, ASpaceBeforeEveryPartThatHasNone) {
  TokenizerFiles files = files_of(metadata("llama"));
  Json tokenizer = Json::parse(files.files[kTokenizerJson]);
  tokenizer["normalizer"] = nullptr;
  tokenizer["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", false}};
  files.files[kTokenizerJson] = tokenizer.dump();
  const Tokenizer own = Tokenizer::from_json(tokenizer.dump(), "", "own");
  std::vector<base::GgufEntry> entries = gguf_vocabulary(files, std::ssize(kPieces), {});
  entries.insert(entries.begin(), {"general.architecture", std::string("llama")});
  const Tokenizer read = load(entries);
  for (const char* text : {"hello</s>hello", " hello</s> hello", "</s>h h"})
    EXPECT_EQ(read.encode(text, true).ids, own.encode(text, true).ids) << text;
  EXPECT_EQ(read.encode("hello</s> hello", false).ids, (Ids{12, 10, 15, 2, 12, 10, 15}));
}

TEST(GgufPieces, SpecialTokensThatAFileDoesNotNameAreLlamas) {
  std::vector<base::GgufEntry> entries = metadata("llama");
  entries.resize(entries.size() - 3);
  const Tokenizer llama = load(entries);
  EXPECT_EQ(llama.encode("hello", true).ids, (Ids{1, 12, 10, 15}));
  EXPECT_EQ(llama.eos_id(), 2);
  EXPECT_EQ(llama.special().unk, "<unk>");
  EXPECT_EQ(llama.encode("z", false).ids, (Ids{4, 0}));
  entries = gemma4();
  std::erase_if(entries, [](const base::GgufEntry& entry) { return entry.key.ends_with("_token_id"); });
  EXPECT_FALSE(load(entries).eos_id());
}

TEST(GgufPieces, RowsThatOnlyPadTheEmbeddingAreLeftOut) {
  std::vector<base::GgufEntry> entries = metadata("phi3");
  std::get<std::vector<std::string>>(entries[2].value).push_back("[PAD16]");
  std::get<std::vector<std::int32_t>>(entries[3].value).push_back(2);  // as Phi-3's converter calls them
  std::get<std::vector<float>>(entries[4].value).push_back(-1000);
  EXPECT_EQ(load(entries).vocab_size(), std::ssize(kPieces));
}

TEST(GgufPieces, ARunOfSpacesIsAPieceInGemma) {
  const Tokenizer gemma = load(metadata("gemma3"));
  EXPECT_EQ(gemma.encode("h  h", false).ids, (Ids{5, 14, 5}));
  EXPECT_EQ(gemma.encode("h \u2581h", false).ids, (Ids{5, 14, 5}));
  EXPECT_EQ(gemma.id_to_token(14), "\u2581\u2581");
  EXPECT_EQ(load(metadata("llama")).id_to_token(14), "  ");
}

TEST(GgufPieces, TokensOfPhi3TakeTheSpacesBehindThem) {
  EXPECT_EQ(load(metadata("phi3")).encode("hello</s> \nhello", false).ids, (Ids{12, 10, 15, 2, 12, 10, 15}));
  EXPECT_EQ(load(metadata("phi3")).encode("<s>\n", false).ids, (Ids{1, 4, 3}));
  std::vector<base::GgufEntry> entries = metadata("phi3");
  std::get<std::vector<std::int32_t>>(entries[3].value)[2] = 4;  // the real file's </s> is user-defined
  EXPECT_EQ(load(entries).encode("hello</s> \nhello", false).ids, (Ids{12, 10, 15, 2, 12, 10, 15}));
}

TEST(GgufPieces, Gemma4HasMergesAndNoBos) {
  EXPECT_EQ(load(gemma4()).encode("hello hel", true).ids, (Ids{9, 11, 8, 13, 7}));
  std::vector<base::GgufEntry> again = gguf_vocabulary(files_of(gemma4()), std::ssize(kPieces), {});
  EXPECT_EQ(std::get<std::string>(again.front().value), "gemma4");
  again.insert(again.begin(), {"general.architecture", std::string("gemma4")});
  EXPECT_EQ(files_of(again).files.at(kTokenizerJson), files_of(gemma4()).files.at(kTokenizerJson));
  std::vector<base::GgufEntry> none = gemma4();
  none.erase(none.end() - 2);
  EXPECT_TRUE(contains(user_error([&] { load(none); }), "tokenizer.ggml.merges] expected a list of merges"));
}

TEST(GgufPieces, AGgufIsWrittenBack) {
  for (const char* architecture : {"llama", "phi3", "gemma2"}) {
    const TokenizerFiles files = files_of(metadata(architecture));
    std::vector<base::GgufEntry> again = gguf_vocabulary(files, std::ssize(kPieces), {});
    for (const base::GgufEntry& entry : again) {
      if (entry.key == "tokenizer.ggml.tokens") {
        EXPECT_EQ(std::get<std::vector<std::string>>(entry.value), kPieces);
      }
      if (entry.key == "tokenizer.ggml.token_type") {
        EXPECT_EQ(std::get<std::vector<std::int32_t>>(entry.value), kTypes);
      }
      if (entry.key == "tokenizer.ggml.add_space_prefix") {
        EXPECT_EQ(std::get<bool>(entry.value), std::string(architecture) != "gemma2");
      }
    }
    again.insert(again.begin(), {"general.architecture", std::string(architecture)});
    EXPECT_EQ(files_of(again).files.at(kTokenizerJson), files.files.at(kTokenizerJson)) << architecture;
  }
}

TEST(GgufPieces, MergesThatNoScoresStandForAreRefused) {
  TokenizerFiles files = files_of(metadata("llama"));
  Json tokenizer = Json::parse(files.files[kTokenizerJson]);
  tokenizer["model"]["merges"].erase(0);
  files.files[kTokenizerJson] = tokenizer.dump();
  const std::string message = user_error([&] { gguf_vocabulary(files, std::ssize(kPieces), {}); });
  EXPECT_TRUE(contains(message, "merges that scores of tokens stand for")) << message;
  EXPECT_TRUE(contains(message, "convert_hf_to_gguf.py")) << message;
}

TEST(GgufPieces, ScoresMustBeThereAndOrderSomething) {
  std::vector<base::GgufEntry> entries = metadata("llama");
  entries[4].value = std::vector<float>{1, 2};
  std::string message = user_error([&] { load(entries); });
  EXPECT_TRUE(contains(message, "tokenizer.ggml.scores] expected 16 scores, one a token\n  found:  2"))
      << message;
  entries[4].value = std::vector<float>(kPieces.size(), -1000.0F);
  message = user_error([&] { load(entries); });
  EXPECT_TRUE(contains(message, "found:  one score for all tokens")) << message;
  std::vector<float> scores(kScores.begin(), kScores.end());
  scores[5] = std::numeric_limits<float>::quiet_NaN();
  entries[4].value = scores;
  message = user_error([&] { load(entries); });
  EXPECT_TRUE(contains(message, "token 5] expected a score that is a number")) << message;
  entries.erase(entries.begin() + 4);
  message = user_error([&] { load(entries); });
  EXPECT_TRUE(contains(message, "found:  none")) << message;
}

TEST(GgufPieces, AVocabularyThatCostsTooMuchIsRefused) {
  const std::vector<std::string> tokens(300, std::string(1024, 'a'));
  const std::vector<double> scores(300);
  const std::string message =
      user_error([&] { merges_of_pieces(tokens, scores, std::vector<bool>(300, true), "m.gguf"); });
  EXPECT_TRUE(contains(message, "m.gguf, token 256] expected a vocabulary of short pieces")) << message;
}

void use(const std::string& bytes) {
  const TempFolder temp;
  const base::GgufFile file = base::GgufFile::open(temp.write("m.gguf", bytes));
  const TokenizerFiles files = tokenizer_files_from_gguf(file);
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  tokenizer.decode(tokenizer.encode(" hello  h\u2581<s>\n\xC3\xA9", true).ids, true);
  gguf_vocabulary(files, 40, {});
}

void fuzz_files(double seconds) {
  std::vector<std::string> corpus;
  for (const auto& entries :
       {metadata("llama"), metadata("phi3", true), metadata("gemma3", false), gemma4()}) {
    const TempFolder temp;
    base::GgufWriter(temp.path() / "m.gguf", entries, {}).finish();
    corpus.push_back(slurp(temp.path() / "m.gguf"));
  }
  for (const std::string& whole : corpus) use(whole);
  fuzz_in_children(
      seconds,
      [&](std::uint64_t round) {
        fuzz::Random random(round);
        return fuzz::mutated_bytes(corpus[round % corpus.size()], random);
      },
      use);
}

TEST(GgufPiecesFuzz, FilesForSeconds) {
  fuzz_files(fuzz::seconds(2));
}

TEST(GgufPiecesFuzz, SlowFilesForAMinute) {
  fuzz_files(fuzz::seconds(60));
}

}  // namespace gguf_pieces_test
}  // namespace hone::text
