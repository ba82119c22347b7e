// A DPO run from the outside: what it leaves alone, resuming, rehearsing, evaluation without training.
#include "train/opening/open_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "config/parse.h"

namespace hone::train {
namespace dpo_test {

namespace fs = base::fs;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

class DpoRun : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(out_); }

  std::unique_ptr<OpenedRun> open(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--model_name_or_path",
                                      (kFixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      (kFixtures / "trl_dpo" / "explicit.jsonl").string(),
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
    return open_run(config::parse_run(config::Method::kDpo, words), silent_);
  }

  RunListener silent_;
  fs::path out_ = fs::temp_directory_path() / ("hone_dpo_test_" + std::to_string(getpid()));
};

std::vector<std::uint32_t> hashes(const model::CausalLm& model) {
  std::vector<std::uint32_t> out;
  for (const auto& [name, tensor] : model.frozen_tensors()) {
    const at::Tensor x = tensor.contiguous();
    out.push_back(base::crc32c({static_cast<const std::byte*>(x.const_data_ptr()), x.nbytes()}));
  }
  return out;
}

// A new adapter is its reference: loss ln 2, rewards 0, in every form; and its gradient is not 0.
TEST_F(DpoRun, BeginsAtItsReference) {
  for (const std::vector<std::string>& form :
       {std::vector<std::string>{}, {"--no_share_prompt"}, {"--layer_form", "plain"}}) {
    const auto run = open(form);
    run->adapter->zero_gradient();
    const StepLoss found = run->method->backward(0);
    EXPECT_NEAR(found.loss, std::log(2.0), 1e-6);
    for (const auto& [name, value] : found.metrics) {
      if (name.starts_with("rewards/")) {
        EXPECT_EQ(value, 0) << name;
      }
    }
    EXPECT_GT(run->adapter->flat_gradient().abs().max().item<double>(), 0);
  }
}

// What hone plan measures a token by: the cost of a rehearsed row is that of the row in a step.
TEST_F(DpoRun, ARehearsedRowCostsWhatAStepCounts) {
  const auto run = open({"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "1"});
  std::vector<std::int64_t> steps, rehearsed;
  for (std::int64_t step = 0; step < run->method->steps_per_epoch(); ++step)
    steps.push_back(run->method->step_costs(step).at(0));
  for (std::size_t row = 0; row < steps.size(); ++row) {
    RehearsalRequest request = {.max_tokens = 4096};
    request.index = static_cast<std::int64_t>(row);
    request.backward = false;
    rehearsed.push_back(run->method->rehearse(request).cost);
  }
  std::sort(steps.begin(), steps.end());
  std::sort(rehearsed.begin(), rehearsed.end());
  ASSERT_GT(steps.size(), 10U);
  std::vector<std::int64_t>
      others;  // of the data's one pair with equal sides, for which the next is rehearsed
  std::set_difference(steps.begin(), steps.end(), rehearsed.begin(), rehearsed.end(),
                      std::back_inserter(others));
  EXPECT_EQ(others.size(), 1U);
}

TEST_F(DpoRun, RehearsalChangesNothing) {
  const auto run = open({"--adapter_name_or_path", (kFixtures / "tiny_llama" / "adapter").string()});
  const auto before = hashes(*run->model);
  const at::Tensor values = run->adapter->flat().clone();
  run->adapter->zero_gradient();
  const Rehearsal first = run->method->rehearse({.max_tokens = 24});
  const at::Tensor gradient = run->adapter->flat_gradient().clone();
  EXPECT_NEAR(first.loss, std::log(2.0), 1e-6);
  EXPECT_GT(first.nll, 0);
  EXPECT_GT(first.scored, 0);
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

// The reference does not follow the policy.
TEST_F(DpoRun, ReferenceStays) {
  for (const bool continues : {false, true}) {
    std::vector<std::string> words = {"--learning_rate", "1e-2"};
    if (continues)
      words.insert(words.end(), {"--adapter_name_or_path", (kFixtures / "tiny_llama" / "adapter").string()});
    const auto run = open(words);
    const auto margin = [&] {
      run->adapter->zero_gradient();
      for (const auto& [name, value] : run->method->backward(0).metrics) {
        if (name == "rewards/margins") return value;
      }
      return std::nan("");
    };
    EXPECT_EQ(margin(), 0);
    run->adapter->flat().sub_(run->adapter->flat_gradient(), 1e-2);
    EXPECT_GT(margin(), 1e-4);
  }
}

TEST_F(DpoRun, PrecomputedReferenceIsTheSame) {
  const auto loss_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--loss_type",     "ipo",
                                      "--ld_alpha",      "0.5",
                                      "--eval_dataset",  (kFixtures / "trl_dpo" / "eval.jsonl").string(),
                                      "--eval_strategy", "epoch"};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = open(words);
    run->adapter->zero_gradient();
    const double train = run->method->backward(0).loss;
    return std::pair(train, run->method->evaluate().metrics.front().second);
  };
  const auto [train, eval] = loss_of({});
  const auto [train_known, eval_known] =
      loss_of({"--precompute_ref_log_probs", "--precompute_ref_batch_size", "5"});
  EXPECT_NEAR(train, train_known, 1e-5 * std::abs(train));
  EXPECT_NEAR(eval, eval_known, 1e-5 * std::abs(eval));
}

TEST_F(DpoRun, NothingIsWrittenForBadRows) {
  const fs::path file = out_.string() + ".jsonl";
  std::ofstream(file) << R"({"prompt": "a", "chosen": " b", "rejected": " b"})" << "\n";
  EXPECT_THROW(open({"--dataset_name", file.string()}), base::UserError);
  EXPECT_FALSE(fs::exists(out_));
  fs::remove(file);
}

}  // namespace dpo_test
}  // namespace hone::train
