// Hundreds of steps with rewards whose worker is killed, hangs and raises: the run ends, and says what happened.
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "base/json.h"
#include "config/parse.h"
#include "report/run_report.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace grpo_faults_test {

namespace fs = base::fs;

void run_steps(int steps) {
  const fs::path fixtures = HONE_FIXTURES;
  const fs::path root = fs::temp_directory_path() / ("hone_faults_" + std::to_string(getpid()));
  const std::string file = (fixtures / "rewards" / "faulty.py").string();
  base::Json stops = base::Json::array();
  for (int id = 2; id < 384; id += 8) stops.push_back(id);
  const config::Plan plan =
      config::parse_run(config::Method::kGrpo, {"--model_name_or_path",
                                                (fixtures / "parity" / "tiny_llama").string(),
                                                "--dataset_name",
                                                (fixtures / "parity" / "trl_grpo" / "prompts.jsonl").string(),
                                                "--use_peft",
                                                "--bf16",
                                                "false",
                                                "--max_steps",
                                                std::to_string(steps),
                                                "--save_strategy",
                                                "no",
                                                "--per_device_train_batch_size",
                                                "4",
                                                "--num_generations",
                                                "4",
                                                "--max_completion_length",
                                                "6",
                                                "--logging_steps",
                                                std::to_string(steps / 10),
                                                "--output_dir",
                                                root.string(),
                                                "--generation_kwargs",
                                                base::dump_json({{"eos_token_id", stops}}),
                                                "--reward_timeout",
                                                "0.4",
                                                "--reward_funcs",
                                                file + ":killed",
                                                file + ":hanging",
                                                file + ":raising"});
  std::ostringstream said;
  report::RunReport report(said, {}, /*tensorboard=*/false);
  const std::atomic<bool> stop = false;
  const LoopResult result = begin_run(*open_run(plan, report), report, stop);
  EXPECT_EQ(result.step, steps);
  const std::string text = said.str();
  EXPECT_NE(text.find("no answer within"), std::string::npos) << text;
  EXPECT_NE(text.find("SIGKILL"), std::string::npos) << text;
  EXPECT_NE(text.find("an unlucky completion"), std::string::npos) << text;
  EXPECT_TRUE(fs::exists(root / kAdapterWeightsFile));
  // Whatever the rewards did, every number that was logged is one.
  std::istringstream metrics(base::read_text(root / kMetricsFile));
  std::string line;
  int logged = 0;
  while (std::getline(metrics, line)) {
    const base::Json record = base::parse_json(line, "metrics");
    if (!record.contains("reward")) continue;
    logged += 1;
    for (const char* name : {"loss", "grad_norm", "reward", "rewards/killed/mean", "seen_step"}) {
      EXPECT_TRUE(record.contains(name) && record.at(name).is_number()) << name << " in " << line;
    }
  }
  EXPECT_EQ(logged, 10);
  fs::remove_all(root);
}

TEST(GrpoFaults, StepsWithRewardsThatDieHangAndRaise) {
  run_steps(250);
}
TEST(GrpoFaults, SlowFiveHundredStepsWithRewardsThatDieHangAndRaise) {
  run_steps(500);
}

}  // namespace grpo_faults_test
}  // namespace hone::train
