// A KTO run from the outside: where it begins, what it leaves alone, rehearsing, its reference.
#include "train/opening/open_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "config/parse.h"

namespace hone::train {
namespace kto_test {

namespace fs = base::fs;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

class KtoRun : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(out_); }

  std::unique_ptr<OpenedRun> open(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--model_name_or_path",
                                      (kFixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      (kFixtures / "trl_kto" / "rows.jsonl").string(),
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
    return open_run(config::parse_run(config::Method::kKto, words), silent_);
  }

  RunListener silent_;
  fs::path out_ = fs::temp_directory_path() / ("hone_kto_test_" + std::to_string(getpid()));
};

std::map<std::string, double> metrics_of(const StepLoss& step) {
  return {step.metrics.begin(), step.metrics.end()};
}

std::vector<std::uint32_t> hashes(const model::CausalLm& model) {
  std::vector<std::uint32_t> out;
  for (const auto& [name, tensor] : model.frozen_tensors()) {
    const at::Tensor x = tensor.contiguous();
    out.push_back(base::crc32c({static_cast<const std::byte*>(x.const_data_ptr()), x.nbytes()}));
  }
  return out;
}

// A new adapter is its reference: loss 1/2, KL and rewards 0, in every form; and its gradient is not 0.
TEST_F(KtoRun, BeginsAtItsReference) {
  for (const std::vector<std::string>& form : {std::vector<std::string>{},
                                               {"--layer_form", "plain"},
                                               {"--loss_type", "apo_zero_unpaired"},
                                               {"--init_lora_weights", "pissa"}}) {
    const auto run = open(form);
    run->adapter->zero_gradient();
    const StepLoss found = run->method->backward(0);
    EXPECT_NEAR(found.loss, 0.5, 1e-6);
    const auto metrics = metrics_of(found);
    EXPECT_NEAR(metrics.at("kl"), 0, 1e-4);
    EXPECT_NEAR(metrics.at("rewards/margins"), 0, 1e-4);
    EXPECT_GT(run->adapter->flat_gradient().abs().max().item<double>(), 0);
  }
}

TEST_F(KtoRun, RehearsalChangesNothing) {
  const auto run = open({"--adapter_name_or_path", (kFixtures / "tiny_llama" / "adapter").string()});
  const auto before = hashes(*run->model);
  const at::Tensor values = run->adapter->flat().clone();
  run->adapter->zero_gradient();
  const Rehearsal first = run->method->rehearse({.max_tokens = 24});
  const at::Tensor gradient = run->adapter->flat_gradient().clone();
  EXPECT_NEAR(first.loss, 0.5, 1e-4);
  EXPECT_GT(first.nll, 0);
  EXPECT_GT(first.scored, 0);
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
TEST_F(KtoRun, ReferenceStays) {
  for (const bool continues : {false, true}) {
    std::vector<std::string> words = {"--learning_rate", "1e-2", "--loss_type", "apo_zero_unpaired"};
    if (continues)
      words.insert(words.end(), {"--adapter_name_or_path", (kFixtures / "tiny_llama" / "adapter").string()});
    const auto run = open(words);
    const auto margin = [&] {
      run->adapter->zero_gradient();
      return metrics_of(run->method->backward(0)).at("rewards/margins");
    };
    EXPECT_NEAR(margin(), 0, 1e-4);
    run->adapter->flat().sub_(run->adapter->flat_gradient(), 1.0);
    EXPECT_GT(margin(), 1e-3);
  }
}

TEST_F(KtoRun, PrecomputedReferenceIsTheSame) {
  const auto loss_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "--adapter_name_or_path", (kFixtures / "tiny_llama" / "adapter").string(),
        "--eval_dataset",         (kFixtures / "trl_kto" / "eval.jsonl").string(),
        "--eval_strategy",        "epoch"};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = open(words);
    run->adapter->flat().mul_(1.5);
    run->adapter->zero_gradient();
    const double train = run->method->backward(0).loss;
    return std::pair(train, run->method->evaluate().metrics.front().second);
  };
  const auto [train, eval] = loss_of({});
  const auto [train_known, eval_known] =
      loss_of({"--precompute_ref_log_probs", "--precompute_ref_batch_size", "5"});
  EXPECT_NEAR(train, train_known, 1e-5);
  EXPECT_NEAR(eval, eval_known, 1e-5);
  EXPECT_GT(std::abs(train - 0.5), 1e-5);
}

TEST_F(KtoRun, NothingIsWrittenForBadRows) {
  const fs::path file = out_.string() + ".jsonl";
  std::ofstream(file) << R"({"prompt": "a", "completion": "", "label": 3})" << "\n";
  EXPECT_THROW(open({"--dataset_name", file.string()}), base::UserError);
  EXPECT_FALSE(fs::exists(out_));
  fs::remove(file);
}

}  // namespace kto_test
}  // namespace hone::train
