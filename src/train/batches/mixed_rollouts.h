// The completions of generalized knowledge distillation (arXiv 2306.13649, Algorithm 1): some micro-batches have what the trained
// model samples, the others what the data give or what the teacher samples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/forms/given_completions.h"
#include "train/batches/rollout_source.h"

namespace hone::train {

// The completions of the data. All must outlive it.
class GivenRollouts final : public RolloutSource {
 public:
  GivenRollouts(const PolicyPrompts& prompts, const std::vector<data::GivenCompletion>& given,
                const text::Tokenizer& tokenizer);

  const std::vector<std::string>& reward_names() const override { return names_; }
  SourcedRollouts make(const RolloutRequest& request) override;
  bool has_parts() const override { return true; }
  std::int64_t prompt_tokens(std::int64_t row) const override {
    return static_cast<std::int64_t>(given_.at(static_cast<std::size_t>(row)).prompt.size());
  }

 private:
  const PolicyPrompts& prompts_;
  const std::vector<data::GivenCompletion>& given_;
  const text::Tokenizer& tokenizer_;
  std::vector<std::string> names_;
};

struct MixOptions {
  double lmbda = 1;              // the share of micro-batches that the model samples
  std::int64_t micro_batch = 1;  // prompts of one
  std::uint64_t seed = 42;
};

// True: a distillation some of whose micro-batches have completions of others. A replayed file has all completions.
bool mixes(const config::Plan& plan);
MixOptions mix_options(const config::Plan& plan);

// Says whether micro-batch `index` of a generation batch is the model's. These numbers alone decide it, where TRL draws
// from Python's random numbers.
bool is_sampled(const MixOptions& options, std::int64_t generation, std::int64_t index);

// One completion a prompt. Evaluations are the model's.
class MixedRollouts final : public RolloutSource {
 public:
  MixedRollouts(std::unique_ptr<RolloutSource> model, std::unique_ptr<RolloutSource> others,
                MixOptions options);

  const std::vector<std::string>& reward_names() const override { return model_->reward_names(); }
  SourcedRollouts make(const RolloutRequest& request) override;
  bool has_parts() const override { return true; }
  std::int64_t prompt_tokens(std::int64_t row) const override { return model_->prompt_tokens(row); }
  bool has_the_trainers_scores() const override { return model_->has_the_trainers_scores(); }

 private:
  std::unique_ptr<RolloutSource> model_, others_;
  MixOptions options_;
};

}  // namespace hone::train
