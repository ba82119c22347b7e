#include "commands/decoding.h"

#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace hone::commands {
namespace decoding_test {

using Ids = std::vector<std::int32_t>;

// Byte-level, with few merges: most characters beyond ASCII are several tokens.
const text::Tokenizer& tokenizer() {
  static const auto out =
      text::Tokenizer::from_folder(base::fs::path(HONE_FIXTURES) / "parity" / "tiny_llama");
  return out;
}

std::vector<std::string> pieces_of(const Ids& ids) {
  TextStream stream(tokenizer());
  std::vector<std::string> out;
  for (std::size_t i = 1; i <= ids.size(); ++i) out.push_back(stream.next(std::span(ids).first(i)));
  out.push_back(stream.rest(ids));
  return out;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += piece;
  return out;
}

bool begins_a_character(const std::string& piece) {
  return piece.empty() || (static_cast<unsigned char>(piece[0]) & 0xC0U) != 0x80U;
}

TEST(OpenModel, TellsWhereNothingIsGuessed) {
  const auto said = [](const std::string& model, const std::string& drafts) {
    config::DecodingPlan plan;
    plan.model_name_or_path = (base::fs::path(HONE_FIXTURES) / "parity" / model).string();
    plan.drafts = drafts;
    testing::internal::CaptureStderr();
    open_model(plan);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(said("tiny_lfm2_bias", "auto").find("drafts: nothing is guessed"), std::string::npos);
  EXPECT_EQ(said("tiny_lfm2_bias", "off"), "");
  EXPECT_EQ(said("tiny_llama", "auto"), "");
}

TEST(TextStream, ItsPiecesAreWholeCharactersAndTogetherTheText) {
  const std::string text = " Naïve façade: 日本語, 🙂👩‍🔬, ending in é";
  const Ids ids = tokenizer().encode(text, false).ids;
  ASSERT_GT(ids.size(), 30U);
  const std::vector<std::string> pieces = pieces_of(ids);
  EXPECT_EQ(joined(pieces), text);
  EXPECT_EQ(pieces.back(), "");
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(begins_a_character(piece)) << piece;
    EXPECT_EQ(piece.find("\xEF\xBF\xBD"), std::string::npos) << piece;
  }
}

TEST(TextStream, WhatIsLeftIncompleteComesAtTheEnd) {
  Ids ids = tokenizer().encode("ok 🙂", false).ids;
  ids.pop_back();
  const std::vector<std::string> pieces = pieces_of(ids);
  EXPECT_EQ(joined(pieces), tokenizer().decode(ids, true));
  EXPECT_TRUE(pieces.back().ends_with("\xEF\xBF\xBD"));
}

TEST(TextStream, SpecialTokensAreLeftOut) {
  const Ids ids = tokenizer().encode("a<|im_end|>b", false).ids;
  EXPECT_EQ(joined(pieces_of(ids)), "ab");
}

TEST(TextStream, NoTokensNoText) {
  EXPECT_EQ(joined(pieces_of({})), "");
}

// What a model draws at random are bytes that are no characters: no piece is lost, and none waits for ever.
TEST(TextStream, GoesOnThroughBytesThatAreNoCharacters) {
  const base::Stream stream(5, base::Purpose::kDemoData, 0);
  const std::string mark = " end of it";
  const Ids end = tokenizer().encode(mark, false).ids;
  for (std::uint64_t round = 0; round < 200; ++round) {
    Ids ids;
    for (std::uint64_t i = 0; i < 20; ++i)
      ids.push_back(static_cast<std::int32_t>(4 + stream.bits(round * 20 + i) % 370));
    ids.insert(ids.end(), end.begin(), end.end());
    const std::vector<std::string> pieces = pieces_of(ids);
    EXPECT_TRUE(joined(pieces).ends_with(mark)) << joined(pieces);
    EXPECT_EQ(pieces.back(), "");
  }
}

TEST(EndsWithStop, FindsAStringThatTheLastTokenIsPartOf) {
  const std::vector<std::string> stops = {"END", "\n\n"};
  const auto stops_at = [&](const std::string& text) {
    const Ids ids = tokenizer().encode(text, false).ids;
    for (std::size_t i = 1; i <= ids.size(); ++i) {
      if (text::ends_with_stop(std::span(ids).first(i), stops, tokenizer())) {
        return tokenizer().decode(std::span(ids).first(i), false);
      }
    }
    return std::string("never");
  };
  EXPECT_EQ(stops_at("a long beginning, and then the END of it all"), "a long beginning, and then the END");
  EXPECT_EQ(stops_at("line\n\nnext"), "line\n\n");
  EXPECT_EQ(stops_at("EN D"), "never");
  EXPECT_FALSE(text::ends_with_stop({}, stops, tokenizer()));
}

TEST(EndsWithStop, KnowsSpecialTokensAndCharactersOfManyTokens) {
  const Ids ids = tokenizer().encode("Hello 🙂<|im_end|>", false).ids;
  EXPECT_TRUE(text::ends_with_stop(ids, {"<|im_end|>"}, tokenizer()));
  EXPECT_TRUE(text::ends_with_stop(std::span(ids).first(ids.size() - 1), {"🙂"}, tokenizer()));
  EXPECT_FALSE(text::ends_with_stop(std::span(ids).first(ids.size() - 2), {"🙂"}, tokenizer()));
}

TEST(GenerateOptions, TakeTheStopsOfModelAndTokenizer) {
  model::ModelConfig config;
  config.eos_token_ids = {7};
  config::SamplingPlan plan;
  plan.min_p = 0.25;
  plan.repetition_penalty = 1.5;
  rollout::GenerateOptions options = generate_options(plan, config, tokenizer());
  EXPECT_EQ(options.stop_ids, (std::vector<std::int64_t>{7, 2}));
  EXPECT_EQ(options.sampler.min_p, 0.25);
  EXPECT_EQ(options.sampler.repetition_penalty, 1.5);
  EXPECT_FALSE(options.stops);
  plan.stop_strings = {"x"};
  options = generate_options(plan, config, tokenizer());
  EXPECT_TRUE(options.stops(tokenizer().encode("ax", false).ids));
}

TEST(EncodePrompt, TheTemplateReadsItsVariables) {
  train::OpenedText text{
      .tokenizer = text::Tokenizer::from_folder(base::fs::path(HONE_FIXTURES) / "parity" / "tiny_llama"),
      .chat_template = nullptr};
  text.chat_template = std::make_unique<text::ChatTemplate>(
      "{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %} no{% endif %}",
      text::SpecialTokens{}, "test");
  config::GeneratePlan plan;
  EXPECT_EQ(tokenizer().decode(encode_prompt("Hi", text, true, template_variables(plan)), true), "Hi");
  plan.chat_template_kwargs = R"({"enable_thinking": false})";
  EXPECT_EQ(tokenizer().decode(encode_prompt("Hi", text, true, template_variables(plan)), true), "Hi no");
}

TEST(StopAtTurnEnd, TheTemplatesOwnTokenEndsAnAnswer) {
  train::OpenedText text{
      .tokenizer = text::Tokenizer::from_folder(base::fs::path(HONE_FIXTURES) / "parity" / "tiny_llama"),
      .chat_template = nullptr};
  model::ModelConfig config;
  config.vocab_size = tokenizer().vocab_size();
  const auto stops = [&](const char* source) {
    text.chat_template = std::make_unique<text::ChatTemplate>(source, text::SpecialTokens{}, "test");
    rollout::GenerateOptions options;
    options.stop_ids = {7};
    stop_at_turn_end(options, text, config);
    return options.stop_ids;
  };
  const std::int64_t end = tokenizer().token_to_id("<|im_end|>").value();
  const char* source = "{% for m in messages %}{{ m.content }}<|im_end|>\n{% endfor %}";
  EXPECT_EQ(stops(source), (std::vector<std::int64_t>{7, end}));
  EXPECT_EQ(stops("{{ raise_exception('no') }}"), (std::vector<std::int64_t>{7}));
  config.vocab_size = end;  // the model cannot produce it
  EXPECT_EQ(stops(source), (std::vector<std::int64_t>{7}));
}

}  // namespace decoding_test
}  // namespace hone::commands
