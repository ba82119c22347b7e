// The reference model of a run: another model, and one that moves. Numbers beside TRL's: tests/parity/trl_dpo_test.cpp and
// trl_full_test.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "adapters/lora.h"
#include "base/error.h"
#include "base/files/safetensors.h"
#include "config/parse.h"
#include "train/facts/memory_plan.h"
#include "train/loop/guard.h"
#include "train/opening/open_run.h"
#include "train/passes/moving_reference.h"
#include "train/references/open_reference.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace reference_test {

namespace fs = base::fs;
using config::Method;
using Words = std::vector<std::string>;

struct Killed {};

class Keeper final : public RunListener {
 public:
  void on_start(const StartFacts& facts) override { start = facts; }
  void on_log(const LogRecord& record) override {
    for (const auto& [name, value] : record.values) {
      if (name != "step_time" && !name.starts_with("train_")) values[name].push_back(value);
    }
  }
  void on_step(const StepFacts& facts, std::int64_t) override {
    if (facts.step == kill_after) throw Killed();
  }
  StartFacts start;
  std::map<std::string, std::vector<double>> values;
  std::int64_t kill_after = 0;
};

// What a step found of the second model: whether it is still there.
class SecondModel final : public RunGuard {
 public:
  explicit SecondModel(const OpenedRun& run) : run_(run) {}
  GuardAction on_step(const StepFacts&, const adapters::Adapter&) override {
    there_ = !run_.second_model.expired();
    return GuardAction::kContinue;
  }
  bool there() const { return there_; }

 private:
  const OpenedRun& run_;
  bool there_ = false;
};

class ReferenceTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  static fs::path fixture(const std::string& name) { return fs::path(HONE_FIXTURES) / "parity" / name; }
  config::Plan plan_of(Method method, const std::string& name, const Words& more) const {
    const std::map<Method, std::string> rows = {{Method::kDpo, "trl_dpo/explicit.jsonl"},
                                                {Method::kKto, "trl_kto/rows.jsonl"},
                                                {Method::kGrpo, "trl_grpo/prompts.jsonl"},
                                                {Method::kOnlineDpo, "trl_grpo/prompts.jsonl"}};
    Words words = {"--model_name_or_path",
                   fixture("tiny_llama").string(),
                   "--dataset_name",
                   fixture(rows.at(method)).string(),
                   "--learning_rate",
                   "5e-3",
                   "--threads",
                   "1",
                   "--per_device_train_batch_size",
                   "4",
                   "--logging_steps",
                   "1",
                   "--max_steps",
                   "6",
                   "--save_steps",
                   "2",
                   "--output_dir",
                   (root_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(method, words);
  }
  std::unique_ptr<OpenedRun> open(Method method, const std::string& name, const Words& more) {
    keeper_ = {};
    return open_run(plan_of(method, name, more), keeper_);
  }
  // Whether the second model was there after the last step.
  bool go(Method method, const std::string& name, const Words& more, std::int64_t kill_after = 0) {
    const auto run = open(method, name, more);
    keeper_.kill_after = kill_after;
    SecondModel guard(*run);
    const std::atomic<bool> stop = false;
    begin_run(*run, keeper_, stop, &guard);
    return guard.there();
  }
  std::string error_of(Method method, const std::string& name, const Words& more) {
    try {
      open(method, name, more);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "no error";
  }
  std::string file(const fs::path& path) const { return base::read_text(root_ / path); }

  Keeper keeper_;
  fs::path root_ = fs::temp_directory_path() / ("hone_reference_" + std::to_string(getpid()));
  const Words other_ = {"--ref_model", fixture("trl_full/llama3").string()};
  const Words moving_ = {"--sync_ref_model", "--ref_model_sync_steps", "2", "--use_peft", "false"};
};

Words operator+(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

config::ReferencePlan every(std::int64_t steps, double alpha) {
  return {.sync_ref_model = true, .ref_model_mixup_alpha = alpha, .ref_model_sync_steps = steps};
}

// ---- a reference that moves

TEST(MovingReferenceTest, MovesWhereTheStepsDivide) {
  const at::Tensor policy = at::randn({70}), began = at::randn({70});
  MovingReference moving(policy, began.clone(), at::kFloat, every(3, 0.6));
  for (const std::int64_t done : {1, 2, 4, 5}) moving.after_step(done);
  EXPECT_TRUE(at::equal(moving.values(), began));
  moving.after_step(3);
  const at::Tensor expected = began.clone().mul_(1.0 - 0.6).add_(policy, 0.6);
  EXPECT_TRUE(at::equal(moving.values(), expected));
  EXPECT_FALSE(at::equal(moving.values(), began));
  moving.after_step(6);
  EXPECT_TRUE(at::equal(moving.values(), expected.clone().mul_(1.0 - 0.6).add_(policy, 0.6)));
}

// As a model in bfloat16 would, whose numbers are rounded after each operation.
TEST(MovingReferenceTest, RoundsAsItsModel) {
  const at::Tensor policy = at::randn({70}), began = at::randn({70});
  MovingReference moving(policy, began.clone(), at::kBFloat16, every(1, 0.3));
  at::Tensor expected = began.to(at::kBFloat16);
  EXPECT_TRUE(at::equal(moving.values(), expected.to(at::kFloat)));
  moving.after_step(1);
  expected.mul_(1.0 - 0.3).add_(policy.to(at::kBFloat16), 0.3);
  EXPECT_TRUE(at::equal(moving.values(), expected.to(at::kFloat)));
}

TEST(MovingReferenceTest, ExchangesAndGivesBackEveryBit) {
  const std::int64_t count = (std::int64_t{1} << 20) + 17;  // more than one piece
  at::Tensor policy = at::randn({count});
  const at::Tensor policy_began = policy.clone(), began = at::randn({count});
  const MovingReference moving(policy, began.clone(), at::kFloat, every(1, 0.5));
  moving.exchange();
  EXPECT_TRUE(at::equal(policy, began) && at::equal(moving.values(), policy_began));
  moving.exchange();
  EXPECT_TRUE(at::equal(policy, policy_began) && at::equal(moving.values(), began));
}

TEST_F(ReferenceTest, AMovingOneResumesBitForBit) {
  const Words sampled = {"--reward_funcs",
                         R"(regex(pattern="[a-m]"))",
                         "--num_generations",
                         "4",
                         "--beta",
                         "0.1",
                         "--max_completion_length",
                         "8"};
  const std::vector<std::pair<Method, Words>> runs = {
      {Method::kDpo, {}}, {Method::kDpo, {"--dtype", "bfloat16"}}, {Method::kGrpo, sampled}};
  for (const auto& [method, more] : runs) {
    fs::remove_all(root_);
    const Words all = moving_ + more;
    go(method, "whole", all);
    EXPECT_THROW(go(method, "cut", all, 5), Killed);
    go(method, "cut", all + Words{"--resume_from_checkpoint", "true"});
    EXPECT_EQ(keeper_.start.first_step, 4);
    for (const fs::path& name : {fs::path("model.safetensors"), fs::path(kReferenceFile)})
      EXPECT_TRUE(file("cut" / name) == file("whole" / name)) << name;
    EXPECT_TRUE(file(fs::path("cut/checkpoint-6") / kReferenceFile) ==
                file(fs::path("whole/checkpoint-6") / kReferenceFile));
    EXPECT_FALSE(file(fs::path("whole/checkpoint-4") / kReferenceFile) ==
                 file(fs::path("whole/checkpoint-2") / kReferenceFile));
  }
}

// alpha 1 at every step: the reference is the policy, so that there is no distance from it.
TEST_F(ReferenceTest, WithAllOfThePolicyItHasNoDistance) {
  go(Method::kDpo, "run",
     {"--sync_ref_model", "--ref_model_sync_steps", "1", "--ref_model_mixup_alpha", "1", "--use_peft",
      "false", "--bf16", "false"});
  ASSERT_EQ(keeper_.values.at("rewards/margins").size(), 6);
  for (const double margin : keeper_.values.at("rewards/margins")) EXPECT_EQ(margin, 0);
  go(Method::kDpo, "stays", {"--use_peft", "false", "--bf16", "false"});
  EXPECT_GT(std::abs(keeper_.values.at("rewards/margins").back()), 1e-3);
}

TEST_F(ReferenceTest, AMovingOneBeginsAsTheModelThatIsNamed) {
  const fs::path other = root_ / "other";
  fs::create_directories(root_);
  fs::copy(fixture("tiny_llama"), other, fs::copy_options::recursive);
  const auto run =
      open(Method::kDpo, "run", moving_ + Words{"--ref_model", other.string(), "--bf16", "false"});
  EXPECT_TRUE(run->second_model.expired());
  EXPECT_TRUE(at::equal(run->moving_reference->values(), run->adapter->flat().detach()));
  const std::string error = error_of(Method::kDpo, "wrong", moving_ + other_);
  EXPECT_NE(error.find("has another shape"), std::string::npos) << error;
}

TEST_F(ReferenceTest, ACheckpointWithoutOneIsNotContinued) {
  go(Method::kDpo, "run", {"--use_peft", "false"});
  const std::string error =
      error_of(Method::kDpo, "run", moving_ + Words{"--resume_from_checkpoint", "true"});
  EXPECT_NE(error.find("the run began without sync_ref_model"), std::string::npos) << error;
}

// ---- another model

TEST_F(ReferenceTest, PrecomputedItIsReleasedBeforeStepOne) {
  const Words more = {"--use_peft", "--bf16", "false"};
  EXPECT_TRUE(go(Method::kDpo, "each", other_ + more));
  const auto each = keeper_.values;
  EXPECT_FALSE(go(Method::kDpo, "once", other_ + more + Words{"--precompute_ref_log_probs"}));
  for (const auto& [name, values] : each) {
    ASSERT_EQ(keeper_.values.at(name).size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(keeper_.values.at(name)[i], values[i], 1e-4) << name;
  }
  EXPECT_GT(std::abs(each.at("rewards/margins").front()), 1e-2);  // a new policy is not this reference
}

TEST_F(ReferenceTest, OnlineDpoAndFullTrainingHaveOne) {
  const Words online = {
      "--reward_funcs", "think_format_reward", "--max_new_tokens", "8", "--use_peft", "--max_steps", "2"};
  EXPECT_TRUE(go(Method::kOnlineDpo, "online", other_ + online));
  EXPECT_TRUE(go(Method::kKto, "full", other_ + Words{"--use_peft", "false", "--max_steps", "2"}));
}

TEST_F(ReferenceTest, TheModelItselfIsNoSecondModel) {
  const Words same = {"--ref_model", (fixture("trl_dpo") / ".." / "tiny_llama").string()};
  for (const Words& more : {Words{"--use_peft"}, Words{"--use_peft", "false"}}) {
    const config::Plan plan = plan_of(Method::kDpo, "run", same + more);
    EXPECT_TRUE(reference_is_model(plan));
  }
  EXPECT_FALSE(reference_is_model(
      plan_of(Method::kDpo, "run", same + Words{"--use_peft", "--ref_model_dtype", "bfloat16"})));
  EXPECT_FALSE(reference_is_model(plan_of(Method::kDpo, "run", other_ + Words{"--use_peft"})));
  // of an adapter that goes on it is the base, where TRL's own is a copy of that adapter
  const Words continued = {"--use_peft", "--adapter_name_or_path",
                           (fixture("tiny_llama") / "adapter").string()};
  go(Method::kDpo, "copy", continued);
  const double copied = keeper_.values.at("rewards/margins").front();
  go(Method::kDpo, "base", continued + same);
  EXPECT_EQ(copied, 0);
  EXPECT_GT(std::abs(keeper_.values.at("rewards/margins").front()), 1e-4);
}

TEST_F(ReferenceTest, ARunDoesNotGoOnWithAnother) {
  const Words peft = {"--use_peft", "--max_steps", "2"};
  const Words resumed = peft + Words{"--resume_from_checkpoint", "true"};
  go(Method::kDpo, "run", other_ + peft);
  const std::string none = error_of(Method::kDpo, "run", resumed);
  EXPECT_NE(none.find("the reference model that the run began with"), std::string::npos) << none;
  EXPECT_NE(none.find("no ref_model"), std::string::npos) << none;
  // the same files in another place are the same reference
  fs::copy(fixture("trl_full/llama3"), root_ / "moved", fs::copy_options::recursive);
  EXPECT_EQ(error_of(Method::kDpo, "run", resumed + Words{"--ref_model", (root_ / "moved").string()}),
            "no error");
  const std::string changed =
      error_of(Method::kDpo, "run", resumed + Words{"--ref_model", fixture("tiny_llama").string()});
  EXPECT_NE(changed.find("a ref_model with other files"), std::string::npos) << changed;
  go(Method::kDpo, "plain", peft);
  const std::string added = error_of(Method::kDpo, "plain", resumed + other_);
  EXPECT_NE(added.find("no ref_model, as when the run began"), std::string::npos) << added;
}

TEST_F(ReferenceTest, AnotherVocabularyIsAnError) {
  const std::string error =
      error_of(Method::kDpo, "run", {"--use_peft", "--ref_model", fixture("tiny_qwen2").string()});
  EXPECT_NE(error.find("of 384 tokens"), std::string::npos) << error;
  EXPECT_NE(error.find("tiny_qwen2 has 320"), std::string::npos) << error;
}

// ---- memory

TEST_F(ReferenceTest, ItsBytesArePlanned) {
  const auto bytes_of = [](const OpenedRun& run) {
    for (const MemorySegment& one : run.start.memory.segments) {
      if (one.name == kReferenceSegment) return one.bytes;
    }
    return std::int64_t{0};
  };
  const auto alone = open(Method::kDpo, "run", {"--use_peft"});
  EXPECT_EQ(bytes_of(*alone), 0);
  const auto second = open(Method::kDpo, "run", other_ + Words{"--use_peft"});
  EXPECT_EQ(bytes_of(*second), second->second_model.lock()->parameter_bytes());
  EXPECT_GE(second->start.memory.total,
            alone->start.memory.total + bytes_of(*second) - (std::int64_t{64} << 20));
  const auto moving = open(Method::kDpo, "run", moving_);
  EXPECT_EQ(bytes_of(*moving), moving->adapter->flat().numel() * 4);
}

TEST(ReferenceMemory, APassOfALargerModelCounts) {
  MemoryInputs in;
  in.model.vocab_size = 1000;
  in.model.hidden_size = 256;
  in.model.intermediate_size = 1024;
  in.model.num_hidden_layers = 2;
  in.model.num_attention_heads = 4;
  in.model.num_key_value_heads = 4;
  in.model.head_dim = 64;
  in.eval = {.tokens = 4096, .scored = 4096, .segment = 512};
  const std::int64_t small = forward_bytes(in);
  in.model.intermediate_size = 65536;
  const std::int64_t large = forward_bytes(in);
  EXPECT_GT(large, small);
  in.reference_pass = large + (std::int64_t{1} << 30);
  in.reference_bytes = 1 << 30;
  const MemoryPlan with = memory_of(in, true, config::RecomputeMode::kNone);
  in.reference_pass = in.reference_bytes = 0;
  const MemoryPlan without = memory_of(in, true, config::RecomputeMode::kNone);
  EXPECT_EQ(with.total - without.total, std::int64_t{2} << 30);
}

}  // namespace reference_test
}  // namespace hone::train
