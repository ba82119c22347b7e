// A model with a tied head as one with a head of its own, which is a copy of the embedding: for writing a model in
// which the two are no longer equal.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/files/weight_source.h"

namespace hone::model {

class UntiedSource final : public WeightSource {
 public:
  explicit UntiedSource(std::unique_ptr<WeightSource> tied);

  const ModelConfig& config() const override {
    return config_;
  }  // tie_word_embeddings false, in its JSON too
  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return tied_->has(at(name)); }
  std::vector<std::int64_t> shape(const std::string& name) const override { return tied_->shape(at(name)); }
  void read_into(const std::string& name, at::Tensor out) const override { tied_->read_into(at(name), out); }
  at::ScalarType stored_dtype(const std::string& name) const override {
    return tied_->stored_dtype(at(name));
  }
  std::optional<ops::QuantScheme> quantization(const std::string& name) const override {
    return tied_->quantization(at(name));
  }
  ops::Quantized read_quantized(const std::string& name) const override {
    return tied_->read_quantized(at(name));
  }
  std::optional<ops::QuantScheme> blocks(const std::string& name, at::ScalarType compute) const override {
    return tied_->blocks(at(name), compute);
  }
  ops::Quantized read_blocks(const std::string& name) const override { return tied_->read_blocks(at(name)); }
  std::vector<base::StoredTensor> other_parts() const override { return tied_->other_parts(); }
  std::string stored_name(const std::string& name) const override { return tied_->stored_name(name); }
  bool is_gguf() const override { return tied_->is_gguf(); }
  const base::fs::path& path() const override { return tied_->path(); }
  const base::fs::path& tokenizer_path() const override { return tied_->tokenizer_path(); }
  std::vector<std::string> replaced() const override { return tied_->replaced(); }

 private:
  std::string at(const std::string& name) const { return name == head_ ? embedding_ : name; }

  std::unique_ptr<WeightSource> tied_;
  ModelConfig config_;
  std::string head_, embedding_;  // names of the two tensors
};

}  // namespace hone::model
