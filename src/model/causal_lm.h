// A decoder-only language model: its weights, its plain form under autograd (hidden: the definition), and
// generation. The explicit training pass is explicit_pass.h.
//
// Shapes: T tokens of all segments end to end, H hidden, V vocabulary, N heads, K kv heads, D head_dim.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/example.h"
#include "model/decoder_layer.h"
#include "model/model_config.h"
#include "model/token_rows.h"
#include "model/weight_source.h"
#include "ops/head_rows.h"
#include "ops/kv_tiles.h"
#include "ops/linear.h"
#include "ops/rope.h"
#include "ops/weight.h"

namespace hone::model {

// Keys and values of one sequence, all layers, for generation. Grows with every CausalLm::step. What several
// sequences begin with may lie in a `prefix` that they read in place; their own tiles begin after it, as
// those of data::Segment::prefix in training.
struct KvCache {
  std::vector<ops::KvTiles> layers;       // of its own tokens; empty before the first step
  std::int64_t length = 0;                // tokens, the prefix's included
  std::shared_ptr<const KvCache> prefix;  // read and not written; null: none. Has none itself
  std::int64_t room = 0;           // own tokens that the first step makes room for; 0: its tokens and one
  void truncate(std::int64_t to);  // forgets the tokens after the first `to`, which the prefix is part of
  KvCache clone() const;           // a sequence of its own that begins alike, after the same prefix
  static KvCache after(std::shared_ptr<const KvCache> prefix);
};

// How the frozen matrices are kept (ops/weight.h): methods that only train keep a plain copy, those that
// sample keep a pack. Where no pack is possible (fp32, other machines) the copy is plain.
enum class Storage { kPlain, kPacked };

// What becomes of the linears of the layers; the head, the embedding and the norms are never quantised. Those
// of a checkpoint that is quantised already stay as they are.
using Quantise = std::optional<ops::QuantScheme>;

class CausalLm {
 public:
  // Reads every tensor the family's table names; UserError for an absent or misshapen one, and for one that
  // the family has no place for (more layers, biases or norms than config.json says). A file's head is left
  // aside when it is tied.
  // With `quantise` a linear is quantised as it is read, from numbers of the residual's dtype, as
  // transformers does with those of from_pretrained's dtype: no more than one is held in full. A model is
  // quantised here or never, so that adapters are always attached after it (GRAD-04).
  // Tensors are read on the CPU, one at a time, and held on `device`: what each function below returns is
  // there.
  CausalLm(const WeightSource& source, Numbers numbers, Storage storage = Storage::kPlain,
           const Quantise& quantise = {}, at::Device device = at::kCPU);

  // Final-norm output [T, H] for a packed batch; attention is causal within each segment, positions as given;
  // segments without a prefix (ExplicitPass takes them).
  // Under autograd the gradient reaches the LoRA sides and token_rows() only. UserError for a token id
  // outside the embedding.
  at::Tensor hidden(const data::Batch& batch, const ops::PassContext& pass) const;
  // Generation: sequence i contributes its new tokens `ids[i]` after what caches[i] holds; returns the
  // final-norm hidden state of each sequence's last token [n, H] in the linears' dtype and appends to the
  // caches. The explicit layer, no autograd. UserError for a token id outside the embedding: nothing is
  // appended.
  at::Tensor step(const std::vector<std::vector<std::int64_t>>& ids, std::vector<KvCache*>& caches,
                  const ops::PassContext& pass) const;
  // hidden [n, H] -> logits [n, V] in fp32 (GEMM in the head's dtype): ops::head_logits. Of the pass only
  // adapters_on is read.
  at::Tensor logits(const at::Tensor& hidden, const ops::PassContext& pass = {}) const;
  // The same by libtorch, differentiable in hidden and in the head's own rows: the plain form.
  at::Tensor plain_logits(const at::Tensor& hidden, const ops::PassContext& pass = {}) const;

  const ModelConfig& config() const { return config_; }
  const Numbers& numbers() const { return numbers_; }
  at::Device device() const { return final_norm_.device(); }
  bool packed() const { return head_.is_packed(); }
  Quantise quantised() const;  // how the linears are held; the first of them speaks for all
  // What explicit_pass.h walks through.
  const std::vector<DecoderLayer>& layers() const { return layers_; }
  const ops::Weight& head() const { return head_; }
  const at::Tensor& final_norm() const { return final_norm_; }
  at::Tensor embed(
      const std::vector<std::int64_t>& ids) const;  // [T, H], the base's; UserError for an id outside
  ops::RopeTable rope(const std::vector<std::int64_t>& positions) const;
  // Every linear of every layer, in module order (q,k,v,o,gate,up,down per layer): what adapters attach to.
  std::vector<ops::Linear*> linears();
  std::vector<const ops::Linear*> linears() const;
  // Of a reward model: the head [1, H] fp32 that its adapter owns and trains, as it does the LoRA sides.
  // Undefined: a language model.
  const at::Tensor& score_head() const { return score_head_; }
  void set_score_head(at::Tensor head) { score_head_ = std::move(head); }
  // Rows of the embedding that an adapter owns and trains; where the head is tied they are its rows too.
  const TokenRows& token_rows() const { return token_rows_; }
  void set_token_rows(TokenRows rows) { token_rows_ = std::move(rows); }
  // Of them what the head reads in this pass; nothing where it is not tied.
  std::optional<ops::HeadRows> head_rows(bool adapters_on) const;
  // Every tensor of the base model under Hugging Face's name, a tied head left out, and of the frozen
  // adapters below: what must not change in training. Those of a packed model are copies; of a quantised
  // linear the parts that a file would have.
  std::vector<std::pair<std::string, at::Tensor>> frozen_tensors() const;
  std::int64_t parameter_count() const;  // of the base model, a tied head counted once
  // As held in memory, with the head's copy when its dtype differs, and the frozen adapters below.
  std::int64_t parameter_bytes() const;

 private:
  void for_each_part(const std::function<void(const ops::Weight&)>& matrix,
                     const std::function<void(const at::Tensor&)>& vector) const;
  ModelConfig config_;
  Numbers numbers_;
  ops::Weight embedding_;  // [V, H] in numbers_.residual, or the head itself
  ops::Weight head_;       // [V, H] in numbers_.linear
  at::Tensor final_norm_;  // [H]
  at::Tensor inv_freq_;    // [D/2] fp32
  at::Tensor score_head_;
  TokenRows token_rows_;
  std::vector<DecoderLayer> layers_;
};

}  // namespace hone::model
