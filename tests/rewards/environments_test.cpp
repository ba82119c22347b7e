// Reward functions that ask for environments, which live in other processes.
#include "rewards/python_helpers.h"

namespace hone::rewards {
namespace environments_test {

TEST(RewardEnvironments, AreNamedToFunctionsOfAFile) {
  const PythonFile file(R"(
def shown(completions, environments, **kwargs): return [float(str(e).split()[-1]) for e in environments]
def looks(completions, environments, **kwargs): return [e.count for e in environments]
def any(completions, **kwargs): return [len(kwargs.get("environments", [])) for c in completions]
def few(prompts, completions, completion_ids, answer, trainer_state, log_extra, log_metric): return [1 for c in completions]
)");
  Request request = request_of(3);
  request.environments = {{"shop", 4}, {"shop", 5}, {"", 6}};
  EXPECT_TRUE(file.open("shown")->required_columns().empty());
  EXPECT_TRUE(file.open("any")->read_columns().empty());
  EXPECT_EQ(file.score("shown", request).values, (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(file.score("any", request).values, (std::vector<double>{3, 3, 3}));
  EXPECT_EQ(file.score("few", request).values, (std::vector<double>{1, 1, 1}));
  expect_says(message_of([&] { throw_broken(file.score("looks", request)); }),
              {"environment shop 4 lives in a process of its own", "count", "get_reward"});
  EXPECT_EQ(file.score("any", request_of(2)).values, (std::vector<double>{0, 0}));
  expect_says(message_of([&] { throw_broken(file.score("shown", request_of(2))); }),
              {"environments, which shown wants", "a run without environments"});
}

}  // namespace environments_test
}  // namespace hone::rewards
