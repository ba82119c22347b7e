// Tokenizer files made to harm, and mutations of a whole one: loaded and used, or a UserError.
#include <gtest/gtest.h>

#include "children.h"
#include "helpers.h"
#include "text/tokenizer.h"

namespace hone::text {
namespace tokenizer_fuzz_test {

using base::Json;

const base::fs::path kTiny = base::fs::path(HONE_FIXTURES) / "text" / "tiny";

Json tiny() {
  return base::parse_json(base::read_text(kTiny / "tokenizer.json"), "tokenizer.json");
}

// Loads a tokenizer.json and does with it what a run does.
void use(const std::string& json, const std::string& config = "") {
  const Tokenizer tokenizer = Tokenizer::from_json(json, config, "m");
  const std::string text =
      "Hello <|im_start|> wörld aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! 12 345\n\t漢字 \xF0\x9F\x98\x80";
  const Encoding encoding = tokenizer.encode(text, true, true);
  tokenizer.decode(encoding.ids, false);
  tokenizer.decode(encoding.ids, true);
  const std::int32_t far[] = {0, 1, 2'147'483'647};
  tokenizer.decode(far, false);
  tokenizer.id_to_token(1'000'000);
  tokenizer.token_to_id("a");
  tokenizer.vocab_size();
}

std::string outcome(const Json& json) {
  return outcome_in_child([&] { use(base::dump_json(json)); });
}

Json with(const char* pointer, const Json& value) {
  Json out = tiny();
  out[Json::json_pointer(pointer)] = value;
  return out;
}

Json split_by(const std::string& pattern) {
  return with(
      "/pre_tokenizer",
      {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
}

Json added(const Json& id, const std::string& content) {
  return with("/added_tokens/0", {{"id", id},
                                  {"content", content},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}});
}

// Each of `times` steps makes `letters` of every a.
Json multiplied(int times, std::size_t letters) {
  Json steps = Json::array();
  for (int i = 0; i < times; ++i) {
    steps.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(letters, 'a')}});
  }
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

TEST(HostileTokenizer, RegularExpressionsWithoutEnd) {
  const std::string retries = outcome(split_by("(?:(?:a|a)*)*$b"));
  EXPECT_TRUE(retries.empty() || contains(retries, "[m/tokenizer.json]")) << retries;
  const std::string search = outcome(split_by("(a+)+\\1b"));
  EXPECT_TRUE(contains(search, "retry-limit-in-match over")) << search;
  for (const std::string& pattern :
       {std::string(20'000, '('), std::string("(?:(?:(?:a{1,1000}){1,1000}){1,1000}){1,1000}"),
        std::string("\\g<0>"), std::string("(?<a>\\g<a>a)"), std::string("(?=)*"),
        std::string("[[:^word:]-\\x{7fffffff}]"), std::string("a{100000}{100000}"), std::string("\\"),
        std::string("(?i)ſt{2,100000}")}) {
    outcome(split_by(pattern));
  }
}

TEST(HostileTokenizer, TextThatGrowsInTheNormalizer) {
  // by 64: past the limit of memory in a few steps, long before that of time
  const std::string message = outcome(with("/normalizer", multiplied(60, 64)));
  EXPECT_TRUE(contains(message, "[m/tokenizer.json] expected a tokenizer that can be applied to a text"))
      << message;
  EXPECT_TRUE(contains(message, "it needs more than 64 MB of memory")) << message;
}

// Stored padding is never applied.
TEST(HostileTokenizer, PaddingWithoutEnd) {
  const std::string message = outcome(with("/padding", {{"strategy", {{"Fixed", 999'999'999'999}}},
                                                        {"direction", "Right"},
                                                        {"pad_to_multiple_of", nullptr},
                                                        {"pad_id", 0},
                                                        {"pad_type_id", 0},
                                                        {"pad_token", "x"}}));
  EXPECT_EQ(message, "");
}

TEST(HostileTokenizer, IdsThatNoModelHas) {
  Json far = tiny();
  far["model"]["vocab"]["a"] = 4'294'967'295U;
  EXPECT_TRUE(contains(outcome(far), "expected token ids below 2^31"));
  outcome(added(4'294'967'295U, "Hello"));  // its own vocabulary goes before
  EXPECT_FALSE(outcome(added(4'294'967'296U, "Hello")).empty());
  EXPECT_FALSE(outcome(added(-1, "Hello")).empty());
  outcome(added(0, std::string(1'000'000, 'x')));
  outcome(added(7, ""));
}

TEST(HostileTokenizer, NestedWithoutEnd) {
  std::string nested = R"({"type": "Lowercase"})";
  for (int i = 0; i < 20'000; ++i) nested = R"({"type":"Sequence","normalizers":[)" + nested + "]}";
  std::string json = base::dump_json(with("/normalizer", "HERE"));
  json.replace(json.find("\"HERE\""), 6, nested);
  const std::string message = outcome_in_child([&] { use(json); });
  EXPECT_TRUE(contains(message, "recursion limit exceeded")) << message;
  const std::string open(1'000'000, '[');
  EXPECT_FALSE(outcome_in_child([&] { use(open); }).empty());
  EXPECT_FALSE(outcome_in_child([&] { use(base::dump_json(tiny()), open); }).empty());
}

TEST(HostileTokenizer, MergesAndConfigsThatDoNotFit) {
  EXPECT_FALSE(outcome(with("/model/merges", Json::array({"no such", "pair"}))).empty());
  EXPECT_FALSE(outcome(with("/model/merges", Json::array({Json::array({"a"})}))).empty());
  EXPECT_FALSE(outcome(with("/model/merges", 7)).empty());
  for (const char* config :
       {"7", "[]", R"({"eos_token": 7})", R"({"chat_template": [{"name": 7, "template": 7}]})",
        R"({"chat_template": {"default": "x"}})", R"({"bos_token": {"content": []}})",
        R"({"eos_token": "\u0000"})"}) {
    outcome_in_child([&] { use(base::dump_json(tiny()), config); });
  }
}

void fuzz_files(double seconds) {
  // A vocabulary of thousands would take nearly all mutations: what is around it is as large.
  const std::string whole = base::dump_json(tiny());
  Json small = tiny();
  small["model"]["merges"] = Json::array();
  small["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", "\\s+(?!\\S)|\\S+"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
  small["normalizer"] = multiplied(2, 2);
  const std::vector<std::string> corpus = {whole, base::dump_json(small),
                                           base::dump_json(with("/normalizer", multiplied(3, 2))),
                                           base::read_text(kTiny / "tokenizer_config.json")};
  fuzz_in_children(
      seconds,
      [&](std::uint64_t round) {
        fuzz::Random random(round);
        return fuzz::mutated_json_text(corpus[round % corpus.size()], random);
      },
      [&](const std::string& text) {
        const bool config = text.find("\"model\"") == std::string::npos;
        use(config ? whole : text, config ? text : "");
      });
}

TEST(TokenizerFuzz, FilesForSeconds) {
  fuzz_files(fuzz::seconds(2));
}

TEST(TokenizerFuzz, SlowFilesForAMinute) {
  fuzz_files(fuzz::seconds(60));
}

}  // namespace tokenizer_fuzz_test
}  // namespace hone::text
