// Whole runs of full fine-tuning on the tiny Llama: stopped and resumed, saved, evaluated, sampled from. Numbers beside
// TRL's: tests/parity/trl_full_test.cpp.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/process/instruction_level.h"
#include "config/parse.h"
#include "model/files/weight_source.h"
#include "train/loop/guard.h"
#include "train/opening/open_run.h"
#include "train/opening/run_setup.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace full_run_test {

namespace fs = base::fs;
using base::Json;
using Words = std::vector<std::string>;

struct Killed {};

class Keeper final : public RunListener {
 public:
  void on_start(const StartFacts& facts) override { start = facts; }
  void on_step(const StepFacts& facts, std::int64_t) override {
    steps.push_back(facts);
    if (facts.step == kill_after) throw Killed();
  }
  StartFacts start;
  std::vector<StepFacts> steps;
  std::int64_t kill_after = 0;
};

// That the optimizer stepped in the backward: then nobody holds the gradients of all layers.
class GradientsAre final : public RunGuard {
 public:
  explicit GradientsAre(bool held) : held_(held) {}
  GuardAction on_step(const StepFacts&, const adapters::Adapter& adapter) override {
    EXPECT_EQ(adapter.flat_gradient().defined(), held_);
    return GuardAction::kContinue;
  }

 private:
  bool held_;
};

class FullRun : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  static fs::path fixture(const std::string& name) { return fs::path(HONE_FIXTURES) / "parity" / name; }
  Words words(const std::string& name, const fs::path& data, const Words& more) const {
    Words out = {"--model_name_or_path",
                 fixture("tiny_llama").string(),
                 "--dataset_name",
                 data.string(),
                 "--use_peft",
                 "false",
                 "--max_steps",
                 "6",
                 "--save_steps",
                 "2",
                 "--learning_rate",
                 "1e-3",
                 "--per_device_train_batch_size",
                 "4",
                 "--threads",
                 "1",
                 "--logging_steps",
                 "1",
                 "--output_dir",
                 (root_ / name).string()};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  void go(config::Method method, const Words& all, std::int64_t kill_after = 0) {
    keeper_ = {};
    keeper_.kill_after = kill_after;
    const auto run = open_run(config::parse_run(method, all), keeper_);
    const std::atomic<bool> stop = false;
    if (layer_steps_) {
      run->start.memory.layer_steps = true;
      run->model->set_keeps_casts(false);
    }
    GradientsAre guard(!layer_steps_);
    begin_run(*run, keeper_, stop, &guard);
  }
  std::string file(const fs::path& path) const { return base::read_text(root_ / path); }
  // A run of six steps, and one that was killed after the fifth and resumed.
  void expect_same_when_resumed(config::Method method, const fs::path& data, const Words& more) {
    fs::remove_all(root_);
    go(method, words("whole", data, more));
    EXPECT_THROW(go(method, words("cut", data, more), 5), Killed);
    Words again = words("cut", data, more);
    again.insert(again.end(), {"--resume_from_checkpoint", "true"});
    go(method, again);
    EXPECT_EQ(keeper_.start.first_step, 4);
    EXPECT_TRUE(file("cut/model.safetensors") == file("whole/model.safetensors"));
    EXPECT_TRUE(file(fs::path("cut/checkpoint-6") / kOptimizerFile) ==
                file(fs::path("whole/checkpoint-6") / kOptimizerFile));
    EXPECT_FALSE(fs::exists(root_ / "whole" / kAdapterConfigFile));
    EXPECT_TRUE(fs::exists(root_ / "whole" / "tokenizer.json"));
    EXPECT_TRUE(fs::exists(root_ / "whole" / "generation_config.json"));
  }

  Keeper keeper_;
  bool layer_steps_ = false;  // all that saves memory, whatever the memory plan says
  fs::path root_ = fs::temp_directory_path() / ("hone_full_run_" + std::to_string(getpid()));
};

TEST_F(FullRun, ResumesBitForBit) {
  const fs::path text = fixture("sft/text.jsonl");
  expect_same_when_resumed(config::Method::kSft, text, {"--gradient_accumulation_steps", "2"});
  expect_same_when_resumed(config::Method::kSft, text,
                           {"--optim", "adamw_bnb_8bit", "--packing", "--max_length", "64"});
  expect_same_when_resumed(config::Method::kSft, text,
                           {"--dtype", "bfloat16", "--unfrozen_parameters", "model.layers.1"});
  expect_same_when_resumed(config::Method::kDpo, fixture("trl_dpo/explicit.jsonl"), {});
  expect_same_when_resumed(config::Method::kGrpo, fixture("trl_grpo/prompts.jsonl"),
                           {"--reward_funcs", "think_format_reward", "--num_generations", "4", "--beta",
                            "0.04", "--max_completion_length", "8"});
}

TEST_F(FullRun, TheReferenceOfAResumedRunIsTheModelAsItBegan) {
  expect_same_when_resumed(config::Method::kKto, fixture("trl_kto/rows.jsonl"), {"--bf16", "false"});
  expect_same_when_resumed(config::Method::kReward, fixture("trl_reward/explicit.jsonl"), {});
}

// The optimizer's step layer by layer in the backward: the bits of the step after it, with clipping and without.
TEST_F(FullRun, LayerByLayerHasTheBitsOfOneStep) {
  const fs::path text = fixture("sft/text.jsonl"), pairs = fixture("trl_dpo/explicit.jsonl");
  const std::vector<std::tuple<config::Method, fs::path, Words>> runs = {
      {config::Method::kSft, text, {}},
      {config::Method::kSft, text, {"--max_grad_norm", "0"}},
      {config::Method::kSft,
       text,
       {"--max_grad_norm", "0.05", "--weight_decay", "0.1", "--recompute", "layer"}},
      {config::Method::kSft, text, {"--optim", "adamw_bnb_8bit", "--packing", "--max_length", "64"}},
      {config::Method::kSft, text, {"--optim", "adafactor", "--bf16", "false"}},
      {config::Method::kSft, text, {"--unfrozen_parameters", "model.layers.1", "--max_grad_norm", "0"}},
      {config::Method::kDpo, pairs, {}},
      {config::Method::kOrpo, pairs, {"--max_grad_norm", "0"}},
      {config::Method::kReward, fixture("trl_reward/explicit.jsonl"), {}}};
  for (const auto& [method, data, more] : runs) {
    fs::remove_all(root_);
    layer_steps_ = false;
    go(method, words("once", data, more));
    const std::vector<StepFacts> once = keeper_.steps;
    layer_steps_ = true;
    go(method, words("layers", data, more));
    const std::string what = more.empty() ? "no options" : more.front();
    EXPECT_TRUE(file("layers/model.safetensors") == file("once/model.safetensors")) << what;
    EXPECT_TRUE(file(fs::path("layers/checkpoint-6") / kOptimizerFile) ==
                file(fs::path("once/checkpoint-6") / kOptimizerFile))
        << what;
    ASSERT_EQ(keeper_.steps.size(), once.size());
    for (std::size_t i = 0; i < once.size(); ++i) {
      EXPECT_EQ(keeper_.steps[i].grad_norm, once[i].grad_norm) << what;
      EXPECT_EQ(keeper_.steps[i].loss, once[i].loss) << what;
    }
  }
}

TEST_F(FullRun, LayerByLayerResumesBitForBit) {
  layer_steps_ = true;
  const fs::path text = fixture("sft/text.jsonl");
  expect_same_when_resumed(config::Method::kSft, text, {});
  expect_same_when_resumed(config::Method::kSft, text, {"--max_grad_norm", "0", "--optim", "adamw_bnb_8bit"});
}

// Layers above the one that diverged have taken the step: that is never saved.
TEST_F(FullRun, LayerByLayerNeverSavesHalfAStep) {
  const fs::path text = fixture("sft/text.jsonl");
  for (const char* clip : {"0", "1"}) {
    fs::remove_all(root_);
    layer_steps_ = true;
    try {
      go(config::Method::kSft,
         words("run", text, {"--max_grad_norm", clip, "--learning_rate", "1e37", "--bf16", "false"}));
      ADD_FAILURE() << "expected a UserError";
    } catch (const base::UserError& error) {
      EXPECT_NE(std::string(error.what()).find("a finite loss and gradient"), std::string::npos)
          << error.what();
    }
    for (const auto& entry : fs::directory_iterator(root_ / "run"))
      EXPECT_FALSE(entry.path().filename().string().starts_with("checkpoint-")) << entry.path();
  }
}

// A run that saves nothing between needs room for its result alone.
TEST_F(FullRun, WithoutCheckpointsTheOptimizerNeedsNoRoom) {
  const auto needs = [&](const Words& more) {
    fs::remove_all(root_);
    const config::Plan plan =
        config::parse_run(config::Method::kSft, words("run", fixture("sft/text.jsonl"), more));
    const auto run = open_run(plan, keeper_);
    const std::int64_t values = static_cast<std::int64_t>(run->adapter->flat().nbytes());
    return bytes_to_save(plan, *run->adapter, run->resume_state->optimizer, false) / values;
  };
  const std::int64_t alone = needs({"--save_strategy", "no"});
  EXPECT_GE(alone, 1);
  EXPECT_EQ(needs({}), alone + 2);  // both moments of AdamW
  EXPECT_EQ(needs({"--save_strategy", "best", "--metric_for_best_model", "loss", "--eval_strategy", "steps",
                   "--eval_dataset", fixture("sft/text.jsonl").string()}),
            alone + 2);
}

TEST_F(FullRun, ACheckpointIsAModel) {
  const fs::path text = fixture("sft/text.jsonl");
  go(config::Method::kSft, words("run", text, {"--dtype", "bfloat16"}));
  const auto result = model::open_weights(root_ / "run");
  const auto checkpoint = model::open_weights(root_ / "run" / "checkpoint-6");
  EXPECT_EQ(result->stored_dtype("model.norm.weight"), at::kBFloat16) << "in the run's dtype";
  EXPECT_EQ(checkpoint->stored_dtype("model.norm.weight"), at::kFloat) << "the masters";
  for (const std::string& name : result->names()) {
    EXPECT_TRUE(result->read(name, at::kFloat).equal(checkpoint->read(name, at::kBFloat16).to(at::kFloat)))
        << name;
  }
  // It is the model of another run.
  Words next = words("next", text, {});
  next[1] = (root_ / "run" / "checkpoint-6").string();
  go(config::Method::kSft, next);
  EXPECT_EQ(keeper_.start.trained.whole, (Words{"every tensor of the model"}));
  EXPECT_EQ(keeper_.start.trained.parameters, keeper_.start.trained.base_parameters);
}

TEST_F(FullRun, TheBestCheckpointIsTheResult) {
  go(config::Method::kSft, words("run", fixture("sft/text.jsonl"),
                                 {"--eval_dataset", fixture("sft/eval_text.jsonl").string(),
                                  "--eval_strategy", "steps", "--eval_steps", "2", "--load_best_model_at_end",
                                  "--metric_for_best_model", "loss", "--greater_is_better", "true"}));
  // the largest loss is the first evaluation's
  EXPECT_TRUE(file("run/model.safetensors") == file("run/checkpoint-2/model.safetensors"));
  EXPECT_FALSE(file("run/model.safetensors") == file("run/checkpoint-6/model.safetensors"));
}

TEST_F(FullRun, WhatIsFrozenStaysAsItWas) {
  go(config::Method::kSft,
     words("run", fixture("sft/text.jsonl"),
           {"--unfrozen_parameters", "model.layers.1.mlp", "--max_shard_size", "100000"}));
  EXPECT_TRUE(fs::exists(root_ / "run" / kModelIndexFile));
  const auto before = model::open_weights(fixture("tiny_llama")), after = model::open_weights(root_ / "run");
  for (const std::string& name : after->names()) {
    const bool same = after->read(name, at::kFloat).equal(before->read(name, at::kFloat));
    EXPECT_EQ(same, !name.starts_with("model.layers.1.mlp")) << name;
  }
}

TEST_F(FullRun, TheSamplerIsTheTrainer) {
  go(config::Method::kGrpo, words("run", fixture("trl_grpo/prompts.jsonl"),
                                  {"--reward_funcs", "think_format_reward", "--num_generations", "4",
                                   "--max_completion_length", "8"}));
  ASSERT_EQ(keeper_.steps.size(), 6U);
  const bool exact = base::machine_has(base::InstructionLevel::kAvx512Bf16);
  for (const StepFacts& step : keeper_.steps) {
    for (const auto& [name, value] : step.metrics) {
      if (name == "ratio_gap") {
        EXPECT_LE(value, exact ? 0 : 0.05) << "step " << step.step;
      }
    }
  }
}

TEST_F(FullRun, AnAdaptersCheckpointIsNotResumed) {
  const fs::path text = fixture("sft/text.jsonl");
  go(config::Method::kSft, words("run", text, {"--use_peft", "true"}));
  Words again = words("run", text, {"--resume_from_checkpoint", "true"});
  try {
    go(config::Method::kSft, again);
    ADD_FAILURE() << "expected a UserError";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("use_peft changed"), std::string::npos) << error.what();
  }
}

}  // namespace full_run_test
}  // namespace hone::train
