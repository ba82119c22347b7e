// A model written as a Hugging Face folder: config.json, generation_config.json, model.safetensors (or shards
// with an index), and the tokenizer's files. What `convert` and `merge` share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/file.h"
#include "model/weight_source.h"

namespace hone::model {

// A tensor to be written in place of the source's, in any float dtype; nullopt: the source's own.
using Adjust = std::function<std::optional<at::Tensor>(const std::string& name)>;

struct ExportOptions {
  std::optional<at::ScalarType> dtype;  // empty: each tensor keeps its stored dtype
  std::optional<ops::QuantScheme>
      quantise;  // the layers' linears, as bitsandbytes and transformers store them
  std::int64_t shard_bytes = 5'000'000'000;  // transformers' limit of one file; also the most memory held
};

struct ExportFacts {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;
  int files = 0;           // of weights
  bool tokenizer = false;  // was there one to write?
};

// Writes every tensor of the family's table; `out` appears whole or not at all. A tied head is left out, as
// transformers does. A quantised source is written in full unless options.quantise is its own scheme: then
// its codes are copied. UserError when `out` exists and is not an empty folder, or when the disk is too
// small.
ExportFacts write_hf_folder(const WeightSource& source, const base::fs::path& out,
                            const ExportOptions& options, const Adjust& adjust = {});

}  // namespace hone::model
