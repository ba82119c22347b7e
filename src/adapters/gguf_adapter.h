// A LoRA adapter as a GGUF of its own, which llama.cpp loads onto its base (`--lora FILE`).
#pragma once

#include <cstdint>

#include "adapters/peft_files.h"
#include "base/files/file.h"
#include "base/gguf/ggml_types.h"
#include "model/config/model_config.h"

namespace hone::adapters {

struct GgufAdapterFacts {
  std::int64_t modules = 0;
  std::int64_t bytes = 0;  // of tensor data
};

// Writes `out` atomically: `adapter.type` lora, `adapter.lora.alpha`, and for each module `<weight>.lora_a`
// [r, in] and `<weight>.lora_b` [out, r] in `type` (F32, BF16 or F16); of the embedding, [V, r] and [H, r].
// llama.cpp multiplies B A with alpha / r: with rslora alpha is scale * r, so that the product is PEFT's, and B of a
// module with a rank or an alpha of its own is scaled. B's rows of q and k are interleaved where the
// family's GGUF has them so. Format: llama.cpp's convert_lora_to_gguf.py and llama-adapter.cpp.
// UserError when `out` exists, for values that `type` cannot hold, and for what the format lacks: DoRA's
// magnitudes, trained rows of the embedding, what is trained in full, a LoRA on a tied head or embedding, a reward
// model's head. `where` is the adapter's folder.
GgufAdapterFacts write_gguf_adapter(const StoredAdapter& adapter, const model::ModelConfig& model,
                                    const base::fs::path& where, const base::fs::path& out,
                                    base::GgmlType type);

}  // namespace hone::adapters
