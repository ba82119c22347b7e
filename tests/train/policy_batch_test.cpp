// How samples are laid out and cut into passes, and which of them a step takes.
#include "train/passes/policy_batch.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "train/steps/policy_order.h"

namespace hone::train {
namespace policy_batch_test {

// Two prompts of 3 and 2 tokens with two completions each, of 1 to 4 tokens.
RolloutBatch rollouts() {
  RolloutBatch out;
  out.prompts = {{.row = 7, .ids = {1, 2, 3}}, {.row = 4, .ids = {5, 6}}};
  std::int32_t next = 10;
  for (const std::size_t length : {4U, 1U, 2U, 3U}) {
    RolloutSample sample;
    sample.prompt = out.samples.size() / 2;
    for (std::size_t t = 0; t < length; ++t) sample.ids.push_back(next++);
    out.samples.push_back(sample);
  }
  return out;
}

// What each scored token is predicted from: the whole text before it, by following prefix and segment.
std::vector<std::int64_t> text_before(const PolicyPass& pass, std::int64_t source) {
  for (const data::Segment& segment : pass.batch.segments) {
    if (source < segment.begin || source >= segment.end) continue;
    std::vector<std::int64_t> out;
    if (segment.prefix != data::kNoPrefix) {
      const data::Segment& prefix = pass.batch.segments[static_cast<std::size_t>(segment.prefix)];
      out.assign(pass.batch.ids.begin() + prefix.begin, pass.batch.ids.begin() + prefix.end);
    }
    out.insert(out.end(), pass.batch.ids.begin() + segment.begin, pass.batch.ids.begin() + source + 1);
    EXPECT_EQ(pass.batch.positions[static_cast<std::size_t>(source)],
              static_cast<std::int64_t>(out.size()) - 1);
    return out;
  }
  ADD_FAILURE() << "a source outside every segment";
  return {};
}

// What a tool answered is read, and never predicted.
TEST(PolicyBatch, GivenTokensAreReadAndNotScored) {
  RolloutBatch batch = rollouts();
  batch.samples[0].given = {{.begin = 1, .end = 3}};  // of 4
  batch.samples[2].given = {{.begin = 1, .end = 2}};  // of 2: the completion ends in an answer
  batch.samples[3].given = {{.begin = 1, .end = 2}};  // of 3
  for (const bool share : {true, false}) {
    const PolicyPass pass = make_policy_pass(batch, std::vector<std::size_t>{0, 1, 2, 3}, share);
    std::size_t at = 0;
    for (std::size_t i = 0; i < batch.samples.size(); ++i) {
      const RolloutSample& sample = batch.samples[i];
      std::size_t drawn = 0;
      for (std::size_t t = 0; t < sample.ids.size(); ++t) {
        const auto place = static_cast<std::int64_t>(t);
        const bool is_given =
            !sample.given.empty() && place >= sample.given[0].begin && place < sample.given[0].end;
        if (is_given) continue;
        ++drawn;
        ASSERT_LT(at, pass.target.size());
        EXPECT_EQ(pass.target[at], sample.ids[t]);
        EXPECT_EQ(pass.sequence[at], static_cast<std::int64_t>(i));
        std::vector<std::int64_t> before(batch.prompts[sample.prompt].ids.begin(),
                                         batch.prompts[sample.prompt].ids.end());
        before.insert(before.end(), sample.ids.begin(), sample.ids.begin() + place);
        EXPECT_EQ(text_before(pass, pass.source[at]), before) << "given tokens are part of what is read";
        ++at;
      }
      EXPECT_EQ(sample.drawn(), drawn);
    }
    EXPECT_EQ(at, pass.target.size());
  }
}

// TRL's routers see every sequence whole, but for masked completions.
TEST(PolicyBatch, RoutersCountTheTokensOfEverySequence) {
  RolloutBatch batch = rollouts();
  batch.samples[1].truncated = batch.samples[3].truncated = true;
  for (const RouterTokens routers : {RouterTokens::kAll, RouterTokens::kWithoutTruncated}) {
    std::map<std::int64_t, float> expected;
    for (const RolloutSample& sample : batch.samples) {
      for (const std::int32_t id : batch.prompts[sample.prompt].ids) expected[id] += 1;
      const bool counts = routers == RouterTokens::kAll || !sample.truncated;
      for (const std::int32_t id : sample.ids) expected[id] += counts ? 1 : 0;
    }
    for (const bool share : {true, false}) {
      const PolicyPass pass =
          make_policy_pass(batch, std::vector<std::size_t>{3, 0, 1, 2}, share, 0, routers);
      ASSERT_EQ(pass.router_weights.size(), pass.batch.ids.size());
      std::map<std::int64_t, float> counted;
      for (std::size_t t = 0; t < pass.batch.ids.size(); ++t)
        counted[pass.batch.ids[t]] += pass.router_weights[t];
      EXPECT_EQ(counted, expected) << "share " << share;
      const PolicyPass without = make_policy_pass(batch, std::vector<std::size_t>{3, 0, 1, 2}, share);
      EXPECT_TRUE(without.router_weights.empty());
      EXPECT_EQ(without.batch.ids.size() + 4U, pass.batch.ids.size()) << "last tokens";
      EXPECT_EQ(without.target, pass.target);
    }
  }
}

TEST(PolicyBatch, EveryTokenIsPredictedFromItsPromptAndWhatCameBefore) {
  const RolloutBatch batch = rollouts();
  for (const bool share : {true, false}) {
    const PolicyPass pass = make_policy_pass(batch, std::vector<std::size_t>{3, 0, 1, 2}, share);
    ASSERT_EQ(pass.samples.size(), 4U);
    std::size_t at = 0;
    for (std::size_t s = 0; s < pass.samples.size(); ++s) {
      const RolloutSample& sample = batch.samples[pass.samples[s]];
      const auto& prompt = batch.prompts[sample.prompt].ids;
      std::vector<std::int64_t> before(prompt.begin(), prompt.end());
      for (const std::int32_t id : sample.ids) {
        EXPECT_EQ(pass.sequence[at], static_cast<std::int64_t>(s));
        EXPECT_EQ(pass.target[at], id);
        EXPECT_EQ(text_before(pass, pass.source[at]), before) << "share " << share;
        before.push_back(id);
        ++at;
      }
    }
    EXPECT_EQ(at, pass.target.size());
    // Shared: 3 + 2 prompt tokens and 3 + 0 + 1 + 2 of completions; repeated: each prompt twice.
    EXPECT_EQ(pass.batch.ids.size(), share ? 11U : 16U);
  }
}

TEST(PolicyBatch, ASegmentsKeyDoesNotDependOnThePass) {
  const RolloutBatch batch = rollouts();
  const PolicyPass alone = make_policy_pass(batch, std::vector<std::size_t>{3}, true);
  const PolicyPass all = make_policy_pass(batch, std::vector<std::size_t>{0, 1, 2, 3}, true);
  EXPECT_EQ(alone.batch.segments.at(0).row, 2);  // the prompt: its group's first sample
  EXPECT_EQ(alone.batch.segments.at(1).row, 3);
  EXPECT_EQ(all.batch.segments.back().row, 3);
}

TEST(PolicyBatch, PassesHoldWholeGroupsWhereTheyFit) {
  RolloutBatch batch;
  batch.prompts.resize(3);
  for (const std::size_t prompt : {0U, 0U, 0U, 1U, 1U, 2U, 2U, 2U, 2U, 2U}) {
    RolloutSample sample;
    sample.prompt = prompt;
    batch.samples.push_back(sample);
  }
  std::vector<std::size_t> all(batch.samples.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  using Passes = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(compose_passes(batch, all, {.sequences = 5}), (Passes{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}}));
  EXPECT_EQ(compose_passes(batch, all, {.sequences = 4}), (Passes{{0, 1, 2}, {3, 4}, {5, 6, 7, 8}, {9}}));
  EXPECT_EQ(compose_passes(batch, std::vector<std::size_t>{1, 8}, {.sequences = 4}), (Passes{{1, 8}}));
  // Prompts of no tokens and completions of none: a limit of tokens that one pass keeps and another breaks.
  for (RolloutPrompt& prompt : batch.prompts) prompt.ids = {1, 2, 3, 4};
  for (RolloutSample& sample : batch.samples) sample.ids = {5, 6};
  EXPECT_EQ(compose_passes(batch, all, {.sequences = 9, .tokens = 18}),
            (Passes{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}}));  // 4 + 6 + 4 + 4; 4 + 10
  EXPECT_EQ(compose_passes(batch, all, {.sequences = 9, .tokens = 10}),
            (Passes{{0, 1, 2}, {3, 4}, {5, 6, 7}, {8, 9}}));
  EXPECT_TRUE(compose_passes(batch, {}, {.sequences = 4}).empty());
}

PolicyOrderOptions order_options() {
  return {.prompts = 11,
          .prompts_per_generation = 2,
          .steps_per_generation = 4,
          .num_iterations = 2,
          .accumulation = 2};
}

TEST(PolicyOrder, AGenerationIsUsedSliceBySliceAndAgain) {
  const PolicyOrder order(order_options());
  EXPECT_FALSE(order.on_policy());
  EXPECT_EQ(order.steps_per_epoch(), 20);  // 5 generations x 2 x 4 slices / 2
  const auto second = order.step_slices(1), third = order.step_slices(2), fifth = order.step_slices(4);
  EXPECT_EQ(second[1].slice, 3);
  EXPECT_EQ(second[1].iteration, 0);
  EXPECT_EQ(third[0].slice, 0);
  EXPECT_EQ(third[0].iteration, 1);
  EXPECT_EQ(fifth[0].generation, 1);
  EXPECT_FALSE(order.is_last_use(0, 2));
  EXPECT_TRUE(order.is_last_use(0, 3));
  EXPECT_EQ(order.step_slices(20)[0].generation, 5);  // the second epoch
}

TEST(PolicyOrder, EachEpochShowsEachPromptOnceAndInItsOwnOrder) {
  const PolicyOrder order(order_options());
  std::vector<std::int64_t> first, second;
  for (std::int64_t g = 0; g < 5; ++g) {
    for (const std::int64_t row : order.prompts(g)) first.push_back(row);
    for (const std::int64_t row : order.prompts(g + 5)) second.push_back(row);
  }
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 10U);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), 10U);
  EXPECT_NE(first, second);
  EXPECT_EQ(order.prompts(0),
            std::vector<std::int64_t>(first.begin(), first.begin() + 2));  // any can be asked for
}

TEST(PolicyOrder, OnPolicyWhenEveryUseFallsIntoItsStep) {
  PolicyOrderOptions options = order_options();
  options.num_iterations = 1;
  options.accumulation = 4;
  EXPECT_TRUE(PolicyOrder(options).on_policy());
  options.accumulation = 8;
  EXPECT_TRUE(PolicyOrder(options).on_policy());
  options.accumulation = 6;
  EXPECT_FALSE(PolicyOrder(options).on_policy());
}

TEST(PolicyOrder, TooFewPromptsAreNamed) {
  PolicyOrderOptions options = order_options();
  options.prompts = 1;
  EXPECT_THROW(PolicyOrder{options}, base::UserError);
}

}  // namespace policy_batch_test
}  // namespace hone::train
