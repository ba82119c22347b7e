// Merges adapters into a copy of their base model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/files/file.h"
#include "model/config/quantize.h"
#include "model/files/export.h"
#include "model/files/weight_source.h"
#include "ops/quantized.h"

namespace hone::adapters {

// The weights that `adapters` are merged into (open_base), for the functions below and those that write them.
// A tied head is one of its own here when an adapter has trained it or the embedding apart (PEFT's own merge
// loses such a head, or changes both: its issues 2777 and 2864).
std::unique_ptr<model::WeightSource> open_to_merge(const base::fs::path& base_model,
                                                   const std::vector<base::fs::path>& adapters,
                                                   std::vector<std::string>* notes = nullptr);
// Whether the result has a head of its own where the base's is tied. Reads only the adapters' configurations.
bool unties_head(const model::ModelConfig& base, const std::vector<base::fs::path>& adapters);

// The head [1, H] in fp32 of the reward model that the last of `adapters` makes; undefined: none of them is a
// reward model's.
at::Tensor score_of(const std::vector<base::fs::path>& adapters);

// W + s B A of each of `adapters` in fp32 (with DoRA, each row brought to its magnitude) for each module that
// one is on, the embedding with an adapter's rows of it, what an adapter trained in full, nothing for other
// tensors: used by write_hf_folder and write_gguf instead of the base's tensors. `source` is open_to_merge's,
// and must outlive it. UserError for an adapter of another model, for DoRA among several, for rows of the
// embedding, tensors in full and a score head in another than the last, and, when called, for a sum that is
// not finite. `trained_on`, `held_in`: see merge_to_folder.
model::Adjust merged_weights(const model::WeightSource& source, const std::vector<base::fs::path>& adapters,
                             const model::Quantize& trained_on = {}, at::ScalarType held_in = at::kFloat);

// W + s * B A of each of `adapters` in fp32 for every adapted linear, cast back to the base's stored dtype,
// written with everything else of the base model to a new folder (config, generation config, tokenizer,
// template too). A reward model's adapter, the last one, makes a *ForSequenceClassification with its head,
// the tokenizer of its folder, and a pad token, which transformers needs to score batches. The base is never
// changed. UserError when the folder exists and is not empty.
//
// `trained_on`: how the base was quantized while the adapters were trained (load_in_4bit). Every linear of
// the layers (and every expert, where they were quantized) is then dequantized from its codes, as in that run; merging into the unquantized weights would
// give a different model (CKPT-02). Not needed for a base that is stored quantized. `held_in`: the dtype of
// its weights before they were quantized, model::DtypePolicy::residual of the run.
void merge_to_folder(const base::fs::path& base_model, const std::vector<base::fs::path>& adapters,
                     const base::fs::path& out, const model::Quantize& trained_on = {},
                     at::ScalarType held_in = at::kFloat);

}  // namespace hone::adapters
