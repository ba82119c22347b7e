// A model written as a Hugging Face folder: config.json, generation_config.json, model.safetensors (or shards
// with an index), and the tokenizer's files. Shared by `convert` and `merge`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/files/file.h"
#include "model/files/weight_source.h"

namespace hone::model {

// A tensor to be written instead of the source's, in any float dtype; nullopt: the source's.
using Adjust = std::function<std::optional<at::Tensor>(const std::string& name)>;

struct ExportOptions {
  std::optional<at::ScalarType> dtype;  // empty: each tensor keeps its stored dtype
  // the layers' linears, as bitsandbytes and transformers store them
  std::optional<ops::QuantScheme> quantize;
  std::int64_t shard_bytes = 5'000'000'000;  // limit of one file; of quantized ones also the most memory held
  // [1, H]: the model is written as a reward model with this head instead of the language model's, as transformers'
  // *ForSequenceClassification with one label; or undefined.
  at::Tensor score = {};
  base::fs::path tokenizer =
      {};  // the folder whose tokenizer is written; empty: WeightSource::tokenizer_path()
};

struct ExportFacts {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;
  int files = 0;           // of weights
  bool tokenizer = false;  // whether there was one to write
};

// Writes every tensor of the family's table and the configurations into the existing `folder`, file by file: for a
// folder that the caller stages. No tokenizer.
ExportFacts write_model_files(const WeightSource& source, const base::fs::path& folder,
                              const ExportOptions& options, const Adjust& adjust = {});

// Of a text model inside another one (wrappers.h) the other parts are copied, and config.json stays that of the whole.
// Writes every tensor of the family's table; `out` is written atomically. A tied head is not written, as in
// transformers. A quantized source is dequantized unless options.quantize is its own scheme; then its codes
// are copied. UserError when `out` exists and is not an empty folder, or when the disk is too small.
ExportFacts write_hf_folder(const WeightSource& source, const base::fs::path& out,
                            const ExportOptions& options, const Adjust& adjust = {});

}  // namespace hone::model
