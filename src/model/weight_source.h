// Where a model's tensors come from: a Hugging Face folder (model.safetensors, or shards with an index) or a
// GGUF. Hands out tensors under Hugging Face's names, memory-mapped until they are read.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "ops/quantised.h"

namespace hone::model {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& config() const = 0;
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;
  virtual std::vector<std::int64_t> shape(const std::string& name) const = 0;
  // Into `out`: contiguous, of shape(name) (rows of a joined matrix, say), rounded to its dtype. UserError
  // when absent (naming the file and near names). What was read leaves no page of the file in resident
  // memory.
  virtual void read_into(const std::string& name, at::Tensor out) const = 0;
  at::Tensor read(const std::string& name, at::ScalarType dtype) const;    // a fresh tensor
  virtual at::ScalarType stored_dtype(const std::string& name) const = 0;  // GGUF quantised: float32
  // How the file holds this matrix, when it is one of bitsandbytes' (bnb_files.h): names() then has its codes
  // alone, shape() and read_into() are those of the numbers it stands for. Empty: held in full, or absent.
  virtual std::optional<ops::QuantScheme> quantisation(const std::string& /*name*/) const {
    return std::nullopt;
  }
  // One that quantisation() names. UserError when a part is absent or damaged.
  virtual ops::Quantised read_quantised(const std::string& name) const;
  virtual bool is_gguf() const = 0;
  virtual const base::fs::path& path() const = 0;  // as opened: the folder or the .gguf file
};

// Detects by what `path` is. UserError for a folder without config.json or weights, an index that names an
// absent shard, a file that is neither.
std::unique_ptr<WeightSource> open_weights(const base::fs::path& path);

// The two kinds, which open_weights chooses between.
std::unique_ptr<WeightSource> open_hf_folder(const base::fs::path& folder);
std::unique_ptr<WeightSource> open_gguf(const base::fs::path& file);

// UserError that names `name`, what `where` holds instead, and the nearest name there.
[[noreturn]] void throw_absent_tensor(const std::string& where, const std::string& name,
                                      const std::vector<std::string>& present);

}  // namespace hone::model
