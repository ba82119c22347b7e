#include "doctor/probes/drawn_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace hone::doctor {
namespace drawn_rows_test {

using base::Json;

train::PolicyPrompts prompts_of(std::size_t count, const std::function<Json(std::size_t)>& columns) {
  train::PolicyPrompts out;
  for (std::size_t i = 0; i < count; ++i) {
    data::PromptRow row;
    row.prompt = "Q" + std::to_string(i);
    row.columns = columns(i);
    out.rows.push_back(std::move(row));
  }
  return out;
}

TEST(DrawnRows, AreAllOfFewRowsAndNeverMoreThanAsked) {
  const auto some = prompts_of(5, [](std::size_t i) { return Json{{"answer", i}}; });
  EXPECT_EQ(draw_rows(some, 8), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  const auto many = prompts_of(1000, [](std::size_t i) { return Json{{"answer", i}}; });
  const auto drawn = draw_rows(many, 8);
  EXPECT_EQ(drawn.size(), 8U);
  EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
  EXPECT_EQ(drawn, draw_rows(many, 8)) << "a function of the data";
  EXPECT_NE(drawn, draw_rows(many, 8, 1)) << "another draw";
}

// Tasks in turn: a stride that divides their period met one of them only.
TEST(DrawnRows, MeetEveryKindWhateverTheNumberOfRows) {
  for (const std::size_t period : {2U, 3U, 4U, 5U, 8U}) {
    for (const std::size_t count : {16U, 24U, 32U, 100U, 1000U, 4000U}) {
      const auto prompts = prompts_of(
          count, [&](std::size_t i) { return Json{{"task", "t" + std::to_string(i % period)}, {"n", i}}; });
      std::set<std::size_t> kinds;
      for (const std::size_t row : draw_rows(prompts, 8)) kinds.insert(row % period);
      EXPECT_EQ(kinds.size(), period) << period << " kinds of " << count << " rows";
    }
  }
}

TEST(DrawnRows, MeetARareKindAndAnEmptyCell) {
  const auto prompts = prompts_of(3000, [](std::size_t i) {
    return Json{{"source", i == 1777 ? "rare" : "usual"}, {"answer", i == 2001 ? Json() : Json(i)}};
  });
  const auto drawn = draw_rows(prompts, 8);
  EXPECT_NE(std::find(drawn.begin(), drawn.end(), 1777U), drawn.end());
  EXPECT_NE(std::find(drawn.begin(), drawn.end(), 2001U), drawn.end());
}

TEST(DrawnRows, OfSomePlacesOnly) {
  const auto prompts = prompts_of(100, [](std::size_t i) { return Json{{"n", i}}; });
  const std::vector<std::size_t> odd = {1, 3, 5, 7, 9, 11};
  for (const std::size_t row : draw_rows_of(prompts, odd, 3))
    EXPECT_NE(std::find(odd.begin(), odd.end(), row), odd.end());
}

}  // namespace drawn_rows_test
}  // namespace hone::doctor
