// A model's tensors come from a Hugging Face folder (model.safetensors, or shards with an index) or a GGUF.
// Tensors have Hugging Face's names and are memory-mapped until they are read.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/safetensors.h"
#include "model/config/model_config.h"
#include "ops/quantized.h"

namespace hone::model {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& config() const = 0;
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;
  virtual std::vector<std::int64_t> shape(const std::string& name) const = 0;
  // Reads into `out`: contiguous, of shape(name) (for example rows of a concatenated matrix), rounded to its
  // dtype. UserError when absent (naming the file and similar names). The file's pages are released from
  // resident memory afterwards.
  virtual void read_into(const std::string& name, at::Tensor out) const = 0;
  at::Tensor read(const std::string& name, at::ScalarType dtype) const;    // a new tensor
  virtual at::ScalarType stored_dtype(const std::string& name) const = 0;  // GGUF quantized: float32
  // The scheme of this matrix when bitsandbytes quantized it (bnb_files.h): names() then has only its codes,
  // while shape() and read_into() are those of the dequantized matrix. Empty: not quantized, or absent.
  virtual std::optional<ops::QuantScheme> quantization(const std::string& /*name*/) const {
    return std::nullopt;
  }
  // A matrix that quantization() names. UserError when a part is absent or damaged.
  virtual ops::Quantized read_quantized(const std::string& name) const;
  // The scheme of this matrix when it can stay in a GGUF's blocks for products in `compute` (ops/kept_ggml.h); then
  // read_blocks() has the values of read_into().
  virtual std::optional<ops::QuantScheme> blocks(const std::string& /*name*/,
                                                 at::ScalarType /*compute*/) const {
    return std::nullopt;
  }
  virtual ops::Quantized read_blocks(const std::string& name) const;
  // For a text model inside another one (wrappers.h) these return the tensors of the other parts as they are
  // in the files, valid while the source lives, and the name that the files have for a tensor.
  virtual std::vector<base::StoredTensor> other_parts() const { return {}; }
  virtual std::string stored_name(const std::string& name) const { return name; }
  virtual bool is_gguf() const = 0;
  virtual const base::fs::path& path() const = 0;  // as given: the folder or the .gguf file
  // Returns where its tokenizer is: path(), or a folder of files that know more tokens (vocabulary_source.h).
  virtual const base::fs::path& tokenizer_path() const { return path(); }
  // The matrices of the vocabulary that are not those of the files at path().
  virtual std::vector<std::string> replaced() const { return {}; }
};

// Chooses the kind by `path`. UserError for a folder without config.json or weights, an index that names a
// missing shard, or a file of another format.
std::unique_ptr<WeightSource> open_weights(const base::fs::path& path);

// The two kinds, between which open_weights chooses.
std::unique_ptr<WeightSource> open_hf_folder(const base::fs::path& folder);
std::unique_ptr<WeightSource> open_gguf(const base::fs::path& file);

// Throws a UserError with `name`, the contents of `where`, and the most similar name there.
[[noreturn]] void throw_absent_tensor(const std::string& where, const std::string& name,
                                      const std::vector<std::string>& present);

}  // namespace hone::model
