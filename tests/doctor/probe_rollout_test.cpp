// Real completions of the tiny Llama: cut or not, alive or dead.
#include "base/json.h"
#include "doctor/check_runs.h"
#include "doctor/probes/sampled_rollouts.h"

namespace hone::test_tools {
namespace probe_rollout_test {

using base::Level;
using doctor::probe_rollout;
using doctor::Verdicts;

class ProbeRollout : public CheckRuns {};

// Every eighth token ends a completion: the tiny model would draw its one end token too rarely.
std::string many_stops() {
  base::Json ids = base::Json::array();
  for (int id = 2; id < 384; id += 8) ids.push_back(id);
  return base::dump_json({{"eos_token_id", ids}});
}

TEST_F(ProbeRollout, LivelyRolloutsHaveNoFault) {
  const auto run = open_grpo({"--generation_kwargs", many_stops(), "--max_completion_length", "64",
                              "--num_generations", "8", "--per_device_train_batch_size", "8"});
  const at::Tensor before = run->adapter->flat().clone();
  const Verdicts all = probe_rollout(*run);
  EXPECT_EQ(failures(all), "");
  expect_complete(all);
  for (const char* code : {"RL-02", "RL-03", "RL-14", "RL-15"})
    EXPECT_EQ(verdict_of(all, code).level, Level::kOk) << code << " " << verdict_of(all, code).what;
  EXPECT_SAYS(verdict_of(all, "RL-02").what, "12 groups");
  EXPECT_TRUE(at::equal(run->adapter->flat(), before));
}

TEST_F(ProbeRollout, CompletionsThatAreAllCutAndDeadAreFound) {
  const auto run = open_grpo({"--generation_kwargs", many_stops(), "--max_completion_length", "1",
                              "--reward_funcs", "regex(pattern=\"the answer is 42\")"});
  const Verdicts all = probe_rollout(*run);
  const auto cut = verdict_of(all, "RL-03");
  EXPECT_EQ(cut.level, Level::kWarn) << "of a sample";
  EXPECT_SAYS(cut.fix, "max_completion_length: 32");  // p95 of what ends by itself, in whole 32s
  EXPECT_SAYS(cut.evidence, "without this cap p50");
  EXPECT_EQ(verdict_of(all, "RL-02").level, Level::kWarn);
  EXPECT_SAYS(verdict_of(all, "RL-02").cause, "RL-03");
  expect_complete(all);
}

TEST_F(ProbeRollout, ARewardThatNeverVariesIsFound) {
  const auto run = open_grpo({"--generation_kwargs", many_stops(), "--max_completion_length", "64",
                              "--num_generations", "8", "--per_device_train_batch_size", "8",
                              "--reward_funcs", "regex(pattern=\"the answer is 42\")"});
  const Verdicts all = probe_rollout(*run);
  EXPECT_EQ(verdict_of(all, "RL-03").level, Level::kOk);
  EXPECT_EQ(verdict_of(all, "RL-02").level, Level::kWarn);
  EXPECT_EQ(verdict_of(all, "RL-04").level, Level::kWarn);
}

TEST_F(ProbeRollout, TheShareOfDeadGroupsIsThatOfTheCatalogue) {
  EXPECT_NEAR(doctor::dead_share(0.05, 8), 0.66, 0.005);
  EXPECT_NEAR(doctor::dead_share(0.05, 32), 0.19, 0.005);
  EXPECT_NEAR(doctor::dead_share(0.9, 8), 0.43, 0.005);
}

TEST_F(ProbeRollout, TheSameRunSamplesTheSame) {
  const auto run = open_grpo();
  const auto first = doctor::sample_rollouts(*run, {.prompts = 3});
  const auto second = doctor::sample_rollouts(*run, {.prompts = 3});
  ASSERT_EQ(first.completions.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(first.completions[i].ids, second.completions[i].ids);
}

}  // namespace probe_rollout_test
}  // namespace hone::test_tools
