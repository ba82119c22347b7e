// The weights of a reward model: a decoder, and score.weight [1, hidden size] where a language model has its
// head (LlamaForSequenceClassification and similar).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/weight_source.h"

namespace hone::train {

constexpr const char* kScoreWeight = "score.weight";

// A folder's decoder for CausalLm, with any head: score.weight and lm_head.weight are ignored, and the config
// has no head; what the file says of it stays as it is.
class DecoderSource final : public model::WeightSource {
 public:
  explicit DecoderSource(std::unique_ptr<model::WeightSource> folder);

  const model::ModelConfig& config() const override { return config_; }
  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return !is_head(name) && folder_->has(name); }
  std::vector<std::int64_t> shape(const std::string& name) const override { return folder_->shape(name); }
  void read_into(const std::string& name, at::Tensor out) const override { folder_->read_into(name, out); }
  at::ScalarType stored_dtype(const std::string& name) const override { return folder_->stored_dtype(name); }
  std::optional<ops::QuantScheme> quantization(const std::string& name) const override {
    return folder_->quantization(name);
  }
  ops::Quantized read_quantized(const std::string& name) const override {
    return folder_->read_quantized(name);
  }
  std::optional<ops::QuantScheme> blocks(const std::string& name, at::ScalarType compute) const override {
    return folder_->blocks(name, compute);
  }
  ops::Quantized read_blocks(const std::string& name) const override { return folder_->read_blocks(name); }
  std::vector<base::StoredTensor> other_parts() const override { return folder_->other_parts(); }
  std::string stored_name(const std::string& name) const override { return folder_->stored_name(name); }
  bool is_gguf() const override { return folder_->is_gguf(); }
  const base::fs::path& path() const override { return folder_->path(); }
  const base::fs::path& tokenizer_path() const override { return folder_->tokenizer_path(); }
  std::vector<std::string> replaced() const override { return folder_->replaced(); }

  // score.weight [1, H] in fp32, if the folder has one. UserError when it has several labels.
  std::optional<at::Tensor> score() const;

 private:
  static bool is_head(std::string_view name) { return name == kScoreWeight || name == "lm_head.weight"; }

  std::unique_ptr<model::WeightSource> folder_;
  model::ModelConfig config_;
};

// What transformers begins a score head with that no file has: normal, deviation config.json's
// initializer_range (0.02); counter-based randomness of `seed`. [1, H] fp32.
at::Tensor new_score_head(const model::ModelConfig& config, std::uint64_t seed);

}  // namespace hone::train
