// Dynamic sampling: which groups a generation batch keeps, and which rows replace the others.
#include "train/steps/group_filter.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace hone::train {
namespace group_filter_test {

constexpr std::int64_t kSamples = 3, kPrompts = 40;

// The completions of a row have equal rewards where `is_dead` says so.
class Rows final : public RolloutSource {
 public:
  explicit Rows(std::function<bool(std::int64_t)> is_dead) : is_dead_(std::move(is_dead)) {}

  const std::vector<std::string>& reward_names() const override { return names_; }
  SourcedRollouts make(const RolloutRequest& request) override {
    requests.push_back(request);
    SourcedRollouts out;
    out.batch.generation = request.generation;
    out.batch.reward_names = names_;
    out.facts.reward_names = names_;
    out.rollout_seconds = 2;
    out.counts = {{"spec/drafted", 5}};
    for (std::size_t p = 0; p < request.rows.size(); ++p) {
      const std::int64_t row = request.rows[p];
      const std::size_t place = request.places.empty() ? p : request.places[p];
      out.batch.prompts.push_back({.row = row, .ids = {static_cast<std::int32_t>(row)}});
      for (std::int32_t i = 0; i < kSamples; ++i) {
        RolloutSample sample{.prompt = p, .ids = {static_cast<std::int32_t>(place), i}};
        sample.rewards = {is_dead_(row) ? 1.0 : i % 2, 0.5};
        out.batch.samples.push_back(sample);
        out.facts.completions.push_back({.prompt = std::to_string(row)});
      }
    }
    return out;
  }

  std::vector<RolloutRequest> requests;

 private:
  std::function<bool(std::int64_t)> is_dead_;
  std::vector<std::string> names_ = {"right", "flat"};
};

SourcedRollouts sampled(Rows& rows, std::int64_t most = 10, std::int64_t generation = 4,
                        config::PolicyPlan policy = {}) {
  policy.filter_groups = true;
  policy.max_num_gen_batches = most;
  return sample_live_groups(
      rows, {.generation = generation, .rows = {0, 1, 2, 3, 4, 5, 6, 7}, .num_generations = kSamples}, policy,
      42, kPrompts);
}

std::vector<std::int64_t> rows_of(const SourcedRollouts& made) {
  std::vector<std::int64_t> out;
  EXPECT_EQ(made.batch.samples.size(), made.batch.prompts.size() * kSamples);
  for (std::size_t i = 0; i < made.batch.samples.size(); ++i) {
    const RolloutPrompt& prompt = made.batch.prompts[made.batch.samples[i].prompt];
    EXPECT_EQ(made.batch.samples[i].prompt, i / kSamples);
    EXPECT_EQ(made.batch.samples[i].ids[1], static_cast<std::int32_t>(i % kSamples));
    EXPECT_EQ(made.facts.completions[i].prompt, std::to_string(prompt.row));
    if (i % kSamples == 0) out.push_back(prompt.row);
  }
  return out;
}

double metric(const SourcedRollouts& made, const std::string& name) {
  for (const auto& [key, value] : made.metrics)
    if (key == name) return value;
  ADD_FAILURE() << name;
  return -1;
}

TEST(GroupFilter, ABatchWhoseGroupsAllLiveIsSampledOnce) {
  Rows rows([](std::int64_t) { return false; });
  const SourcedRollouts made = sampled(rows);
  EXPECT_EQ(rows_of(made), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rows.requests.size(), 1U);
  EXPECT_EQ(metric(made, "filtered_groups"), 0);
  EXPECT_EQ(metric(made, "num_gen_batches"), 1);
}

TEST(GroupFilter, DeadGroupsAreReplacedByThoseOfOtherRows) {
  Rows rows([](std::int64_t row) { return row % 2 == 0; });
  const SourcedRollouts made = sampled(rows);
  const std::vector<std::int64_t> kept = rows_of(made);
  ASSERT_EQ(kept.size(), 8U);
  EXPECT_EQ(std::vector(kept.begin(), kept.begin() + 4), (std::vector<std::int64_t>{1, 3, 5, 7}));
  for (const std::int64_t row : kept) EXPECT_EQ(row % 2, 1);
  // No row twice, and no random number twice.
  std::set<std::int64_t> asked;
  std::set<std::size_t> places;
  std::size_t count = 0;
  ASSERT_GE(rows.requests.size(), 2U);
  for (const RolloutRequest& one : rows.requests) {
    EXPECT_LE(one.rows.size(), 8U);
    EXPECT_EQ(one.generation, 4);
    asked.insert(one.rows.begin(), one.rows.end());
    for (std::size_t i = 0; i < one.rows.size(); ++i) places.insert(one.places.empty() ? i : one.places[i]);
    count += one.rows.size();
  }
  EXPECT_EQ(asked.size(), count);
  EXPECT_EQ(places.size(), count);
  EXPECT_EQ(rows.requests[1].rows.size(), 8U) << "half of the groups live: twice what is missing";
  EXPECT_DOUBLE_EQ(metric(made, "filtered_groups"),
                   static_cast<double>(count - 8) / static_cast<double>(count));
  EXPECT_EQ(metric(made, "num_gen_batches"), static_cast<double>(rows.requests.size()));
  EXPECT_EQ(made.rollout_seconds, 2.0 * static_cast<double>(rows.requests.size()));
  EXPECT_EQ(made.counts.front().second, 5.0 * static_cast<double>(rows.requests.size()));
}

// The same batch of a resumed run, and another one.
TEST(GroupFilter, RowsAreKeyedByTheBatch) {
  const auto rows_at = [](std::int64_t generation) {
    Rows rows([](std::int64_t row) { return row % 2 == 0; });
    return rows_of(sampled(rows, 10, generation));
  };
  EXPECT_EQ(rows_at(4), rows_at(4));
  EXPECT_NE(rows_at(4), rows_at(5));
}

TEST(GroupFilter, WhereTheBoundOrTheRowsEndDeadGroupsFillTheBatch) {
  Rows bounded([](std::int64_t row) { return row != 3; });
  const SourcedRollouts two = sampled(bounded, 2);
  EXPECT_EQ(bounded.requests.size(), 2U);
  EXPECT_EQ(rows_of(two), (std::vector<std::int64_t>{3, 0, 1, 2, 4, 5, 6, 7}));
  EXPECT_DOUBLE_EQ(metric(two, "filtered_groups"), 0.5);

  Rows all([](std::int64_t) { return true; });
  const SourcedRollouts none = sampled(all, 1000);
  EXPECT_EQ(all.requests.size(), static_cast<std::size_t>(kPrompts / 8));
  EXPECT_EQ(rows_of(none), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// The sums are 0.5 and 1.5. RLOO clips them to one value, and then no group has a gradient.
TEST(GroupFilter, SumsAreClippedAsTheMethodClipsThem) {
  config::PolicyPlan policy;
  policy.reward_clip_range = {-10.0, 0.5};
  Rows rows([](std::int64_t) { return false; });
  sampled(rows, 2, 4, policy);
  EXPECT_EQ(rows.requests.size(), 2U);
  policy.reward_clip_range = {-10.0, 1.0};
  Rows wider([](std::int64_t) { return false; });
  sampled(wider, 2, 4, policy);
  EXPECT_EQ(wider.requests.size(), 1U);
}

// The functions' sums are 2 and 2, and their normalized values do not cancel.
TEST(GroupFilter, RewardsAreNormalizedAsTheMethodNormalizesThem) {
  class Opposed final : public RolloutSource {
   public:
    const std::vector<std::string>& reward_names() const override { return names_; }
    SourcedRollouts make(const RolloutRequest& request) override {
      ++asked;
      SourcedRollouts out;
      out.batch.reward_names = names_;
      for (std::size_t p = 0; p < request.rows.size(); ++p) {
        out.batch.prompts.push_back({.row = request.rows[p], .ids = {1}});
        for (std::int32_t i = 0; i < 2; ++i) {
          RolloutSample sample{.prompt = p, .ids = {1, i}};
          sample.rewards = {1.0 - i, 1.0 - i, 2.0 * i};
          out.batch.samples.push_back(sample);
          out.facts.completions.push_back({});
        }
      }
      return out;
    }
    std::int64_t asked = 0;

   private:
    std::vector<std::string> names_ = {"one", "another", "opposed"};
  };
  config::PolicyPlan policy;
  policy.max_num_gen_batches = 2;
  const RolloutRequest request{.generation = 1, .rows = {0, 1}, .num_generations = 2};
  Opposed summed, normalized;
  sample_live_groups(summed, request, policy, 42, kPrompts);
  EXPECT_EQ(summed.asked, 2);
  policy.multi_objective_aggregation = "normalize_then_sum";
  sample_live_groups(normalized, request, policy, 42, kPrompts);
  EXPECT_EQ(normalized.asked, 1);
}

}  // namespace group_filter_test
}  // namespace hone::train
