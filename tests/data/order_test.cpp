#include "data/records/order.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hone::data {
namespace order_test {

nlohmann::json golden() {
  std::ifstream file(HONE_FIXTURES "/data/order.json");
  return nlohmann::json::parse(file);
}

Order order_of(const nlohmann::json& recorded) {
  const auto& seed = recorded["data_seed"].is_null() ? recorded["seed"] : recorded["data_seed"];
  return Order({recorded["rows"], recorded["batch_size"], recorded["accumulation"], seed, recorded["shuffle"],
                recorded["drop_last"]});
}

// Recorded from a real transformers Trainer: rows of every micro-batch, steps and logged epochs.
TEST(Order, EqualsTransformersTrainer) {
  const nlohmann::json recorded = golden();
  ASSERT_EQ(recorded["cases"].size(), 10U);
  for (const auto& run : recorded["cases"]) {
    const Order order = order_of(run);
    const std::int64_t total = total_steps(order, run["epochs"], run["max_steps"]);
    EXPECT_EQ(total, run["total_steps"].get<std::int64_t>());
    ASSERT_EQ(static_cast<std::size_t>(total), run["steps"].size());
    for (std::int64_t step = 0; step < total; ++step) {
      const auto at = static_cast<std::size_t>(step);
      EXPECT_EQ(order.step_rows(step), run["steps"][at].get<StepRows>())
          << run["rows"] << " rows, step " << step;
      EXPECT_DOUBLE_EQ(epoch_at(order, step + 1), run["epoch_at"][at].get<double>());
    }
  }
}

// Recorded from transformers' get_length_grouped_indices.
TEST(Order, RowsOfSimilarLengthAreTransformers) {
  std::ifstream file(HONE_FIXTURES "/data/grouped.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  ASSERT_EQ(recorded["cases"].size(), 6U);
  for (const auto& run : recorded["cases"]) {
    const auto lengths = run["lengths"].get<std::vector<std::int64_t>>();
    EXPECT_EQ(grouped_by_length(run["permutation"], lengths, run["group_size"]),
              run["order"].get<std::vector<std::int64_t>>());
    const Order order({.rows = static_cast<std::int64_t>(lengths.size()),
                       .batch_size = run["group_size"],
                       .seed = run["seed"],
                       .lengths = lengths});
    std::vector<std::int64_t> first;
    for (std::int64_t step = 0; step < order.steps_per_epoch(); ++step) {
      for (const auto& rows : order.step_rows(step)) first.insert(first.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(first, run["order"].get<std::vector<std::int64_t>>()) << "the first epoch's";
  }
}

TEST(Order, AnyStepCanBeAskedForInAnyOrder) {
  const OrderOptions options{23, 3, 4, 7, true, false};
  const Order forwards(options);
  const Order backwards(options);
  std::vector<StepRows> steps;
  for (std::int64_t step = 0; step < 8; ++step) steps.push_back(forwards.step_rows(step));
  for (std::int64_t step = 7; step >= 0; --step) {
    EXPECT_EQ(backwards.step_rows(step), steps[static_cast<std::size_t>(step)]);
  }
}

// 7 rows, 2 a micro-batch, 2 micro-batches a step.
TEST(Order, StreamedRowsComeInOrderAndAgain) {
  const auto hold = [](std::int64_t, std::int64_t to) { return std::min<std::int64_t>(to, 7); };
  const OrderOptions options = {
      .batch_size = 2, .accumulation = 2, .streamed = {.hold = hold, .max_steps = 5}};
  const Order order(options);
  EXPECT_EQ(order.steps_per_epoch(), 5) << "transformers' epoch of a stream";
  EXPECT_EQ(order.step_rows(0), (StepRows{{0, 1}, {2, 3}}));
  EXPECT_FALSE(order.batches_per_pass());
  EXPECT_DOUBLE_EQ(epoch_at(order, 1), 0.2);
  EXPECT_EQ(order.step_rows(1), (StepRows{{4, 5}, {6}})) << "the pass ends";
  EXPECT_EQ(order.batches_per_pass(), 4);
  EXPECT_EQ(order.step_rows(2), (StepRows{{0, 1}, {2, 3}}));
  EXPECT_DOUBLE_EQ(epoch_at(order, 3), 1.2);
  EXPECT_EQ(Order(options).step_rows(3), (StepRows{{4, 5}, {6}})) << "a resumed run's first";
  OrderOptions again = options;
  again.streamed.first_step = 3;
  EXPECT_EQ(Order(again).step_rows(3), (StepRows{{0, 1}, {2, 3}}));
  OrderOptions drops = options;
  drops.drop_last = true;
  EXPECT_EQ(Order(drops).step_rows(1), (StepRows{{4, 5}}));
  drops.batch_size = 8;
  EXPECT_THROW((void)Order(drops).step_rows(0), base::UserError);
  drops.streamed.hold = [](std::int64_t, std::int64_t) { return 0; };
  EXPECT_THROW((void)Order(drops).step_rows(0), base::UserError);
}

TEST(Order, BeforeTheFirstStepTheEpochIsZero) {
  EXPECT_EQ(epoch_at(Order({10, 4, 2, 42, true, false}), 0), 0.0);
}

std::string message_of(const OrderOptions& options) {
  try {
    const Order order(options);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Order, NoRows) {
  const std::string message = message_of({0, 4, 1, 42, true, false});
  EXPECT_NE(message.find("[training data] expected at least one row to train on"), std::string::npos)
      << message;
}

TEST(Order, DropLastThatLeavesNothing) {
  const std::string message = message_of({3, 4, 1, 42, true, true});
  EXPECT_NE(message.find("[option dataloader_drop_last]"), std::string::npos) << message;
  EXPECT_NE(message.find("3 rows, all of them dropped"), std::string::npos) << message;
}

}  // namespace order_test
}  // namespace hone::data
