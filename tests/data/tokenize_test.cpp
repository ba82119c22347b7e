#include "data/forms/tokenize.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/records/packing.h"
#include "data/records/preview.h"
#include "list_of.h"

namespace hone::data {
namespace tokenize_test {

// The tiny tokenizer: BOS <|bos|>, EOS <|im_end|>, a ChatML template with {% generation %} tags, 384 tokens.
const text::Tokenizer& tiny() {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny");
  return tokenizer;
}

text::ChatTemplate template_of(const std::string& source) {
  return {source, tiny().special(), "test template"};
}

const text::ChatTemplate& chatml() {
  static const text::ChatTemplate chat_template = template_of(tiny().chat_template().value());
  return chat_template;
}

Rows rows_of(std::string_view text) {
  return parse_rows(text, "d.jsonl", "text");
}

Dataset tokenize(std::string_view text, const TokenizeOptions& options = {}) {
  return tokenize_rows(rows_of(text), tiny(), &chatml(), options);
}

std::string message_of(std::string_view text, const TokenizeOptions& options,
                       const text::ChatTemplate* chat_template = &chatml()) {
  try {
    tokenize_rows(rows_of(text), tiny(), chat_template, options);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nin " << message;
}

// ---- against TRL

TokenizeOptions options_of(const nlohmann::json& recorded) {
  TokenizeOptions out;
  if (recorded.contains("max_length")) {
    out.max_length = recorded["max_length"].is_null() ? 0 : recorded["max_length"].get<std::int64_t>();
  }
  if (recorded.contains("completion_only_loss"))
    out.completion_only_loss = recorded["completion_only_loss"].get<bool>();
  out.assistant_only_loss = recorded.value("assistant_only_loss", false);
  out.packing = recorded.value("packing", false);
  return out;
}

// A packed row as TRL's columns.
nlohmann::json columns_of(const Dataset& dataset, std::span<const std::uint32_t> row, bool packing) {
  nlohmann::json ids = nlohmann::json::array();
  nlohmann::json labels = nlohmann::json::array();
  nlohmann::json lengths = nlohmann::json::array();
  for (const std::uint32_t member : row) {
    const RecordView example = dataset.records[member];
    for (std::size_t i = 0; i < example.ids.size(); ++i) {
      ids.push_back(example.ids[i]);
      labels.push_back(example.supervised[i] != 0 ? example.ids[i] : kIgnore);
    }
    lengths.push_back(example.ids.size());
  }
  nlohmann::json out = {{"input_ids", ids}, {"labels", labels}};
  if (packing) out["seq_lengths"] = lengths;
  return out;
}

TEST(Tokenize, EqualsTrlsPreparedDatasets) {
  std::ifstream file(HONE_FIXTURES "/data/tokenise.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  ASSERT_EQ(recorded["cases"].size(), 17U);
  for (const auto& run : recorded["cases"]) {
    const TokenizeOptions options = options_of(run["options"]);
    const Rows rows =
        read_rows(base::fs::path(HONE_FIXTURES "/data/rows") / run["file"].get<std::string>(), "text");
    const Dataset dataset = tokenize_rows(rows, tiny(), &chatml(), options);
    const auto packed =
        options.packing ? pack_bfd(dataset.records, options.max_length) : no_packing(dataset.records);
    ASSERT_EQ(packed.size(), run["rows"].size()) << run["file"] << run["options"];
    for (std::size_t i = 0; i < packed.size(); ++i) {
      EXPECT_EQ(columns_of(dataset, packed.members(i), options.packing), run["rows"][i])
          << run["file"] << run["options"] << " row " << i;
    }
  }
}

TEST(Tokenize, TheResultDoesNotDependOnThreads) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "{\"text\": \"row " + std::to_string(i) + "\"}\n";
  const Dataset one = tokenize(text, {.threads = 1});
  const Dataset three = tokenize(text, {.threads = 3});
  ASSERT_EQ(one.records.size(), 500U);
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(list_of(one.records[i].ids), list_of(three.records[i].ids));
    EXPECT_EQ(one.records[i].row, static_cast<std::int64_t>(i));
  }
}

// ---- what is counted

TEST(DataFacts, CutsAndEnds) {
  const Dataset dataset =
      tokenize("{\"text\": \"ab\"}\n{\"text\": \"The quick brown fox jumps\"}\n", {.max_length = 5});
  const DataFacts& facts = dataset.facts;
  EXPECT_EQ(facts.rows, 2);
  EXPECT_EQ(facts.kept, 2);
  EXPECT_EQ(facts.rows_cut, 1);
  EXPECT_EQ(facts.tokens_cut, facts.longest - 5);
  EXPECT_EQ(facts.rows_losing_eos, 1);
  EXPECT_EQ(facts.rows_without_eos_target, 1);
  EXPECT_EQ(facts.tokens, 4 + 5);             // <|bos|> a b <|im_end|>, and five
  EXPECT_EQ(facts.supervised_tokens, 3 + 4);  // a first token is never a target
  EXPECT_DOUBLE_EQ(facts.mean_length, 4.5);
}

TEST(DataFacts, LongRowsAreLeftOutWhereTheyAreToBe) {
  const std::string_view rows = "{\"text\": \"The quick brown fox jumps\"}\n{\"text\": \"ab\"}\n";
  const Dataset dataset = tokenize(rows, {.max_length = 5, .drop_long = true});
  const DataFacts& facts = dataset.facts;
  ASSERT_EQ(dataset.records.size(), 1);
  EXPECT_EQ(dataset.records[0].row, 1);
  EXPECT_EQ(facts.rows_too_long, 1);
  EXPECT_EQ(facts.rows_cut, 0);
  EXPECT_EQ(facts.kept, 1);
  EXPECT_EQ(facts.tokens, 4);
  EXPECT_EQ(facts.supervised_lost, facts.longest - 1);
  expect_parts(message_of(rows, {.max_length = 3, .drop_long = true}),
               {"2 of them are longer", "truncation_mode drop"});
}

constexpr std::string_view kLongPrompt =
    "{\"prompt\": \"a prompt that fills all of it\", \"completion\": \"b\"}\n{\"prompt\": \"a\", "
    "\"completion\": \"b\"}\n";

TEST(DataFacts, RowsWithoutATargetAreDropped) {
  const Dataset dataset = tokenize(kLongPrompt, {.max_length = 6});
  EXPECT_EQ(dataset.facts.rows, 2);
  EXPECT_EQ(dataset.facts.kept, 1);
  EXPECT_EQ(dataset.facts.rows_without_target, 1);
  EXPECT_EQ(dataset.records[0].row, 1);
  EXPECT_EQ(dataset.facts.rows_without_eos_target, 0);
}

TEST(DataFacts, PackingKeepsThemAsTrlDoes) {
  const Dataset dataset = tokenize(kLongPrompt, {.max_length = 6, .packing = true});
  EXPECT_EQ(dataset.facts.kept, 2);
  EXPECT_EQ(dataset.facts.rows_without_target, 1);
}

TEST(DataFacts, BoundaryMismatches) {
  const Dataset dataset = tokenize(
      "{\"prompt\": \"the answ\", \"completion\": \"er it\"}\n"
      "{\"prompt\": \"the answer\", \"completion\": \" it\"}\n");
  EXPECT_EQ(dataset.facts.prompt_boundary_mismatches, 1);
}

TEST(DataFacts, EndOfTurnIsTheLastSpecialTokenOfAConversation) {
  // This template closes turns with <|endoftext|>, which is not the tokenizer's EOS.
  const auto other = template_of("{% for m in messages %}{{ m.content }}<|endoftext|>\n{% endfor %}");
  const Rows rows =
      rows_of(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(tokenize_rows(rows, tiny(), &other, {}).facts.rows_without_eos_target, 0);
  const DataFacts cut = tokenize_rows(rows, tiny(), &other, {.max_length = 4}).facts;
  EXPECT_EQ(cut.rows_losing_eos, 1);
  const auto none = template_of("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(tokenize_rows(rows, tiny(), &none, {}).facts.rows_without_eos_target, 1);
}

TEST(DataFacts, WhatTheCutTakesOfTheTargets) {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += R"({"prompt": "q", "completion": ")" + std::string(i < 5 ? 300 : 3, 'x') + "\"}\n";
  const DataFacts all = tokenize(text).facts;
  EXPECT_EQ(all.supervised_lost, 0);
  EXPECT_EQ(all.length_keeping_99, 0);
  EXPECT_EQ(all.supervised_before_cut, all.supervised_tokens);
  EXPECT_EQ(all.rows_with_bos, 20);
  EXPECT_EQ(all.rows_with_two_bos, 0);
  const DataFacts cut = tokenize(text, {.max_length = 20}).facts;
  EXPECT_EQ(cut.supervised_before_cut, all.supervised_before_cut);
  EXPECT_EQ(cut.supervised_lost, all.supervised_tokens - cut.supervised_tokens);
  EXPECT_GT(cut.supervised_lost, 0);
  EXPECT_EQ(cut.rows_never_ending, 0);
  const DataFacts kept = tokenize(text, {.max_length = cut.length_keeping_99}).facts;
  EXPECT_LE(static_cast<double>(kept.supervised_lost), 0.01 * static_cast<double>(all.supervised_tokens));
  EXPECT_LE(cut.length_keeping_99, all.longest);
}

TEST(DataFacts, RowsThatTheCutEmptied) {
  const DataFacts cut = tokenize(kLongPrompt, {.max_length = 6}).facts;
  EXPECT_EQ(cut.rows_without_target, 1);
  EXPECT_EQ(cut.rows_emptied_by_cut, 1);
  EXPECT_EQ(tokenize(R"({"text": "<|bos|>twice"})").facts.rows_with_two_bos, 1);
}

TEST(DataFacts, AnAssistantMaskWithoutTheEndOfTurnIsCounted) {
  const auto short_mask = template_of(
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>{% endfor %}");
  const Rows rows = rows_of(R"({"messages": [{"role": "assistant", "content": "hello"}]})");
  EXPECT_EQ(
      tokenize_rows(rows, tiny(), &short_mask, {.assistant_only_loss = true}).facts.rows_without_eos_target,
      1);
}

TEST(Preview, RunsOfEqualFlags) {
  const Dataset dataset = tokenize(R"({"prompt": "What is 12?", "completion": " 42"})");
  const std::vector<PreviewPiece> pieces = preview(dataset.records[0], tiny());
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].text, "<|bos|>What is 12?");
  EXPECT_FALSE(pieces[0].supervised);
  EXPECT_EQ(pieces[1].text, " 42<|im_end|>");
  EXPECT_TRUE(pieces[1].supervised);
}

TEST(Preview, TheFirstTokenIsNeverATarget) {
  const std::vector<PreviewPiece> pieces = preview(tokenize("{\"text\": \"ab\"}").records[0], tiny());
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].text, "<|bos|>");
  EXPECT_FALSE(pieces[0].supervised);
  EXPECT_TRUE(preview({}, tiny()).empty());
}

TEST(Preview, ACharacterIsInOnePiece) {
  const std::string mark = "\xef\xbb\xbf";
  const std::vector<std::int32_t> ids = tiny().encode("a" + mark + "b", false).ids;
  ASSERT_EQ(ids.size(), 5U);  // a token for each byte of the mark
  for (std::size_t first = 1; first < ids.size(); ++first) {
    std::string text;
    std::vector<std::uint8_t> supervised(ids.size());
    std::fill(supervised.begin() + static_cast<std::ptrdiff_t>(first), supervised.end(), 1);
    const std::vector<PreviewPiece> pieces = preview({.ids = ids, .supervised = supervised}, tiny());
    ASSERT_EQ(pieces.size(), 2U);
    for (const PreviewPiece& piece : pieces) text += piece.text;
    EXPECT_EQ(text, "a" + mark + "b");
    EXPECT_EQ(pieces[0].text, first == 4 ? "a" + mark : "a") << first;
  }
  // The first token is a byte of a character, and never a target.
  const std::vector<std::int32_t> head = tiny().encode(mark + "b", false).ids;
  const std::vector<PreviewPiece> one =
      preview({.ids = head, .supervised = std::vector<std::uint8_t>(head.size(), 1)}, tiny());
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].text, mark + "b");
  EXPECT_TRUE(one[0].supervised);
}

// ---- bad input

constexpr std::string_view kChat =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";

TEST(BadData, NoChatTemplate) {
  expect_parts(
      message_of(kChat, {}, nullptr),
      {"[d.jsonl]", "a tokenizer with a chat template, since the rows are messages", "chat_template_path"});
}

TEST(BadData, NoGenerationTags) {
  const auto plain = template_of("{% for m in messages %}{{ m.content }}{% endfor %}");
  expect_parts(message_of(kChat, {.assistant_only_loss = true}, &plain),
               {"[option assistant_only_loss]", "{% generation %} tags", "a template without them"});
}

TEST(BadData, AssistantOnlyLossOfStrings) {
  expect_parts(message_of("{\"text\": \"a\"}", {.assistant_only_loss = true}),
               {"[option assistant_only_loss]", "expected rows of messages", "d.jsonl, which has text only"});
}

TEST(BadData, ARowWithoutAnAssistantTurn) {
  const std::string text = std::string(kChat) + "\n" + R"({"messages": [{"role": "user", "content": "a"}]})";
  expect_parts(message_of(text, {.assistant_only_loss = true}),
               {"[d.jsonl:2]", "none inside {% generation %}"});
}

TEST(BadData, TheTemplateRefusesARow) {
  const std::string text = std::string(kChat) + "\n" + R"({"messages": [{"role": "poet", "content": "a"}]})";
  expect_parts(message_of(text, {}), {"[d.jsonl:2, ", "Unknown role: poet"});
}

TEST(BadData, AnIdOutsideTheEmbedding) {
  expect_parts(message_of("{\"text\": \"x\"}\n{\"text\": \"<think>\"}", {.vocab_size = 100}),
               {"[d.jsonl:2]", "token ids below 100", "DATA-10", "token '<think>'"});
  EXPECT_EQ(message_of("{\"text\": \"<think>\"}", {.vocab_size = tiny().vocab_size()}), "no error");
}

TEST(BadData, TheFirstBadRowIsNamedWhateverTheThreads) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += i % 100 == 70 ? "{\"text\": \"<think>\"}\n" : "{\"text\": \"x\"}\n";
  for (int i = 0; i < 5; ++i) {
    expect_parts(message_of(text, {.vocab_size = 100, .threads = 4}), {"[d.jsonl:71]"});
  }
}

TEST(BadData, NoTargetLeft) {
  expect_parts(
      message_of("{\"prompt\": \"a prompt that fills it\", \"completion\": \"b\"}", {.max_length = 3}),
      {"[d.jsonl]", "at least one token to train on (DATA-01)", "none in 1 row; 1 of them is longer",
       "raise max_length"});
}

TEST(BadData, NoEndOfSequenceToken) {
  const auto bare =
      text::Tokenizer::from_json(base::read_text(HONE_FIXTURES "/text/tiny/tokenizer.json"), "", "bare");
  try {
    tokenize_rows(rows_of("{\"text\": \"a\"}"), bare, nullptr, {});
    FAIL() << "no error";
  } catch (const base::UserError& error) {
    expect_parts(error.what(),
                 {"[tokenizer]", "an end-of-sequence token", "no eos_token", "option eos_token"});
  }
}

}  // namespace tokenize_test
}  // namespace hone::data
