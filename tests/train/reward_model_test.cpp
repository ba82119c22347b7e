// Reward-model training from the outside: its head, what it leaves alone, rehearsing, its files as a reward.
#include "train/methods/reward/reward_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "config/parse.h"
#include "train/opening/model_reward.h"
#include "train/opening/open_run.h"

namespace hone::train {
namespace reward_model_test {

namespace fs = base::fs;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

class RewardModelRun : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(out_); }

  std::unique_ptr<OpenedRun> open(const std::vector<std::string>& more = {},
                                  const char* model = "tiny_llama") {
    std::vector<std::string> words = {"--model_name_or_path",
                                      (kFixtures / model).string(),
                                      "--dataset_name",
                                      (kFixtures / "trl_reward" / "explicit.jsonl").string(),
                                      "--output_dir",
                                      out_.string(),
                                      "--use_peft",
                                      "--bf16",
                                      "false",
                                      "--threads",
                                      "1",
                                      "--save_strategy",
                                      "no"};
    words.insert(words.end(), more.begin(), more.end());
    return open_run(config::parse_run(config::Method::kReward, words), silent_);
  }

  RunListener silent_;
  fs::path out_ = fs::temp_directory_path() / ("hone_reward_model_test_" + std::to_string(getpid()));
};

std::vector<std::uint32_t> hashes(const model::CausalLm& model) {
  std::vector<std::uint32_t> out;
  for (const auto& [name, tensor] : model.frozen_tensors()) {
    const at::Tensor x = tensor.contiguous();
    out.push_back(base::crc32c({static_cast<const std::byte*>(x.const_data_ptr()), x.nbytes()}));
  }
  return out;
}

// As transformers draws it: mean 0, deviation initializer_range; the same for the same seed.
TEST_F(RewardModelRun, ANewHeadIsDrawn) {
  const at::Tensor head = open()->adapter->score().detach().clone();
  EXPECT_EQ(head.sizes(), (at::IntArrayRef{1, 64}));
  EXPECT_NEAR(head.std().item<double>(), 0.02, 0.006);
  EXPECT_TRUE(at::equal(head, open()->adapter->score().detach()));
  EXPECT_FALSE(at::equal(head, open({"--seed", "7"})->adapter->score().detach()));
}

// Pairs laid out with their beginning once, twice, and under autograd: the same loss and gradients.
TEST_F(RewardModelRun, EveryFormGivesTheSameGradient) {
  const std::string init = "--init_lora_weights";
  std::vector<at::Tensor> gradients;
  std::vector<double> losses;
  for (const std::vector<std::string>& form : {std::vector<std::string>{init, "false"},
                                               {init, "false", "--no_share_prompt"},
                                               {init, "false", "--layer_form", "plain"},
                                               {init, "false", "--recompute", "layer"}}) {
    const auto run = open(form);
    run->adapter->zero_gradient();
    losses.push_back(run->method->backward(0).loss);
    gradients.push_back(run->adapter->flat_gradient().clone());
  }
  const double size = gradients[0].abs().max().item<double>();
  EXPECT_GT(gradients[0].narrow(0, gradients[0].numel() - 64, 64).abs().max().item<double>(), 0);
  for (std::size_t i = 1; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], losses[0], 1e-5 * losses[0]);
    EXPECT_LT((gradients[i] - gradients[0]).abs().max().item<double>(), 1e-5 * size);
  }
}

TEST_F(RewardModelRun, RehearsalChangesNothing) {
  const auto run = open({"--init_lora_weights", "false"});
  const auto before = hashes(*run->model);
  const at::Tensor values = run->adapter->flat().clone();
  run->adapter->zero_gradient();
  const Rehearsal first = run->method->rehearse({.max_tokens = 24});
  const at::Tensor gradient = run->adapter->flat_gradient().clone();
  EXPECT_GT(first.loss, 0);
  EXPECT_EQ(first.nll, first.loss);
  EXPECT_EQ(first.scored, 2);
  EXPECT_LE(first.tokens, 24);
  EXPECT_GT(gradient.abs().max().item<double>(), 0);
  EXPECT_TRUE(at::equal(run->adapter->flat(), values));
  EXPECT_EQ(hashes(*run->model), before);
  run->adapter->zero_gradient();
  run->method->rehearse({.max_tokens = 24});
  EXPECT_TRUE(at::equal(run->adapter->flat_gradient(), gradient));
  run->adapter->zero_gradient();
  const Rehearsal base = run->method->rehearse({.max_tokens = 24, .backward = false, .adapters_on = false});
  EXPECT_NE(base.nll, first.nll);
  EXPECT_EQ(run->adapter->flat_gradient().abs().max().item<double>(), 0);
}

// The files that a run leaves are a reward with the scores that the run itself gives.
TEST_F(RewardModelRun, ItsFilesAreAReward) {
  const auto run = open({"--max_steps", "3", "--learning_rate", "1e-2"});
  const std::atomic<bool> stop = false;
  begin_run(*run, silent_, stop);
  const data::Records& records = run->data.pairs()->records;
  const reward::RewardPass laid = reward::make_reward_pass({records[0], records[1]}, /*share_prompt=*/true);
  BatchPass pass(*run->model, laid.batch, {}, {});
  const at::Tensor hidden = pass.forward(laid.last, /*trains=*/false).to(at::kFloat);
  const at::Tensor scores = at::linear(hidden, run->model->score_head()).squeeze(1);
  const auto files = open_model_reward(out_.string(), config::Precision::kFloat32);
  rewards::Request request;
  for (const std::size_t i : {0U, 1U}) {
    const data::SequencePair pair = data::sides_of(records[i]);
    for (const data::ScoredSequence& side : {pair.first, pair.second}) {
      std::vector<std::int32_t> ids(side.context.begin(), side.context.end());
      ids.insert(ids.end(), side.scored.begin(), side.scored.end());
      request.prompts.push_back("");
      request.completions.push_back(run->text->tokenizer.decode(ids, false));
    }
  }
  const rewards::Scores found = files->score(request);
  ASSERT_EQ(found.values.size(), 4U);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(found.values[static_cast<std::size_t>(i)], scores[i].item<double>(), 1e-5);
  }
  EXPECT_EQ(files->name(), out_.filename().string());
}

// A run continues an adapter with its head, and no language model's.
TEST_F(RewardModelRun, ContinuesOnlyItsOwnKind) {
  const auto run = open({"--adapter_name_or_path", (kFixtures / "trl_reward" / "adapter").string()});
  EXPECT_GT(run->adapter->score().abs().max().item<double>(), 0.1);
  EXPECT_THROW(open({"--adapter_name_or_path", (kFixtures / "tiny_llama" / "adapter").string()}),
               base::UserError);
}

TEST_F(RewardModelRun, TheFoldersHeadIsTaken) {
  const auto run = open({}, "rewards/tiny_reward");
  EXPECT_GT(run->adapter->score().abs().max().item<double>(), 1);
}

TEST_F(RewardModelRun, AnUnknownPadTokenIsNamed) {
  EXPECT_THROW(open({"--pad_token", "<nowhere>"}), base::UserError);
}

}  // namespace reward_model_test
}  // namespace hone::train
