// Adapters that were trained on a model with a changed vocabulary. PEFT 0.21.2 then saves the embedding and
// the head beside the LoRA, without a word of it in adapter_config.json (save_and_load.py
// get_peft_model_state_dict, save_embedding_layers: "auto"), and writes them over the model's when it loads
// the adapter, which has to be resized before. AutoPeftModelForCausalLM resizes it as the adapter's tokenizer
// says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adapters/peft_files.h"
#include "base/files/file.h"
#include "model/files/weight_source.h"

namespace hone::adapters {

// Names of the embedding's module, and the head's.
std::vector<std::string> vocabulary_modules(const model::ModelConfig& model);

// Ends of keys of a module's wrapper in PEFT: ".modules_to_save", ".original_module".
constexpr const char* kTrainedCopy = ".modules_to_save";
constexpr const char* kBaseCopy = ".original_module";
// "....lm_head.weight" and kBaseCopy: "....lm_head.original_module.weight".
std::string in_wrapper(const std::string& key, const char* wrapper);

// The keys under which a file may have the base's matrix of `module`; `whole`: the module itself is trained
// in full.
std::vector<std::string> keys_of_base(const std::string& module, bool whole);
// Returns the key under which PEFT looks for the base's matrix of `module`, when it loads an adapter that has
// a LoRA on it (`adapted`), trains it in full (`whole`), or trains rows of it (`rows`).
std::string key_of_base(const std::string& module, bool adapted, bool whole, bool rows);

// `base` as `adapters` were trained on it: with the embedding and the head that their files have, where they
// have one that is not the base's, and the tokenizer of that adapter's folder where the number of rows
// differs, or where it has tokens that the base's lacks in rows that the base has. Adapters that are absent
// or have no such matrices change nothing: who reads them says what is wrong. `notes` (null: not asked) gets
// a sentence about what was replaced. UserError for two adapters with different matrices, for two of a tied
// embedding and head, and for added rows of only one of the two.
std::unique_ptr<model::WeightSource> open_base(const base::fs::path& base,
                                               const std::vector<base::fs::path>& adapters,
                                               std::vector<std::string>* notes = nullptr);

// Adds the matrices of the vocabulary that `source` has instead of its files' to the `tensors` of `adapter`
// that are saved.
void add_vocabulary(const model::WeightSource& source, const StoredAdapter& adapter,
                    std::map<std::string, at::Tensor>& tensors);

}  // namespace hone::adapters
