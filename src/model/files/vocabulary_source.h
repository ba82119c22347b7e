// A model whose embedding, and head where it has one of its own, are not those of its files: of another
// number of rows, or with other numbers. It is what a model is after transformers' resize_token_embeddings,
// and what PEFT makes of it when an adapter's file has an embedding.
//
// Rows that nobody gives are the mean of the file's rows, summed in the order of the rows in double precision. transformers
// 5.23 draws them from a normal distribution around that mean, whose deviation is 3e-5 of the rows' own
// (modeling_utils.py, _init_added_embeddings_weights_with_mean).
//
// Shapes: V rows of the vocabulary, H hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/files/weight_source.h"

namespace hone::model {

class VocabularySource final : public WeightSource {
 public:
  // `rows`: V. `values`: some of the two matrices by their tensors' names, [V, H], in any float dtype. For a
  // matrix that is not among them, the file's first V rows are taken, and the mean for those that it lacks.
  // `tokenizer`: a folder with the tokenizer of this vocabulary; empty: the model's own. UserError for a
  // model whose layers look tokens up in a vocabulary of their own, when `rows` are more than it has.
  VocabularySource(std::unique_ptr<WeightSource> base, std::int64_t rows,
                   std::map<std::string, at::Tensor> values, base::fs::path tokenizer = {});

  const ModelConfig& config() const override { return config_; }  // its vocab_size is V, in its JSON too
  std::vector<std::string> names() const override { return base_->names(); }
  bool has(const std::string& name) const override { return base_->has(name); }
  std::vector<std::int64_t> shape(const std::string& name) const override;
  void read_into(const std::string& name, at::Tensor out) const override;
  at::ScalarType stored_dtype(const std::string& name) const override { return base_->stored_dtype(name); }
  std::optional<ops::QuantScheme> quantization(const std::string& name) const override {
    return is_replaced(name) ? std::nullopt : base_->quantization(name);
  }
  ops::Quantized read_quantized(const std::string& name) const override {
    return base_->read_quantized(name);
  }
  std::optional<ops::QuantScheme> blocks(const std::string& name, at::ScalarType compute) const override {
    return is_replaced(name) ? std::nullopt : base_->blocks(name, compute);
  }
  ops::Quantized read_blocks(const std::string& name) const override { return base_->read_blocks(name); }
  std::vector<base::StoredTensor> other_parts() const override { return base_->other_parts(); }
  std::string stored_name(const std::string& name) const override { return base_->stored_name(name); }
  bool is_gguf() const override { return base_->is_gguf(); }
  const base::fs::path& path() const override { return base_->path(); }
  const base::fs::path& tokenizer_path() const override {
    return tokenizer_.empty() ? base_->tokenizer_path() : tokenizer_;
  }
  std::vector<std::string> replaced() const override { return replaced_; }

 private:
  bool is_replaced(const std::string& name) const;
  void read_rows(const std::string& name, const at::Tensor& out) const;  // the file's rows, and their mean

  std::unique_ptr<WeightSource> base_;
  ModelConfig config_;
  std::map<std::string, at::Tensor> values_;
  std::vector<std::string> replaced_;
  base::fs::path tokenizer_;
};

}  // namespace hone::model
