#include "train/saves/run_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hone::train {
namespace run_state_test {

TEST(RunState, RoundTripsEveryFieldExactly) {
  RunState state;
  state.step = 17;
  state.num_tokens = 12345678901;
  state.total_loss = 1.0 / 3.0;
  state.loss_sum = std::nextafter(0.1, 1.0);
  state.steps_since_log = 2;
  for (const double value : {1e-300, 0.7, 1.0 / 3.0}) state.metrics.add("entropy", value);
  state.metrics.add("reward", std::nextafter(0.1, 1.0));
  state.best = {.metric = std::nextafter(0.3, 1.0), .step = 15, .saved = 10};
  state.data_rows = 640;
  state.data_crc32c = 0xE3069283;
  state.log_history.push_back(log_history_entry({.step = 10, .epoch = 0.5, .values = {{"loss", 0.1}}}));
  const auto text = base::dump_json(state.to_json());
  const RunState back = RunState::from_json(base::parse_json(text, "test"), "test");
  EXPECT_EQ(back.step, state.step);
  EXPECT_EQ(back.num_tokens, state.num_tokens);
  EXPECT_EQ(back.total_loss, state.total_loss);
  EXPECT_EQ(back.loss_sum, state.loss_sum);
  EXPECT_EQ(back.steps_since_log, state.steps_since_log);
  EXPECT_EQ(back.metrics.values(), state.metrics.values());
  EXPECT_EQ(back.log_history, state.log_history);
  EXPECT_EQ(back.best.metric, state.best.metric);
  EXPECT_EQ(back.best.step, 15);
  EXPECT_EQ(back.best.saved, 10);
  EXPECT_EQ(back.data_rows, state.data_rows);
  EXPECT_EQ(back.data_crc32c, state.data_crc32c);
}

TEST(MetricMeans, LeavesNaNOutAndKeepsTheOrder) {
  MetricMeans means;
  means.add("reward", 1);
  means.add("kl", std::nan(""));
  means.add("reward", std::nan(""));
  means.add("reward", 3);
  const auto values = means.values();
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0], (NamedValue{"reward", 2.0}));
  EXPECT_EQ(values[1].first, "kl");
  EXPECT_TRUE(std::isnan(values[1].second));
}

TEST(RunState, ReadsAnOlderStateThatDoesNotNameItsRows) {
  base::Json json = RunState{}.to_json();
  json.erase("data_rows");
  json.erase("data_crc32c");
  EXPECT_EQ(RunState::from_json(json, "test").data_rows, 0);
}

// A metric of infinity is written down, and the checkpoint can be read again.
TEST(RunState, KeepsNumbersThatAreNotFinite) {
  RunState state;
  state.loss_sum = std::numeric_limits<double>::infinity();
  state.metrics.add("kl", std::numeric_limits<double>::infinity());
  state.metrics.add("gap", -std::numeric_limits<double>::infinity());
  state.metrics.add("none", std::nan(""));
  state.evaluation_due = true;
  const auto text = base::dump_json(state.to_json());
  const RunState back = RunState::from_json(base::parse_json(text, "test"), "test");
  EXPECT_EQ(back.loss_sum, state.loss_sum);
  EXPECT_EQ(back.metrics.values()[0].second, std::numeric_limits<double>::infinity());
  EXPECT_EQ(back.metrics.values()[1].second, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(back.metrics.values()[2].second));
  EXPECT_TRUE(back.evaluation_due);
}

TEST(RunState, OddValuesAreRefusedWithTheirName) {
  RunState state;
  state.metrics.add("reward", 1);
  state.log_history.push_back(base::Json::object());
  const base::Json good = state.to_json();
  EXPECT_NO_THROW(RunState::from_json(good, "test"));
  for (const auto& [name, value] : good.items()) {
    for (const char* odd :
         {"-1", "1.5", "1e300", "18446744073709551615", "true", "\"x\"", "[[]]", "[[1,2,3]]",
          "[[\"a\",1,-1]]", "[[\"a\",1]]", "[7]", "{\"a\":1}", "{}", "[{},[]]"}) {
      base::Json bad = good;
      bad[name] = base::parse_json(odd, "test");
      try {
        RunState::from_json(bad, "test");
      } catch (const BadState& error) {
        EXPECT_NE(std::string(error.what()).find("test"), std::string::npos);
      }
    }
    base::Json negative = good;
    negative[name] = base::parse_json("\"x\"", "test");
    EXPECT_THROW(RunState::from_json(negative, "test"), BadState) << name;
  }
  for (const char* whole : {"[]", "null", "7", "\"x\"", "{}"})
    EXPECT_THROW(RunState::from_json(base::parse_json(whole, "test"), "test"), BadState) << whole;
}

TEST(TrainerState, HasTransformersKeysAndSortedLogEntries) {
  RunState state;
  state.step = 2;
  state.log_history.push_back(
      log_history_entry({.step = 2, .epoch = 1.0, .values = {{"loss", 0.5}, {"grad_norm", std::nan("")}}}));
  const auto json = trainer_state_json(state, {.max_steps = 4, .num_train_epochs = 1.5, .epoch = 1.0});
  EXPECT_EQ(json.at("global_step"), 2);
  EXPECT_EQ(json.at("num_train_epochs"), 2);
  EXPECT_EQ(base::dump_json(json.at("log_history")),
            R"([{"epoch":1.0,"grad_norm":null,"loss":0.5,"step":2}])");
}

}  // namespace run_state_test
}  // namespace hone::train
