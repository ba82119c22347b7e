// The first layers of a model as a model: the same embedding, norm and head, fewer layers. For a look at what a device
// computes, which costs little whatever the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/files/weight_source.h"

namespace hone::model {

class FirstLayersSource final : public WeightSource {
 public:
  // `whole` must outlive it. `layers`: at least one, at most all.
  FirstLayersSource(const WeightSource& whole, std::int64_t layers);

  const ModelConfig& config() const override { return config_; }
  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return is_kept(name) && whole_.has(name); }
  std::vector<std::int64_t> shape(const std::string& name) const override { return whole_.shape(name); }
  void read_into(const std::string& name, at::Tensor out) const override { whole_.read_into(name, out); }
  at::ScalarType stored_dtype(const std::string& name) const override { return whole_.stored_dtype(name); }
  std::optional<ops::QuantScheme> quantization(const std::string& name) const override {
    return whole_.quantization(name);
  }
  ops::Quantized read_quantized(const std::string& name) const override {
    return whole_.read_quantized(name);
  }
  std::optional<ops::QuantScheme> blocks(const std::string& name, at::ScalarType compute) const override {
    return whole_.blocks(name, compute);
  }
  ops::Quantized read_blocks(const std::string& name) const override { return whole_.read_blocks(name); }
  std::string stored_name(const std::string& name) const override { return whole_.stored_name(name); }
  bool is_gguf() const override { return whole_.is_gguf(); }
  const base::fs::path& path() const override { return whole_.path(); }
  const base::fs::path& tokenizer_path() const override { return whole_.tokenizer_path(); }

 private:
  bool is_kept(const std::string& name) const;

  const WeightSource& whole_;
  ModelConfig config_;
};

}  // namespace hone::model
