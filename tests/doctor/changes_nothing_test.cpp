// A run with the examination is, byte for byte, the run without it.
#include <atomic>

#include "base/files/file.h"
#include "probe_runs.h"
#include "train/loop/guard.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {
namespace changes_nothing_test {

// Every probe that runs the model, then the examination as a whole.
class Examiner final : public train::RunGuard {
 public:
  explicit Examiner(Depth depth) : depth_(depth) {}
  void before_first_step(const train::RunView& run) override {
    add(probe_gradient(run));
    add(probe_loss(run));
    add(probe_sampler(run));
    if (depth_ == Depth::kDeep) {
      add(probe_overfit(run));
      add(probe_round_trip(run));
      add(probe_resume(run));
    }
    EXPECT_FALSE(examine(run, {.depth = depth_}).parts.empty());
  }
  Verdicts found;

 private:
  void add(Verdicts more) {
    for (base::Verdict& one : more) found.push_back(std::move(one));
  }
  Depth depth_;
};

class ChangesNothingTest : public ProbeTest {
 protected:
  void compare(const std::function<config::Plan(const std::string&)>& plan, Depth depth) {
    const std::atomic<bool> go_on = false;
    train::begin_run(*open(plan("without")), listener_, go_on);
    Examiner examiner(depth);
    train::begin_run(*open(plan("with")), listener_, go_on, &examiner);
    EXPECT_NE(worst(examiner.found), base::Level::kFail) << describe(examiner.found);
    EXPECT_GE(examiner.found.size(), 8U);
    EXPECT_EQ(base::read_text(root_ / "without" / train::kAdapterWeightsFile),
              base::read_text(root_ / "with" / train::kAdapterWeightsFile));
    EXPECT_EQ(base::read_text(root_ / "without" / "checkpoint-3" / train::kOptimizerFile),
              base::read_text(root_ / "with" / "checkpoint-3" / train::kOptimizerFile));
  }
};

TEST_F(ChangesNothingTest, Sft) {
  compare([this](const std::string& name) { return sft(name, {"--save_steps", "3"}); }, Depth::kRun);
}

TEST_F(ChangesNothingTest, SftInFp32AndDeep) {
  compare([this](const std::string& name) { return sft(name, {"--save_steps", "3", "--bf16", "false"}); },
          Depth::kDeep);
}

TEST_F(ChangesNothingTest, DpoDeep) {
  compare([this](const std::string& name) { return dpo(name, {"--save_steps", "3"}); }, Depth::kDeep);
}

TEST_F(ChangesNothingTest, Grpo) {
  compare([this](const std::string& name) { return grpo(name, {"--save_steps", "3"}); }, Depth::kRun);
}

// A reward whose answers depend on how often it was asked before.
TEST_F(ChangesNothingTest, GrpoWithARewardThatCounts) {
  const base::fs::path file = root_ / "counts.py";
  base::write_file_atomic(file,
                          "calls = 0\n"
                          "def counts(completions, **_):\n"
                          "    global calls\n"
                          "    calls += 1\n"
                          "    return [float((calls * 7 + i * i) % 5) for i in range(len(completions))]\n");
  compare(
      [&](const std::string& name) {
        config::Plan plan = grpo(name, {"--save_steps", "3"});
        plan.policy.reward_funcs = {file.string() + ":counts"};
        return plan;
      },
      Depth::kRun);
}

TEST_F(ChangesNothingTest, GrpoInFp32AndDeep) {
  compare([this](const std::string& name) { return grpo(name, {"--save_steps", "3", "--bf16", "false"}); },
          Depth::kDeep);
}

}  // namespace changes_nothing_test
}  // namespace hone::doctor
