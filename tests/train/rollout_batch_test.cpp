// The file form of a generation batch: what is written is read again, and whatever else is read is a
// UserError.
#include "train/batches/rollout_batch.h"

#include <gtest/gtest.h>

#include <functional>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"

namespace hone::train {
namespace rollout_batch_test {

RolloutBatch batch() {
  RolloutBatch out{.generation = 3, .reward_names = {"accuracy_reward", "short"}};
  out.prompts = {{.row = 4, .ids = {1, 2, 3}}, {.row = 0, .ids = {9}}};
  for (std::size_t i = 0; i < 4; ++i) {
    RolloutSample sample{.prompt = i / 2, .ids = {5, 6}, .truncated = i == 1, .text = "a \"b\"\n"};
    sample.rewards = {1.0 / 3.0, std::numeric_limits<double>::quiet_NaN()};
    sample.old_logprobs = {-0.1F, std::nextafter(-2.0F, 0.0F)};
    sample.entropies = {0.25F, 3};
    out.samples.push_back(sample);
  }
  out.slices = {{3, 0}, {1, 2}};
  return out;
}

std::string text_of(const base::Json& json) {
  return base::dump_json(json);
}

TEST(RolloutBatch, RoundTripsExactly) {
  const RolloutBatch before = batch();
  const RolloutBatch after = rollout_batch_from_json(base::parse_json(text_of(to_json(before)), "t"), "t");
  EXPECT_EQ(text_of(to_json(after)), text_of(to_json(before)));
  EXPECT_EQ(after.prompts, before.prompts);
  EXPECT_EQ(after.samples[1].old_logprobs, before.samples[1].old_logprobs);
  EXPECT_EQ(after.samples[1].rewards[0], before.samples[1].rewards[0]);
  EXPECT_TRUE(std::isnan(after.samples[1].rewards[1]));
  EXPECT_TRUE(after.samples[1].truncated);
  EXPECT_TRUE(after.samples[1].ref_logprobs.empty());
  EXPECT_EQ(after.slices, before.slices);
}

// A batch of dialogues: the model drew tokens 5 and 8, a tool gave the two between them.
RolloutBatch dialogues() {
  RolloutBatch out = batch();
  out.has_tools = true;
  for (RolloutSample& sample : out.samples) {
    sample.ids = {5, 6, 7, 8};
    sample.given = {{.begin = 1, .end = 3}};
    sample.messages = {{{"role", "assistant"}, {"content", "call"}},
                       {{"role", "tool"}, {"name", "add"}, {"content", "3"}}};
    sample.calls = {
        {.turn = 0, .name = "add", .arguments = {{"a", 1}}, .result = "3", .failed = false, .seconds = 0.5}};
  }
  return out;
}

TEST(RolloutBatch, DialoguesRoundTripExactly) {
  const RolloutBatch before = dialogues();
  const RolloutBatch after = rollout_batch_from_json(base::parse_json(text_of(to_json(before)), "t"), "t");
  EXPECT_EQ(text_of(to_json(after)), text_of(to_json(before)));
  EXPECT_NE(text_of(to_json(before)).find("hone-rollouts-2"), std::string::npos);
  EXPECT_TRUE(after.has_tools);
  EXPECT_EQ(after.samples[2].given, before.samples[2].given);
  EXPECT_EQ(after.samples[2].drawn(), 2U);
  EXPECT_EQ(after.samples[2].old_logprobs, before.samples[2].old_logprobs);
  EXPECT_EQ(after.samples[2].messages, before.samples[2].messages);
  EXPECT_EQ(after.samples[2].calls[0].result, "3");
}

void expect_refused(const std::function<void(base::Json&)>& edit, const std::string& words,
                    const RolloutBatch& of = batch()) {
  base::Json json = to_json(of);
  edit(json);
  try {
    rollout_batch_from_json(json, "line");
    FAIL() << "taken: " << json.dump();
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(RolloutBatch, WhatCannotBeIsNamed) {
  expect_refused([](base::Json& json) { json["format"] = "hone-rollouts-9"; }, "hone-rollouts-1");
  expect_refused([](base::Json& json) { json["samples"][2]["prompt"] = 7; }, "sample 2");
  expect_refused([](base::Json& json) { json["samples"][0]["rewards"] = {1.0}; }, "1 rewards");
  expect_refused([](base::Json& json) { json["samples"][0]["rewards"][0] = 1e39; }, "fp32");
  expect_refused([](base::Json& json) { json["samples"][0]["old_logprobs"] = {1.0}; }, "old_logprobs");
  expect_refused([](base::Json& json) { json["samples"][0]["ids"][0] = -1; }, "token ids");
  expect_refused([](base::Json& json) { json["slices"][0][0] = 1; }, "slices");
  expect_refused([](base::Json& json) { json.erase("samples"); }, "samples");
  for (const base::Json& given : {base::Json{{-1, 2}}, base::Json{{1, 5}}, base::Json{{2, 2}},
                                  base::Json{{1, 2}, {2, 3}}, base::Json{{1}}, base::Json{"x"}}) {
    expect_refused([&](base::Json& json) { json["samples"][0]["given"] = given; }, "given", dialogues());
  }
  expect_refused([](base::Json& json) { json["samples"][0]["given"] = {{1, 2}}; }, "old_logprobs",
                 dialogues());
}

TEST(RolloutBatch, GroupsAndTokensAreHeldAgainstTheRun) {
  EXPECT_NO_THROW(check_rollouts(batch(), 2, 10, "line"));
  EXPECT_THROW(check_rollouts(batch(), 4, 10, "line"), base::UserError);
  EXPECT_THROW(check_rollouts(batch(), 2, 9, "line"), base::UserError);
}

// Of a function of the user's: tokens that nobody drew, also the first ones, and a prompt of its own for each sample.
TEST(RolloutBatch, SamplesOfAFunctionHavePromptsOfTheirOwn) {
  RolloutBatch before = batch();
  before.slices.clear();
  before.samples[0].given = {{.begin = 0, .end = 1}};
  before.samples[0].old_logprobs = {-1};
  before.samples[0].entropies = {1};
  set_prompts(before,
              {{.row = 4, .ids = {1}},
               {.row = 4, .ids = {1, 2}},
               {.row = 0, .ids = {1, 2}},
               {.row = 0, .ids = {1, 2}}},
              2);
  ASSERT_EQ(before.prompts.size(), 3U);
  EXPECT_EQ(before.prompts[2].row, 0) << "equal prompts of two rows stay two";
  EXPECT_EQ(before.samples[2].prompt, 2U);
  EXPECT_EQ(before.samples[3].prompt, 2U);
  const base::Json json = to_json(before);
  EXPECT_EQ(json["format"], "hone-rollouts-2");
  EXPECT_EQ(json["tools"], false);
  const RolloutBatch after = rollout_batch_from_json(base::parse_json(text_of(json), "t"), "t");
  EXPECT_EQ(text_of(to_json(after)), text_of(json));
  EXPECT_FALSE(after.has_tools);
  EXPECT_EQ(after.samples[0].given, before.samples[0].given);
  EXPECT_NO_THROW(check_rollouts(after, 2, 10, "line"));
  EXPECT_THROW(check_rollouts(after, 4, 10, "line"), base::UserError);
}

// Deterministic mutations: taken, or a UserError; never anything else.
TEST(RolloutBatch, MutatedLinesAreTakenOrRefused) {
  const std::string valid = text_of(to_json(batch()));
  for (std::uint64_t round = 0; round < 4000; ++round) {
    const base::Stream random(7, base::Purpose::kDemoData, round);
    std::string text = valid;
    for (std::uint64_t e = 0; e < 1 + random.bits(0) % 3; ++e) {
      const std::size_t place = random.bits(3 * e + 1) % text.size();
      const std::uint32_t drawn = random.bits(3 * e + 2);
      if (drawn % 3 == 0) {
        text[place] = static_cast<char>(drawn >> 8);
      } else if (drawn % 3 == 1) {
        text.erase(place, drawn >> 8 & 15);
      } else {
        text.insert(place, drawn & 256 ? "-1" : "99999999999999999999");
      }
      if (text.empty()) break;
    }
    try {
      const RolloutBatch found = rollout_batch_from_json(base::parse_json(text, "mutated"), "mutated");
      check_rollouts(found, 2, 100, "mutated");
    } catch (const base::UserError&) {
    }
  }
}

}  // namespace rollout_batch_test
}  // namespace hone::train
