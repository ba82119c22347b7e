// A decoder-only language model: its weights, its autograd form (hidden(), the reference), and generation.
// The fused training pass is fused_pass.h.
//
// Shapes: T tokens of all segments, packed, H hidden, V vocabulary, N heads, K kv heads, D head_dim.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/records/record.h"
#include "model/config/model_config.h"
#include "model/config/quantize.h"
#include "model/config/rotations.h"
#include "model/files/weight_source.h"
#include "model/layers/decoder_layer.h"
#include "model/layers/layer_cache.h"
#include "model/layers/per_layer.h"
#include "model/layers/token_rows.h"
#include "model/layers/trained_parts.h"
#include "model/pass_observer.h"
#include "ops/head/head_rows.h"
#include "ops/linear.h"
#include "ops/rope.h"
#include "ops/weight.h"

namespace hone::ops {
class KeyPages;
class PageRun;
class PageStep;
}  // namespace hone::ops

namespace hone::model {

class SharedBase;

// What reserve_keys() keeps: the memory of layers that have keys in rows, one each, and of those that have them in pages.
struct ReservedKeys {
  std::vector<std::shared_ptr<ops::backend::KvPool>> rows;
  std::shared_ptr<ops::KeyPages> pages;  // null: no layer
};

// Holds what one sequence keeps in all layers (layer_cache.h), for generation. Grows with every
// CausalLm::step. Sequences with the same beginning may share it as a `prefix`, which they read in place;
// their own tiles start after it, as with data::Segment::prefix in training. A prefix may have one too.
struct KvCache {
  std::vector<LayerCache> layers;         // of its own tokens; empty before the first step
  std::int64_t length = 0;                // tokens, the prefix's included
  std::shared_ptr<const KvCache> prefix;  // read only; null: none
  std::int64_t room = 0;  // capacity in own tokens at the first step; 0: that step's tokens and one
  // Keys and values of its own tokens, of all layers that have them in pages; null: none, or before the first step.
  std::shared_ptr<ops::PageRun> pages = {};
  // Keeps the first `to` tokens, the prefix included, where every layer can go on from there; otherwise only the prefix's.
  // Returns its length.
  std::int64_t truncate(std::int64_t to);
  bool can_truncate(std::int64_t to) const;
  void forget();               // as before the first step; length and prefix stay as they are
  std::int64_t bytes() const;  // of its own tokens, what is shared counted in full
  KvCache clone() const;       // a separate sequence with the same tokens and prefix
  static KvCache after(std::shared_ptr<const KvCache> prefix);
};

// How the frozen matrices are kept (ops/weight.h): plain for methods that only train, packed for those that
// sample. Where packing is not possible (fp32, other machines) they are plain.
enum class Storage { kPlain, kPacked };

// How CausalLm's `keep_blocks` keeps tensor `name` of a GGUF on the CPU, and on a device with own kernels; empty: its
// numbers are in `dtypes`, as are those of a head in fp32, and of a tensor that the file lacks.
std::optional<ops::QuantScheme> kept_scheme(const WeightSource& source, const std::string& name,
                                            const DtypePolicy& dtypes);

class CausalLm {
 public:
  // Reads every tensor the family's table names; UserError for a missing tensor, a wrong shape, or a tensor
  // that the config does not have (more layers, biases or norms than config.json says). A tied head in the
  // file is ignored. With `quantize` a linear is quantized as it is read, from values in the residual's
  // dtype, as transformers does with from_pretrained's dtype; only one linear at a time is held in full
  // precision. The linears of a quantized checkpoint stay as they are.
  // A model is quantized here or never, so that adapters are always attached afterwards (GRAD-04).
  // With `keep_blocks` the linears of a GGUF stay in its blocks where they can (kept_scheme): the same numbers in
  // less memory; `quantize` comes before it.
  // Tensors are read on the CPU, one at a time, and moved to `device`, where the results of all functions
  // below are. `shared`: where the matrices then are, layer by layer (share).
  CausalLm(const WeightSource& source, DtypePolicy dtypes, Storage storage = Storage::kPlain,
           const Quantize& quantize = {}, at::Device device = at::kCPU, bool keep_blocks = false,
           SharedBase* shared = nullptr);
  // The frozen matrices become those of the processes of this host, with the same numbers
  // (model/layers/shared_base.h).
  void share(SharedBase& shared);

  // Final-norm output [T, H] for a packed batch; attention is causal within each segment, positions as given;
  // segments without a prefix (FusedPass takes them).
  // Under autograd the gradient reaches the LoRA weights, token_rows() and trained_parts(). UserError for
  // a token id outside the embedding.
  // `load` (null: not asked) gets the routers' numbers, differentiable too.
  at::Tensor hidden(const data::Batch& batch, const ops::PassContext& pass, RouterLoad* load = nullptr) const;
  // Generation: appends the new tokens `ids[i]` to sequence i, whose earlier tokens are in caches[i]; returns
  // the final-norm hidden state of each sequence's last token [n, H] in the linears' dtype and appends to the
  // caches. Uses the fused layer, without autograd. UserError for a token id outside the embedding; then
  // nothing is appended. A prefix of caches[i] may get its last tokens in the same call, before i, where every layer is
  // attention: caches[i].length is then what it will have.
  // The rows of pass.adapter_rows are the new tokens, in order.
  // With `last_rows` the result has rows of each sequence's last last_rows[i] new tokens instead, 1 or more, in order.
  at::Tensor step(const std::vector<std::vector<std::int64_t>>& ids, std::vector<KvCache*>& caches,
                  const ops::PassContext& pass, std::span<const std::int64_t> last_rows = {}) const;
  // The same of a token each that was drawn on the device: ids [n] int32 there, of the vocabulary, in the order of `caches`. The host
  // neither sees them nor waits for them. InternalError unless takes_drawn_ids().
  at::Tensor step_drawn(const at::Tensor& ids, std::vector<KvCache*>& caches,
                        const ops::PassContext& pass) const;
  // The same in two parts, where has_listed_steps(). list_step() is the host's: pages for the new tokens, and lists of them on the device.
  // listed_step() is the device's. What it starts there depends on listed_form(), on the places of ids and of the model's tensors, and
  // on nothing else of the host: where they are as before, the work is that of before on other numbers. Null among
  // `caches`: a row that is nobody's, whose id may be any and whose result has no meaning.
  bool has_listed_steps() const;
  void list_step(std::span<KvCache* const> caches) const;
  std::vector<std::int64_t> listed_form() const;
  at::Tensor listed_step(const at::Tensor& ids, const ops::PassContext& pass) const;
  // True where a token is nothing but a row of the embedding to the model, and every layer can truncate: what was read ahead of
  // the host may have to be taken back.
  bool takes_drawn_ids() const;
  // UserError for one outside the embedding.
  void require_ids(std::span<const std::int32_t> ids) const {
    for (const std::int32_t id : ids) require_id(id);
  }
  // Where the device's backend keeps the keys and values of many sequences in one memory (ops::pools_keys): it has room for
  // `tokens` of all sequences together when it is first needed, and stays while the result lives. None elsewhere.
  ReservedKeys reserve_keys(std::int64_t tokens) const;
  // hidden [n, H] -> logits [n, V] in fp32 (GEMM in the head's dtype): ops::head_logits, capped. Reads only
  // adapters_on and adapter_rows of the pass. Without autograd.
  at::Tensor logits(const at::Tensor& hidden, const ops::PassContext& pass = {}) const;
  // The same in autograd form, differentiable in hidden and in what is trained of the head. With a LoRA on the
  // head, a pass in training names the row and the position of each row of hidden, for its dropout.
  at::Tensor autograd_logits(const at::Tensor& hidden, const ops::PassContext& pass = {}) const;

  const ModelConfig& config() const { return config_; }
  const DtypePolicy& dtypes() const { return dtypes_; }
  at::Device device() const { return final_norm_.device(); }
  bool packed() const { return packed_; }
  // How bitsandbytes quantized the linears, by the first of them; empty too for those kept in a GGUF's blocks, which have
  // the numbers of the GGUF.
  Quantize quantized() const;
  Quantize held_as() const;  // how the linears are held, by the first that is quantized, kept blocks included
  // True where other adapters may be beside its own (PassContext::adapter_rows): its own trains no rows of the embedding,
  // whole tensors or experts.
  bool takes_other_adapters() const;
  // Used by fused_pass.h.
  const std::vector<DecoderLayer>& layers() const { return layers_; }
  // The base's; the trained one after release_replaced().
  const ops::Weight& head() const { return head(/*adapters_on=*/false); }
  const ops::Weight& head(bool adapters_on) const;  // of a pass
  // ops::mean_row of the head of a pass; `of_base` is that of head().
  at::Tensor mean_head_row(const at::Tensor& of_base, bool adapters_on) const;
  const at::Tensor& final_norm() const { return final_norm_; }  // the base's, as it multiplies
  const at::Tensor& trained_final_norm() const { return trained_final_norm_; }  // undefined: not trained
  // [T, H], the base's (the trained ones after release_replaced()); UserError for an id outside
  at::Tensor embed(const std::vector<std::int64_t>& ids) const;
  // [T, H] of this pass: with token_rows() and trained_parts(), differentiable in both
  at::Tensor embed(const std::vector<std::int64_t>& ids, const ops::PassContext& pass) const;
  // [H] as it multiplies, the trained one where there is one
  at::Tensor final_norm(const ops::PassContext& pass) const;
  // The tables of a pass. UserError for a position beyond what the model's scaling allows.
  RopeTables ropes(const std::vector<std::int64_t>& positions) const;
  // Embedded tokens [T, H] as the first layer reads them: with the noise of a training pass, and scaled where the family
  // scales them.
  at::Tensor into_layers(const at::Tensor& embedded, const ops::PassContext& pass) const;
  double embedding_scale() const;  // as it multiplies: rounded where the lookup rounds it
  // What layers' own inputs are made of; null: the family has none.
  const PerLayerInputs* per_layer() const { return per_layer_ ? &*per_layer_ : nullptr; }
  // Logits that are divided by a number are products of a hidden state that is: final_norm() has the factor. A score
  // head reads it without.
  bool scales_hidden() const { return config_.logits_scale != 1 && !score_head_.defined(); }
  double hidden_scale() const { return 1 / config_.logits_scale; }
  // Joins linears that read one tensor into one matrix where their device wants that (ops/join/join.h): after
  // adapters are attached, whose sides are in it. Experts of mixtures stay apart.
  void join_linears() {
    for (DecoderLayer& layer : layers_) model::join_linears(layer);
  }
  // Every linear of every layer, in module order (DecoderLayer::linears() of each), then the projection of per_layer().
  std::vector<ops::Linear*> linears();
  std::vector<const ops::Linear*> linears() const;
  // The head as a linear, for a LoRA on it: its weight is head(). Only the autograd form and logits() read the
  // LoRA: the fused losses read the matrix itself.
  ops::Linear& head_linear() { return head_; }
  const ops::Linear& head_linear() const { return head_; }
  // Returns what adapters attach to: linears(), head_linear(), and last the stacks of experts (SparseMlp).
  std::vector<ops::Linear*> linears_and_head();
  std::vector<const ops::Linear*> linears_and_head() const;
  // Returns the head of a reward model, [1, H] fp32, which its adapter owns and trains like the LoRA weights.
  // Undefined for a language model.
  const at::Tensor& score_head() const { return score_head_; }
  void set_score_head(at::Tensor head) { score_head_ = std::move(head); }
  // Rows of the embedding that an adapter owns and trains; if the head is tied they are also rows of the
  // head.
  const TokenRows& token_rows() const { return token_rows_; }
  void set_token_rows(TokenRows rows) { token_rows_ = std::move(rows); }
  // Whole modules, biases and a LoRA of the embedding that an adapter owns and trains, or all tensors in full
  // fine-tuning. Not together with token_rows() on the same matrix.
  const TrainedParts& trained_parts() const { return trained_parts_; }
  void set_trained_parts(TrainedParts parts);
  // Returns whether the copies of trained weights that products read outlast a layer's pass, forward or
  // backward (FusedPass). Without them a pass needs less memory, and makes every copy twice.
  bool keeps_casts() const { return keeps_casts_; }
  void set_keeps_casts(bool keeps) { keeps_casts_ = keeps; }
  // Told by FusedPass how far it has come; null: nobody is. Must outlive its time here.
  PassObserver* pass_observer() const { return pass_observer_; }
  void set_pass_observer(PassObserver* observer) { pass_observer_ = observer; }
  // Releases the base's numbers of the matrices that are trained in full. There is no reference model then: a pass with
  // adapters off reads trained matrices and the base's norms and biases, which is no model.
  void release_replaced();
  // Whether LoRA on linears of the layers, and rows of the embedding, is all that is trained.
  bool trains_only_linears() const { return !trained_parts_.any() && !head_.lora; }
  // Whether the fused form can train what is trained: everything but LoRA on the embedding or the head.
  bool fused_trains() const { return !trained_parts_.embedding_lora && !head_.lora; }
  // The rows of token_rows() that the head reads in this pass; none if it is not tied.
  std::optional<ops::HeadRows> head_rows(bool adapters_on) const;
  // Every tensor of the base model under Hugging Face's name, without a tied head, and of the frozen
  // adapters: what must not change in training; without what release_replaced() released. Copies for a packed model; for
  // a quantized linear, its codes and scales as they are held.
  std::vector<std::pair<std::string, at::Tensor>> frozen_tensors() const;
  std::int64_t parameter_count() const;  // of the base model, a tied head counted once
  // As held in memory, with the head's copy when its dtype differs, and with the frozen adapters.
  std::int64_t parameter_bytes() const;

 private:
  // logits() and autograd_logits() before the soft cap
  at::Tensor head_products(const at::Tensor& hidden, const ops::PassContext& pass) const;
  at::Tensor autograd_products(const at::Tensor& hidden, const ops::PassContext& pass) const;
  LayerCache new_cache(std::int64_t layer, std::int64_t room) const;  // empty, for so many tokens
  // Of the keys and values of a layer that has them in rows; null: each sequence has memory of its own.
  std::shared_ptr<ops::backend::KvPool> pool_of(std::int64_t layer) const;
  std::shared_ptr<ops::KeyPages> key_pages() const;  // of all layers that have pages; null: none has
  // The new tokens of a step: x [T, H], embedded, through all layers.
  struct NewRows;
  at::Tensor step_rows(const at::Tensor& embedded, const NewRows& rows, std::vector<KvCache*>& caches,
                       const ops::PassContext& pass) const;
  // Null `rows`: a new token of each.
  void begin_caches(std::span<KvCache* const> caches, const NewRows* rows) const;
  ops::PageStep& begin_pages(std::span<KvCache* const> caches, const NewRows* rows) const;
  at::Tensor normed_last(const at::Tensor& x, const ops::PassContext& pass) const;
  // The layer whose keys layer `l` reads.
  std::size_t keys_of(std::size_t l) const {
    const std::int64_t shares = layers_[l].attention.shares;
    return shares < 0 ? l : static_cast<std::size_t>(shares);
  }
  void require_id(std::int64_t id) const;
  at::Tensor index_of(const std::vector<std::int64_t>& ids) const;  // [T], checked, on the model's device
  at::Tensor rows_of(const at::Tensor& index) const;                // [T, H], the base's where it has numbers
  at::Tensor rows_of(const at::Tensor& index,
                     const ops::PassContext& pass) const;  // of this pass, without token_rows()
  void for_each_part(const std::function<void(const ops::Weight&)>& matrix,
                     const std::function<void(const at::Tensor&)>& vector) const;
  ModelConfig config_;
  DtypePolicy dtypes_;
  ops::Weight embedding_;                      // [V, H] in dtypes_.residual, or the head itself
  ops::Linear head_;                           // [V, H] in dtypes_.linear
  at::Tensor final_norm_, stored_final_norm_;  // [H], as DecoderLayer's norms and stored
  Rotations rotations_;
  at::Tensor score_head_;
  TokenRows token_rows_;
  TrainedParts trained_parts_;
  at::Tensor trained_final_norm_;  // of trained_parts_
  ops::CastWeight head_cast_;      // trained_parts_.head as products read it
  std::optional<PerLayerInputs> per_layer_;
  struct MeanRow {
    at::Tensor values;
    std::int64_t version = -1;
  };
  mutable MeanRow mean_row_;  // of the trained head
  mutable std::vector<std::weak_ptr<ops::backend::KvPool>>
      pools_;  // of each layer, while sequences are in them
  mutable std::weak_ptr<ops::KeyPages> key_pages_;
  bool packed_ = false, keeps_casts_ = true;
  PassObserver* pass_observer_ = nullptr;
  std::vector<DecoderLayer> layers_;
};

}  // namespace hone::model
