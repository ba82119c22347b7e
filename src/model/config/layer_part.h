// A layer is a list of parts, each of which adds to the residual stream or scales it: the mixer with the
// linears around it, the MLP or the experts, what the own input adds, and the layer's scale. One object says
// and does everything about one of them: its linears and norms and their names in files, their places in the
// layer, bytes, both forms, and what of it stops a gradient. Reading, LoRA targets, memory plan, both forms
// of the layer and the doctor go over the list.
//
// A part is one file of model/parts/, a line in model/parts/parts.h, and a row of parts_of() in
// layer_part.cpp. It has no data: its linears are in the layer (DecoderLayer). Mixers are parts of the first
// of them (mixer.h).
//
// Shapes: T tokens, H hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/config/model_config.h"

namespace hone::ops {
struct Linear;
struct Quantized;
}  // namespace hone::ops

namespace hone::model {

// families.h defines these.
struct LayerLinear;
struct LayerTensor;
struct ParameterSpec;
struct TensorRow;
// These are in model/layers: decoder_layer.h, fused_layer.h and part_call.h.
struct DecoderLayer;
struct AutogradCall;
struct PartCall;
struct PartTape;

// Says what a part keeps and holds of one token, in elements of the linears' dtype where nothing else is
// said.
struct PartColumns {
  // From the forward to the backward: of the residual stream in its dtype; at every recompute level; at all
  // but kLayer; at kNone only; in fp32 at every level.
  std::int64_t stream = 0, always = 0, unless_layer = 0, only_none = 0, floats = 0;
  std::int64_t read = 0;   // at kNone only: what it reads, where that is not the stream itself
  std::int64_t inner = 0;  // what its last linears read, with an MLP's width: of all of a token's experts
  std::int64_t step = 0;   // all that a sampler's step holds
};

// Says what LoRAs on linears that read one tensor hold of a token, beside the linears' products.
struct SideShape {
  bool any = false;          // one of the linears has a LoRA
  std::int64_t dropped = 0;  // bytes of a column that one with dropout reads; 0: none has it
  std::int64_t sums = 0;     // bytes, where magnitudes scale: in a forward
  std::int64_t dora = 0;     // ... and in a backward
};

// How a pass goes over parts: bytes of an element of the linears and of the residual stream, what its level
// keeps, and what holds more than the linears' products.
struct PassShape {
  std::int64_t e = 2, residual = 4;
  bool keeps_all = true, keeps_some = true;  // at kNone; at all levels but kLayer
  SideShape first = {}, last = {};  // of the linears that a part begins with, and of those after them
  bool trains_weights = false;      // of the linears
  bool sums_in_floats = false;      // of experts' rows: on devices
};

// Bytes of one token that a part holds while it runs, with the stream or its gradient. In a forward without a
// tape, all of them; in a backward, beyond the tape of its level.
struct PartScratch {
  std::int64_t forward = 0, backward = 0;
  bool mixes = false;  // its backward also holds what Mixer::backward_bytes() or attention says
};

// A LoRA on the stacked parameters of all experts, and what it adapts.
struct LinearStack {
  ops::Linear* linear = nullptr;                   // without numbers
  std::vector<std::vector<ops::Linear*>> experts;  // the linears of each of them that are in the stack
  const ops::Quantized* codes = nullptr;           // of all of them, where their device has them together
};

// Says where a part's norms are: of what it reads, and of what it adds.
struct PartNorms {
  std::optional<NormPlace> before = {}, after = {};
};

// Something of the base that stops gradients where it is all 0 and not trained.
struct PartStop {
  const ops::Linear* stopped = nullptr;  // null: every linear of the part but `by`
  const ops::Linear* by = nullptr;       // a linear, or its norm; null: `tensor`
  std::optional<NormPlace> norm = {};
  TensorKind tensor = {};
  std::string name = {};  // of the tensor: "the norm before model.layers.0.linear_attn.out_proj"
};

class LayerPart {
 public:
  virtual ~LayerPart() = default;

  // ---- Names in files

  // Says whether a linear that the family lists belongs to it in this layer; then its rows, columns, bias and
  // GGUF's order of rows. Rows and columns are H on entry.
  virtual bool has_linear(const ModelConfig& config, std::int64_t layer, ModuleKind kind) const;
  virtual void shape(const ModelConfig& config, std::int64_t layer, LayerLinear& linear) const;
  // Appends the linears that the family does not list, and the parameters that transformers holds them in.
  virtual void add_linears(const ModelConfig& config, std::vector<LayerLinear>& out) const;
  virtual void add_parameters(const ModelConfig& config, const std::string& layer,
                              std::vector<ParameterSpec>& out) const;
  // Says whether it has a norm that the family lists.
  virtual bool has_norm(const ModelConfig& config, std::int64_t layer, NormPlace place) const;
  // Appends the tensor of this row, if the part has it.
  virtual void add_tensor(const ModelConfig& config, std::int64_t layer, const TensorRow& row,
                          std::vector<LayerTensor>& out) const;

  // ---- Its linears in the layer

  virtual void place(DecoderLayer& layer, const LayerLinear& what, ops::Linear linear) const;
  // Once all of them are read; `parameters` of the layer.
  virtual void finish(DecoderLayer& layer, const std::vector<ParameterSpec>& parameters) const;
  // Returns those that can have a LoRA, with stacks in the place of experts. Each group reads one tensor.
  virtual std::vector<std::vector<ops::Linear*>> readers(DecoderLayer& layer) const;
  // In the order of the files.
  virtual std::vector<ops::Linear*> linears(DecoderLayer& layer) const;
  virtual std::vector<LinearStack> stacks(DecoderLayer& layer) const;
  // Says whether linears that read one tensor become one matrix where their device wants that
  // (ops/join/join.h).
  virtual bool joins() const { return false; }
  // The linear whose output is added to the stream; null: there is none, or the stream is changed after it.
  virtual const ops::Linear* last(const DecoderLayer& layer) const;

  // ---- Bytes

  virtual PartColumns columns(const ModelConfig& config, std::int64_t layer) const = 0;
  // Returns what autograd saves of a token; `e`: bytes of an element of the linears.
  virtual std::int64_t plain_bytes(const ModelConfig& config, std::int64_t layer, std::int64_t e) const = 0;
  virtual PartScratch scratch(const ModelConfig& config, std::int64_t layer, const PassShape& pass) const = 0;
  // Returns the bytes of one token, without the low-rank products.
  std::int64_t tape_bytes(const ModelConfig& config, std::int64_t layer, const PassShape& pass) const;

  // ---- Both forms: the stream x [T, H] -> [T, H]

  // Differentiable in x and in all that is trained.
  virtual at::Tensor autograd(const AutogradCall& call, const at::Tensor& x) const = 0;
  // Fills the tape, if there is one, with the tensors of the call's recompute level.
  virtual at::Tensor forward(const PartCall& call, const at::Tensor& x, PartTape* tape) const = 0;
  // d [T, H]: the gradient of the result on entry, of x on return; where the call does not want that, of
  // neither. Adds to the .grad of all that is trained. Consumes the tape.
  virtual void backward(const PartCall& call, PartTape& tape, at::Tensor& d) const = 0;

  // ---- What stops a gradient

  virtual PartNorms norms() const { return {}; }
  virtual std::string no_input(const DecoderLayer& layer) const;  // "the MLP gets no input"
  virtual std::vector<PartStop> stops(const DecoderLayer& layer) const;

 protected:
  // Bytes of one token: of what it reads, which is nothing where that is the stream itself; of what it adds,
  // beside the linear's output, with a norm or a scale of that; of the gradient of that output, beside the
  // stream's.
  std::int64_t read_bytes(const ModelConfig& config, const PassShape& pass) const;
  std::int64_t added_bytes(const ModelConfig& config, const PassShape& pass) const;
  std::int64_t output_gradient_bytes(const ModelConfig& config, const PassShape& pass) const;
};

// In the order in which they add to the stream.
std::vector<const LayerPart*> parts_of(const ModelConfig& config, std::int64_t layer);

}  // namespace hone::model
