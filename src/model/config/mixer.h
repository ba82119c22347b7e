// A mixer mixes tokens, before the layer's MLP: attention, a short convolution or a gated delta rule. The
// first part of a layer (layer_part.h) has it between its linears. One object says and does everything about
// one of them: that part, the caches, the memory plan and the doctor ask it. Which mixers there are is known
// to the table in mixer.cpp and to LayerCache, which has a field for each sort of state. Two messages name
// some: those of decoder_drafts.cpp and parts/mixing.cpp.
//
// A mixer is one file of model/mixers/, a line in model/mixers/mixers.h, and a row of the table in
// mixer.cpp. It has no data: what it computes with is in the layer (DecoderLayer) and the configuration.
// The linears before it are DecoderLayer::qkv, the one after it is DecoderLayer::o; the part multiplies
// them, so that adapters, quantization and full fine-tuning are none of a mixer's business.
//
// Shapes: T tokens, H hidden. What the linears before the mixer give lies side by side, [T, in]; what the
// linear after it reads is [T, out].
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/config/model_config.h"

namespace hone::model {

// families.h defines these.
struct LayerLinear;
struct LayerTensor;
struct TensorRow;
// These are in model/layers: mixer_call.h, fused_layer.h and layer_cache.h.
struct AutogradCall;
struct MixerCall;
struct MixerTape;
struct LayerCache;
struct CacheRoom;
struct StepCache;

// Messages and files call a mixer so.
struct MixerWords {
  std::string_view layer_type;  // in config.json's layer_types: "full_attention"
  std::string_view path;        // of its linears' names: ".self_attn."
  std::string_view subject;     // "attention", "the convolution"
  std::string_view role;        // the mixers of a model that has it: "attention and convolutions"
  std::string_view tensors;     // its own tensors: "convolution"
  std::string_view
      reference;  // what has no kernel of hone's on a GPU: "short convolutions"; empty: it has one
};

// Columns that one token has in one layer, in the linears' dtype.
struct MixerColumns {
  std::int64_t in = 0;       // what the linears give, without gates
  std::int64_t normed = 0;   // of these, copies from before norms of heads
  std::int64_t gate = 0;     // of a gate of the mixer's output
  std::int64_t out = 0;      // what the linear after the mixer reads
  std::int64_t sums = 0;     // kept in fp32 whatever the dtype
  std::int64_t scratch = 0;  // held while the mixer runs
  std::int64_t step = 0;     // all that a sampler's step holds
};

// Something of the base that stops every gradient through the mixer where it is all 0 and not trained.
struct GradientStop {
  std::optional<std::size_t> linear = {};  // a linear, by its place among those before the mixer; otherwise:
  TensorKind tensor = {};
  std::optional<TensorKind> unless = {};  // a tensor that lets gradients pass where the layer has it: a bias
  bool is_norm = false;  // `tensor` is a norm before the linear after the mixer, not a convolution
};

class Mixer {
 public:
  virtual ~Mixer() = default;

  virtual const MixerWords& words() const = 0;
  virtual bool attends() const { return false; }  // it keeps keys and values of tokens, and no other state

  // ---- Tensors, and their names in files

  // Whether this linear belongs to the mixer, and rows, columns, bias and GGUF's order of rows of one that
  // does. Rows and columns are H on entry.
  virtual bool has_linear(ModuleKind kind) const = 0;
  virtual ModuleKind last() const = 0;  // the linear after the mixer
  virtual void shape(const ModelConfig& config, std::int64_t layer, LayerLinear& linear) const = 0;
  // Says whether it has a norm of queries or keys that its family lists.
  virtual bool has_norm(const ModelConfig& config, std::int64_t layer, NormPlace place) const;
  // Appends the tensor of this row, if the mixer has it.
  virtual void add_tensor(const ModelConfig& config, const TensorRow& row,
                          std::vector<LayerTensor>& out) const;
  virtual std::vector<GradientStop> gradient_stops() const { return {}; }

  // ---- Bytes

  virtual MixerColumns columns(const ModelConfig& config, std::int64_t layer) const = 0;
  // Returns what autograd saves of a token; `e`: bytes of an element of the linears.
  virtual std::int64_t plain_bytes(const ModelConfig& config, std::int64_t layer, std::int64_t e) const = 0;
  // Upper bound of the memory of backward() beyond the columns, over a sequence of `longest` tokens with
  // all that share its prefix. Attention's depends on the batch: ops::packed_attention_backward_bytes.
  virtual std::int64_t backward_bytes(const ModelConfig& config, std::int64_t longest,
                                      std::int64_t threads) const;
  // A sequence keeps so much in one layer: columns of keys, as many as of values, for each token; and bytes
  // whatever its length.
  virtual std::int64_t key_columns(const ModelConfig& config, std::int64_t layer) const;
  virtual std::int64_t state_bytes(const ModelConfig& config, at::ScalarType dtype) const;

  // ---- What a sequence keeps between steps (layer_cache.h)

  virtual void open(LayerCache& cache, const CacheRoom& room) const = 0;  // makes it empty, with this room
  virtual std::int64_t length(const LayerCache& cache) const = 0;
  virtual bool can_truncate(const LayerCache& cache, std::int64_t length) const = 0;
  virtual void truncate(LayerCache& cache, std::int64_t length) const = 0;
  // Whether tokens can always be taken back: a guess that was wrong needs that.
  virtual bool goes_back() const { return attends(); }

  // ---- The autograd form

  // read [T, H], which the linears read -> [T, out]. Differentiable in all that is trained.
  virtual at::Tensor autograd(const AutogradCall& call, const at::Tensor& read) const = 0;

  // ---- The fused form. MixerTape::in is what the linears gave on entry of the first function.

  // Whether the linear after the mixer reads more than MixerTape::out: a gate, which backward() needs
  // before that linear.
  virtual bool has_gate(const ModelConfig& config) const;
  // Takes gates out of tape.in. Nothing for mixers without.
  virtual void split(const MixerCall& call, MixerTape& tape) const;
  // Norms and rotates tape.in in place, of a training pass; `keeps`: with what backward() needs from
  // before.
  virtual void prepare(const MixerCall& call, MixerTape& tape, bool keeps) const;
  // Fills tape.out, which is allocated, from tape.in; of training segments.
  virtual void forward(const MixerCall& call, MixerTape& tape) const = 0;
  // The same of a sampler's step, after split() alone: of tokens after those in `caches`, one a segment,
  // which get them.
  virtual void step(const MixerCall& call, const std::vector<StepCache>& caches, MixerTape& tape) const = 0;
  // Returns what the linear after the mixer reads.
  virtual at::Tensor seen(const MixerTape& tape) const;
  // From the gradient of seen() makes tape.in the gradient of what the linears gave; the rest of the tape
  // is consumed. Adds to the .grad of the mixer's trained tensors and norms.
  virtual void backward(const MixerCall& call, MixerTape& tape, at::Tensor d_seen) const = 0;
};

// The mixers of this model's layers, each once, in the order in which they come.
std::vector<const Mixer*> mixers_of(const ModelConfig& config);
// The kind of a layer that layer_types calls so (MixerWords::layer_type). InternalError for a word that no
// mixer has.
LayerKind kind_of_type(std::string_view layer_type);

// layer_types of config.json: one word of `words` a layer, or a UserError. Nothing where the file has no
// such list.
std::optional<std::vector<LayerKind>> kinds_of_types(const base::Json& json, const std::string& where,
                                                     std::int64_t layers,
                                                     const std::vector<std::string_view>& words);

}  // namespace hone::model
