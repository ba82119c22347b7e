// LoRA on a model's linears: choose, attach, read and write PEFT's files, merge.
// Semantics: PEFT 0.21.2 (tuners/lora, tuners_utils.check_target_module_exists, save_and_load).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/frozen_adapters.h"
#include "adapters/full_training.h"
#include "adapters/lora_init.h"
#include "base/files/file.h"
#include "base/json.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"

namespace hone::adapters {

struct LoraConfig {
  std::int64_t r = 8;
  double alpha = 8;
  double dropout = 0;
  std::vector<std::string> target_modules;  // empty: the family's default (q_proj, v_proj)
  bool target_is_regex = false;             // a single string in PEFT: full-match regex, or "all-linear"
  std::vector<std::string> exclude_modules;
  bool exclude_is_regex = false;
  // Ends of names of parameters of experts and routers (expert_targets.h), "mlp.experts.gate_up_proj".
  std::vector<std::string> target_parameters;
  // A pattern of modules' names to their rank, or alpha, instead of r and alpha (ranks.h); the first that matches.
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  // Limits a list of target_modules, which names modules by their ends, to these layers. Empty: all.
  std::vector<std::int64_t> layers_to_transform;
  std::vector<std::string> layers_pattern;  // what the list of layers is called; empty: anything
  // Ends of names of modules that are trained in full besides the LoRA: embed_tokens, lm_head, norms; and which
  // biases of the base are (whole_modules.h).
  std::vector<std::string> modules_to_save;
  TrainedBias bias = TrainedBias::kNone;
  bool rslora = false;
  bool dora = false;
  LoraInit init = LoraInit::kTrue;
  std::int64_t pissa_niter = 0;  // steps of the randomized decomposition; 0: the whole one
  // A reward model's: score.weight [1, hidden size] is trained in full in addition to the LoRA (PEFT's
  // task_type SEQ_CLS and modules_to_save).
  bool score_head = false;
  // Rows of the embedding, by token id, that are trained in addition to the LoRA (PEFT's
  // trainable_token_indices); with a tied head they are the head's rows too, as PEFT ties them.
  std::vector<std::int64_t> token_indices;
  // the name they have in PEFT's mapping form, "embed_tokens"; empty: its list form
  std::string token_module;
  // The mapping names the head too, with the same ids: what a tied head has in any case.
  bool tokens_of_head = false;
  std::string base_model_name_or_path;
  // Full fine-tuning: these tensors of the model are trained, and nothing else here is read but score_head.
  std::optional<FullTraining> full;
  double scale() const;  // alpha / r, or alpha / sqrt(r): of modules that no pattern names
};

// A module's name of the target or exclude list, as PEFT compares: the whole name, or its end after a dot.
bool matches_entry(const std::string& module, const std::string& entry);
// "all-linear" in any case, where a single string was given.
bool is_all_linear(const LoraConfig& config);

// Names of the modules the config selects: linears of the layers in model order, the head, the embedding.
// UserError when any entry matches nothing, even when others match (with a did-you-mean). A regex is Python's
// (base/strings/pattern.h, with its limits), full match. all-linear leaves out the head, as PEFT does.
std::vector<std::string> select_targets(const LoraConfig& config, const model::CausalLm& model);
// The same on names only. `strict` false lets list entries match nothing, as PEFT does: for files written by
// others.
std::vector<std::string> select_targets(const LoraConfig& config, const model::ModelConfig& model,
                                        bool strict);
// The config with target_modules as PEFT records it: a list or a regex stays; all-linear becomes the names of
// every linear, excluded ones too, or their last parts when there are 20 or more; none the family's list.
LoraConfig with_recorded_targets(LoraConfig config, const model::ModelConfig& model);

// One tensor of the model that is trained in full, in fp32 (whole_modules.h).
struct WholeTensor {
  std::string name;  // Hugging Face's: "lm_head.weight"
  std::string
      key;  // PEFT's: "base_model.model.lm_head.weight"; the bias of an adapted linear is in its base_layer
  std::vector<std::int64_t> shape;
};

// A module's rank and its scale: alpha / r, or alpha / sqrt(r) with rsLoRA (ranks.h).
struct ModuleRank {
  std::int64_t r = 0;
  double scale = 1;
};

// One trainable tensor. `name` is PEFT's key:
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". With DoRA a module has a third,
// "....lora_magnitude_vector" [out]. After the modules' come "....embed_tokens.lora_embedding_A" [r, V] and B [H,
// r], the rows of token_indices, [k, H]:
// "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta" (not a difference: the rows), and
// what is trained in full (whole_modules.h).
struct TrainableTensor {
  std::string name;
  at::Tensor value;  // fp32, requires grad; a view into Adapter::flat
};

// An Adapter is what a run trains, an adapter or the model in full: parameters in one flat fp32 buffer on the
// model's device; the model's LoraSides and trained tensors are views into it. The model must outlive the
// adapter, and holds one adapter at a time: attach and load replace the sides of an earlier one. Frozen
// adapters below it (frozen_adapters.h) come before it and stay; DoRA above them is a UserError.
class Adapter {
 public:
  // A new adapter attached to `model`; A is initialized by counter-based randomness (seed, kLoraInit, module,
  // index); of the embedding it is B, as in PEFT. The rows of token_indices and what is trained in full start as
  // the base's, in fp32: `source` is where the model was read from. With config.score_head the head is 0: the caller
  // fills score(). UserError for token_indices outside the vocabulary. PiSSA subtracts the r largest singular
  // directions from each target's frozen weight and initializes A and B with them (pissa.h): the model
  // without its adapter is then no longer the base.
  static Adapter attach(model::CausalLm& model, const LoraConfig& config, std::uint64_t seed,
                        const model::WeightSource* source = nullptr);
  // A PiSSA run's saved adapter, in a model that was opened again: restores base, values and
  // initial_values().
  static Adapter resume_pissa(model::CausalLm& model, const base::fs::path& folder, const LoraConfig& config);
  // Full fine-tuning (config.full): the tensors start as in `source`, from which the model was read, and which must
  // outlive the adapter: save() takes frozen tensors and config.json from it. With config.score_head the caller fills
  // score(). UserError for a quantized model. No gradient is held until hold_gradient().
  static Adapter attach_full(model::CausalLm& model, const LoraConfig& config,
                             const model::WeightSource& source);
  // The same with the values of a checkpoint that save() wrote.
  static Adapter resume_full(model::CausalLm& model, const LoraConfig& config,
                             const model::WeightSource& source, const model::WeightSource& checkpoint);
  // PEFT's folder: adapter_config.json + adapter_model.safetensors. UserError when shapes, keys or options
  // differ from what hone can honor (named).
  static Adapter load(model::CausalLm& model, const base::fs::path& folder);

  // Writes adapter_config.json and adapter_model.safetensors as PEFT does (fp32, metadata format=pt) into
  // `folder`, which is created if needed, and base_adapters.json if there are frozen adapters below. A PiSSA
  // adapter is written as the LoRA of rank 2r on the unchanged base that does the same: [A; A0] and [B, -B0]
  // with twice the alpha (PEFT's subtract_mutated_init). In full fine-tuning a model's folder, with weights in `dtype`
  // (an adapter is fp32); for a checkpoint fp32, which are the masters themselves.
  // `before`, in full fine-tuning: called with the name of each tensor before it is read.
  using BeforeRead = std::function<void(const std::string& tensor)>;
  void save(const base::fs::path& folder, at::ScalarType dtype = at::kFloat,
            const BeforeRead& before = {}) const;
  // Full fine-tuning: the model of `checkpoint`, which save() wrote, in `dtype`.
  void save_checkpoints_model(const base::fs::path& folder, const base::fs::path& checkpoint,
                              at::ScalarType dtype) const;
  bool is_full() const { return config_.full.has_value(); }

  const LoraConfig& config() const { return config_; }  // with_recorded_targets
  const std::vector<TrainableTensor>& tensors() const { return tensors_; }
  at::Tensor flat() const { return flat_; }  // [P] fp32: every parameter, in tensors() order
  // [P] fp32: the .grad of each is a view into it; undefined after release_gradient()
  at::Tensor flat_gradient() const { return flat_gradient_; }
  // No tensor has a .grad until hold_gradient(), which makes them again, as zeros: for whoever gives them gradients of
  // another place (train/loop/layer_steps.h).
  void release_gradient();
  void hold_gradient();
  // The initial values of a PiSSA adapter, with which the model equals the base. Undefined for others.
  const at::Tensor& initial_values() const { return initial_values_; }
  at::Tensor score() const { return score_; }  // [1, H] fp32, the last of tensors(); undefined: no head
  at::Tensor token_rows() const { return token_rows_; }  // [k, H] fp32; undefined: no token_indices
  // Returns the tensors that are trained in full, by the model's names: "lm_head.weight", ...
  const std::vector<WholeTensor>& whole() const { return whole_; }
  void zero_gradient();
  void set_dropout(double p);  // of every adapted module, and of the config that is saved
  void set_base_model_name(std::string name) { config_.base_model_name_or_path = std::move(name); }
  // Call this when the model's vocabulary is not that of its files (WeightSource::replaced). save() then
  // writes the base's matrices too, where PEFT writes and reads them. `source` must outlive the adapter.
  void set_vocabulary(const model::WeightSource& source) { vocabulary_ = &source; }
  void set_frozen_adapters(FrozenAdapters below) {
    frozen_adapters_ = std::move(below);
  }  // the adapters below it: recorded when saved

 private:
  // Buffers, views and sides for `targets`; values are zero. `strict`: the options are this run's.
  static Adapter make(model::CausalLm& model, const LoraConfig& config, std::vector<std::string> targets,
                      bool strict);
  using View = std::function<at::Tensor(const std::vector<std::int64_t>& shape, const std::string& key)>;
  std::int64_t size_of(const model::ModelConfig& model, const std::vector<ModuleRank>& ranks) const;
  void make_sides(const std::vector<ModuleRank>& ranks, const View& view);
  void make_parts(model::CausalLm& model, const std::vector<ModuleRank>& ranks, const View& view);
  void init_module(std::size_t index, std::uint64_t seed);
  static Adapter make_full(model::CausalLm& model, const LoraConfig& config,
                           const model::WeightSource& source);
  void read_whole(const model::WeightSource& source);
  void save_full(const base::fs::path& folder, at::ScalarType dtype, const BeforeRead& before) const;
  void add_vocabulary(std::map<std::string, at::Tensor>& tensors) const;  // of vocabulary_, by PEFT's keys
  // Rows of token_indices and tensors in full, as the base's; from `source` in fp32 where it is given.
  void init_from_base(const model::CausalLm& model, const model::WeightSource* source);
  std::size_t tensors_per_module() const { return config_.dora ? 3 : 2; }
  LoraConfig config_;
  FrozenAdapters frozen_adapters_;
  std::vector<std::string> targets_;
  std::vector<ops::Linear*> linears_;  // the model's that are targets_, the head too
  bool embeds_ = false;                // the last of targets_ is the embedding
  std::vector<WholeTensor> whole_;     // in the order of whole_values_
  std::vector<at::Tensor> whole_values_;
  std::vector<TrainableTensor> tensors_;
  at::Tensor flat_, flat_gradient_, initial_values_, token_rows_, score_;
  const model::WeightSource* source_ = nullptr;  // of a model that is trained in full
  const model::WeightSource* vocabulary_ = nullptr;
};

// The head of a reward model that is trained in full, in its folder.
constexpr const char* kScoreName = "score.weight";

// The tensor of the rows of token_indices.
bool is_token_rows(const TrainableTensor& tensor);
// The half of a LoRA that starts at 0: lora_B, or lora_embedding_A.
bool starts_at_zero(const TrainableTensor& tensor);

// UserError unless the adapter in `where` is of a reward model, or of a language model, as `score_head` says.
void require_kind(const LoraConfig& config, bool score_head, const std::string& where);

}  // namespace hone::adapters
