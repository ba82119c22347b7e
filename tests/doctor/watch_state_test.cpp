// What the watch keeps in a checkpoint: after every step of a series, the parts that were written down and
// read back judge the rest as those that saw it all; and texts that no watch wrote are refused.
#include "doctor/watch/watch_state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "doctor/watch/watch_rewards.h"
#include "doctor/watch/watch_steps.h"

namespace hone::doctor {
namespace watch_state_test {

using base::Json;

std::string describe(const Findings& findings) {
  std::string out;
  for (const Finding& one : findings) {
    out += one.key + " " + std::to_string(static_cast<int>(one.verdict.level)) + ": " + one.verdict.what +
           "; " + one.verdict.evidence + "\n";
  }
  return out;
}

Json through_a_file(const Json& state) {
  return Json::parse(base::dump_json(state));
}

// `make` gives a fresh part, `see` feeds it with element `i` of a series. Keys that the series must show.
template <typename Part>
void expect_alike(const std::function<Part()>& make, const std::function<Findings(Part&, int)>& see, int size,
                  const std::vector<std::string>& keys) {
  Part whole = make();
  std::vector<std::string> said;
  std::vector<Json> states;
  std::string all;
  for (int i = 0; i < size; ++i) {
    states.push_back(through_a_file(whole.state()));
    said.push_back(describe(see(whole, i)));
    all += said.back();
  }
  for (const std::string& key : keys) EXPECT_NE(all.find(key), std::string::npos) << key << " in\n" << all;
  for (int k = 1; k < size; ++k) {
    Part resumed = make();
    resumed.restore(states[static_cast<std::size_t>(k)]);
    EXPECT_EQ(through_a_file(resumed.state()), states[static_cast<std::size_t>(k)]);
    for (int i = k; i < size; ++i) {
      ASSERT_EQ(describe(see(resumed, i)), said[static_cast<std::size_t>(i)])
          << "resumed at " << k << ", at " << i;
    }
  }
}

train::RolloutFacts batch(int i) {
  constexpr std::size_t kSamples = 32, kGroup = 4;
  train::RolloutFacts out{.step = i + 1, .reward_names = {"task", "form", "style"}};
  for (std::size_t n = 0; n < kSamples; ++n) {
    const bool live = i == 5 || i > 12;
    const double task = live && n % kGroup == 0 ? 1.0 : i > 16 ? 1.0 : 0.0;
    const bool repeats = i > 16;
    out.completions.push_back({.prompt = "p",
                               .completion = "the answer is " + std::to_string(i),
                               .truncated = i < 8,
                               .tokens = 20,
                               .most_common_token = "the",
                               .most_common_fraction = repeats ? 0.9 : 0.1,
                               .rewards = {task, 0.5, i == 3 && n % 2 == 0 ? 0.001 : 0.0},
                               .advantage = live && i <= 16 ? task - 0.25 : 0});
  }
  return out;
}

TEST(WatchState, GenerationBatches) {
  expect_alike<RewardWatch>(
      [] { return RewardWatch(4, {1, 0.01, 1}, false); },
      [](RewardWatch& watch, int i) { return watch.see(batch(i)); }, 26,
      {"RL-02", "RL-03 first batch", "RL-03 ", "RL-04 form", "RL-07 task", "RL-07 ceiling", "RL-08 repeats"});
}

train::StepFacts policy_step(int i) {
  const bool bad = i > 3;
  return {.step = i + 1,
          .loss = 0.01,
          .grad_norm = bad ? 0.0 : 0.1,
          .metrics = {{"reward", 0.5},
                      {"entropy", i % 7 < 4 ? 0.001 : 5.9},
                      {"kl", bad ? 3.0 : 0.1},
                      {"ratio_gap", bad ? 0.5 : 0.0}}};
}

TEST(WatchState, StepsOfAPolicy) {
  expect_alike<PolicyWatch>(
      [] { return PolicyWatch({.rows = 8, .uniform = 6}); },
      [](PolicyWatch& watch, int i) { return watch.see(policy_step(i), false); }, 16,
      {"RL-08 entropy", "RL-08 guessing", "RL-08 kl", "RL-10 3", "GRAD-02 no gradient"});
}

TEST(WatchState, TrendsOfLossAndGradient) {
  expect_alike<TrendWatch>([] { return TrendWatch(2, true); },
                           [](TrendWatch& watch, int i) {
                             return watch.see({.step = i + 1,
                                               .loss = i < 7 ? 2.0 + 0.01 * i : 9.0,
                                               .grad_norm = i < 30 ? 1.0 + 0.1 * (i % 3) : 50.0});
                           },
                           40, {"NUM-08 loss 3", "NUM-08 gradient"});
}

TEST(WatchState, Preferences) {
  expect_alike<PreferenceWatch>([] { return PreferenceWatch(); },
                                [](PreferenceWatch& watch, int i) {
                                  const double moved = i < 8 ? 0.0 : 0.1 * i;
                                  return watch.see({.step = i + 1,
                                                    .learning_rate = 1e-3,
                                                    .metrics = {{"rewards/margins", moved},
                                                                {"rewards/chosen", -moved},
                                                                {"logps/chosen", i < 8 ? -20.0 : -60.0}}});
                                },
                                40, {"PREF-01", "PREF-02"});
}

// A checkpoint of an older hone: a baseline that is not known is unknown.
TEST(WatchState, AnUnknownPastGivesNoFalseAlarm) {
  RewardWatch rewards(4, {}, false, /*past_unknown=*/true);
  for (int i = 0; i < 12; ++i) {
    train::RolloutFacts one = batch(0);
    for (auto& completion : one.completions) completion.rewards = {1.0, 0.0, 0.0};
    for (const Finding& found : rewards.see(one))
      EXPECT_LE(found.verdict.level, base::Level::kNote) << found.key << ": " << found.verdict.what;
  }
  TrendWatch trend(0, true, /*past_unknown=*/true);
  PreferenceWatch preference(/*past_unknown=*/true);
  for (int i = 0; i < 60; ++i) {  // a lucky beginning, then what the run has been like for long
    EXPECT_EQ(describe(trend.see({.step = 100 + i, .loss = i < 5 ? 1.0 : 1.1, .grad_norm = 1})), "");
    EXPECT_EQ(describe(preference.see({.step = 100 + i,
                                       .learning_rate = 1e-3,
                                       .metrics = {{"rewards/margins", i < 5 ? 0.5 : 1.0},
                                                   {"rewards/chosen", 1},
                                                   {"logps/chosen", i < 5 ? -10.0 : -40.0}}})),
              "");
  }
}

// Another reward function under a resumed run: what was seen of the old one says nothing about it.
TEST(WatchState, OtherRewardsBeginAgain) {
  RewardWatch watch(4, {}, false);
  for (int i = 0; i < 4; ++i) watch.see(batch(i));
  train::RolloutFacts other = batch(4);
  other.reward_names = {"task", "form", "new"};
  EXPECT_EQ(describe(watch.see(other)).find("RL-04"), std::string::npos);
  EXPECT_TRUE(watch.past_unknown());
}

template <typename Part>
void expect_refused(const Part& part, const std::function<void(Part&)>& see) {
  const Json good = through_a_file(part.state());
  const std::vector<Json> bad = {Json(),
                                 Json("x"),
                                 Json(-1),
                                 Json(1e300),
                                 Json::array({Json()}),
                                 Json::object(),
                                 Json(std::uint64_t{1} << 63),
                                 Json(0.5),
                                 Json(true)};
  int refused = 0;
  for (const auto& [name, value] : good.items()) {
    for (const Json& other : bad) {
      Json text = good;
      text[name] = other;
      Part read = part;
      try {
        read.restore(text);
        see(read);  // what is taken is harmless
      } catch (const BadWatchState& error) {
        EXPECT_NE(std::string(error.what()), "");
        ++refused;
      }
    }
    Json without = good;
    without.erase(name);
    Part read = part;
    EXPECT_THROW(read.restore(without), BadWatchState) << name;
  }
  EXPECT_GT(refused, static_cast<int>(good.size()) * 4);
  for (const Json& other : bad) {
    Part read = part;
    EXPECT_THROW(read.restore(other), BadWatchState);
  }
}

TEST(WatchState, WhatNoWatchWroteIsRefused) {
  RewardWatch rewards(4, {}, false);
  for (int i = 0; i < 3; ++i) rewards.see(batch(i));
  expect_refused<RewardWatch>(rewards, [](RewardWatch& watch) { watch.see(batch(6)); });
  PolicyWatch policy({.rows = 8, .uniform = 6});
  expect_refused<PolicyWatch>(policy, [](PolicyWatch& watch) { watch.see(policy_step(1), false); });
  TrendWatch trend(0, true);
  for (int i = 0; i < 30; ++i) trend.see({.step = i, .loss = 1, .grad_norm = 1});
  expect_refused<TrendWatch>(trend,
                             [](TrendWatch& watch) { watch.see({.step = 50, .loss = 1, .grad_norm = 1}); });
  expect_refused<PreferenceWatch>(PreferenceWatch(), [](PreferenceWatch& watch) { watch.see({.step = 1}); });
  Json endless = trend.state();
  for (int i = 0; i < 1000; ++i) endless["norms"].push_back(1.0);
  EXPECT_THROW(trend.restore(endless), BadWatchState);
}

}  // namespace watch_state_test
}  // namespace hone::doctor
