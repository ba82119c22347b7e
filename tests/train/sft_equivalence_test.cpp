// Promise 2, equal means equal: what is one run in another order of arithmetic ends in the same adapter; what
// is the same arithmetic ends in the same bits. With dropout on: its masks belong to rows, not to batches.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>

#include "base/files/file.h"
#include "base/files/safetensors.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/passes/scored_pass.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace sft_equivalence_test {

namespace fs = base::fs;

class SftEquivalence : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> words(const std::string& name, const std::vector<std::string>& more) const {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    std::vector<std::string> out = {"--model_name_or_path",
                                    (fixtures / "tiny_llama").string(),
                                    "--dataset_name",
                                    (fixtures / "sft/text.jsonl").string(),
                                    "--output_dir",
                                    (folder_ / name).string(),
                                    "--use_peft",
                                    "true",
                                    "--lora_r",
                                    "4",
                                    "--lora_dropout",
                                    "0.1",
                                    "--bf16",
                                    "false",
                                    "--learning_rate",
                                    "0.01",
                                    "--max_steps",
                                    "8",
                                    "--max_length",
                                    "64",
                                    "--save_strategy",
                                    "no",
                                    "--logging_steps",
                                    "3"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  // Runs to the end, or until `stop_after` steps when a listener asks; returns the adapter's file.
  fs::path run(const std::string& name, const std::vector<std::string>& more,
               std::int64_t stop_after = 0) const {
    struct Stopper final : RunListener {
      void on_step(const StepFacts& facts, std::int64_t) override { stop = facts.step == after; }
      std::int64_t after = 0;
      std::atomic<bool> stop = false;
    } stopper;
    stopper.after = stop_after;
    begin_run(*open_run(config::parse_run(config::Method::kSft, words(name, more)), stopper), stopper,
              stopper.stop);
    return folder_ / name / kAdapterWeightsFile;
  }

  // The loss of each step.
  std::vector<double> losses(const std::string& name, const std::vector<std::string>& more) const {
    struct Listener final : RunListener {
      void on_step(const StepFacts& facts, std::int64_t) override { losses.push_back(facts.loss); }
      std::vector<double> losses;
    } listener;
    const std::atomic<bool> stop = false;
    begin_run(*open_run(config::parse_run(config::Method::kSft, words(name, more)), listener), listener,
              stop);
    return listener.losses;
  }

  // The largest difference of two adapters over the largest element, tensor by tensor.
  static double distance(const fs::path& a, const fs::path& b) {
    const auto ours = base::SafetensorsFile::open(a);
    const auto theirs = base::SafetensorsFile::open(b);
    EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
    double worst = 0;
    for (const auto& tensor : ours.tensors()) {
      const auto* other = theirs.find(tensor.name);
      if (other == nullptr) throw std::runtime_error("no tensor " + tensor.name);
      const at::Tensor x = values(tensor);
      const at::Tensor y = values(*other);
      const double error = ((x - y).abs().max() / y.abs().max()).item<double>();
      EXPECT_TRUE(std::isfinite(error)) << tensor.name;
      worst = std::max(worst, error);
    }
    return worst;
  }

  static at::Tensor values(const base::StoredTensor& tensor) {
    at::Tensor out = at::empty(tensor.shape, at::kFloat);
    std::memcpy(out.mutable_data_ptr(), tensor.bytes.data(), tensor.bytes.size());
    return out;
  }

  fs::path folder_ = fs::temp_directory_path() / ("hone_equivalence_" + std::to_string(getpid()));
};

constexpr double kRounding = 2e-5;  // eight AdamW steps of fp32 sums in another order

TEST_F(SftEquivalence, OneByEightIsEightByOne) {
  const auto wide = run("wide", {"--per_device_train_batch_size", "8"});
  const auto deep = run("deep", {"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "8"});
  const double off = distance(wide, deep);
  std::printf("[margin] 1x8 = 8x1: %.2g of %.0e\n", off, kRounding);
  EXPECT_LE(off, kRounding);
  EXPECT_GT(distance(wide, run("other", {"--per_device_train_batch_size", "7"})), 100 * kRounding)
      << "the comparison would miss another batch";
}

TEST_F(SftEquivalence, TheSameRunTwiceIsBitEqual) {
  EXPECT_EQ(base::read_text(run("first", {})), base::read_text(run("second", {})));
}

TEST_F(SftEquivalence, AnotherSeedIsAnotherRun) {
  EXPECT_NE(base::read_text(run("first", {})),
            base::read_text(run("second", {"--seed", "43", "--data_seed", "42"})));
}

TEST_F(SftEquivalence, StoppedAndResumedIsBitEqual) {
  const auto straight = run("straight", {});
  run("stopped", {}, 5);
  EXPECT_EQ(checkpoint_steps(folder_ / "stopped"), std::vector<std::int64_t>{5});
  EXPECT_FALSE(fs::exists(folder_ / "stopped" / kAdapterWeightsFile))
      << "an unfinished run has no final adapter";
  const auto resumed = run("stopped", {"--resume_from_checkpoint", "true"});
  EXPECT_EQ(base::read_text(straight), base::read_text(resumed));
}

// 40 rows: the second pass begins in step 6, in step 8 with rows of three.
TEST_F(SftEquivalence, StreamedRowsAreTheRowsInOrder) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"--per_device_train_batch_size", "3", "--gradient_accumulation_steps", "2"},
      {"--per_device_train_batch_size", "3", "--dataloader_drop_last", "true"},
      {"--per_device_train_batch_size", "2", "--packing", "true"},
      {"--per_device_train_batch_size", "2", "--packing", "true", "--packing_strategy", "wrapped"}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<std::string> streamed = cases[i], sequential = cases[i];
    streamed.insert(streamed.end(), {"--dataset_streaming", "true"});
    sequential.insert(sequential.end(), {"--train_sampling_strategy", "sequential"});
    EXPECT_EQ(base::read_text(run("streamed" + std::to_string(i), streamed)),
              base::read_text(run("sequential" + std::to_string(i), sequential)))
        << i;
  }
}

TEST_F(SftEquivalence, StreamedStoppedAndResumedIsBitEqual) {
  const std::vector<std::string> streams = {"--dataset_streaming", "true"};
  const auto straight = run("straight", streams);
  for (const std::int64_t stop_after : {2, 6}) {
    const std::string name = "stopped" + std::to_string(stop_after);
    run(name, streams, stop_after);
    const auto resumed = run(name, {"--dataset_streaming", "true", "--resume_from_checkpoint", "true"});
    EXPECT_EQ(base::read_text(straight), base::read_text(resumed)) << stop_after;
  }
}

// The rows of the first steps again, as transformers with ignore_data_skip.
TEST_F(SftEquivalence, ARunThatIgnoresTheSkipBeginsAtTheFirstRow) {
  const std::vector<std::string> streams = {"--dataset_streaming", "true", "--learning_rate", "0",
                                            "--lora_dropout",      "0"};
  const std::vector<double> straight = losses("straight", streams);
  run("stopped", streams, 2);
  std::vector<std::string> again = streams;
  again.insert(again.end(), {"--resume_from_checkpoint", "true", "--ignore_data_skip", "true"});
  const std::vector<double> resumed = losses("stopped", again);
  ASSERT_EQ(resumed.size(), 6U);
  ASSERT_EQ(straight.size(), 8U);
  EXPECT_NE(straight[0], straight[2]);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(resumed[i], straight[i]) << i;
}

TEST_F(SftEquivalence, FrozenWeightsKeepTheirBits) {
  const fs::path file = fs::path(HONE_FIXTURES) / "parity/tiny_llama";
  model::CausalLm model(*model::open_weights(file), {});
  std::vector<at::Tensor> before;
  for (const auto& [name, tensor] : model.frozen_tensors()) before.push_back(tensor.clone());
  auto adapter =
      adapters::Adapter::attach(model, {.target_modules = {"all-linear"}, .target_is_regex = true}, 1);
  data::Batch batch;
  for (std::int64_t t = 0; t < 16; ++t) {
    batch.ids.push_back(t + 5);
    batch.positions.push_back(t);
    batch.labels.push_back(t == 0 ? data::kIgnore : t + 5);
  }
  batch.segments.push_back({.begin = 0, .end = 16, .row = 0});
  score_and_backward(model, batch, {.training = true}, 15);
  std::size_t index = 0;
  for (const auto& [name, tensor] : model.frozen_tensors()) {
    EXPECT_TRUE(at::equal(tensor, before[index++])) << name;
    EXPECT_FALSE(tensor.grad().defined()) << name;
  }
}

// The default of TRL's users: bf16 GEMMs, whose operands are copies of the parameters that every step renews.
TEST_F(SftEquivalence, TheFusedFormLearnsInBf16AsTheAutogradFormDoes) {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const std::vector<std::string> more = {"--dtype", dtype, "--bf16", "true", "--layer_form"};
    auto with = [&more](const std::string& form) {
      std::vector<std::string> out = more;
      out.push_back(form);
      return out;
    };
    const auto ours = losses("explicit_" + dtype, with("explicit"));
    const auto plain = losses("plain_" + dtype, with("plain"));
    ASSERT_EQ(ours.size(), 8u);
    ASSERT_EQ(plain.size(), 8u);
    for (std::size_t step = 0; step < ours.size(); ++step) {
      EXPECT_NEAR(ours[step] / plain[step], 1.0, 5e-3) << dtype << ", step " << step + 1;
    }
    EXPECT_LT(ours.back(), 0.97 * ours.front()) << dtype;
  }
}

}  // namespace sft_equivalence_test
}  // namespace hone::train
