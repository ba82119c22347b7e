// Bytes are counted from what the code keeps: model/parts and model/mixers (tape and scratch),
// ops/backend/reference/linear.cpp and what autograd saves (plain form), train/passes/scored_pass.cpp (head).
// T tokens of the longest micro-batch, e and E bytes of an element of the linears and of the residual stream.
#include "train/facts/pass_bytes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "model/config/families.h"
#include "model/config/layer_part.h"
#include "model/config/mixer.h"
#include "ops/dora.h"

namespace hone::train {
namespace {

using config::RecomputeMode;

constexpr std::int64_t kThreadScratch = 4LL << 20;               // packed panels and tiles of one thread
constexpr std::int64_t kHeadRows = 1024, kHeadColumns = 1024;    // linear_logprob's tile: in fp32, and cast
constexpr std::int64_t kPlainHeadRows = 512, kPlainBlock = 128;  // scored_pass.cpp and learn/sft_loss.cpp

// Columns of a layer's keys and values that other layers read.
std::int64_t shared_keys_of(const model::ModelConfig& model, std::int64_t layer) {
  const model::LayerAttention one = model.attention_of(layer);
  return one.is_shared ? 2 * one.kv_heads * one.head_dim : 0;
}

// Columns of those keys and values up to `layer` that layers from `from` on read: their gradients, summed in
// fp32.
std::int64_t shared_gradients(const model::ModelConfig& model, std::int64_t from, std::int64_t layer) {
  std::set<std::int64_t> read;
  for (std::int64_t i = from; i < model.num_hidden_layers; ++i) {
    const model::LayerAttention one = model.attention_of(i);
    if (!one.has_keys() && one.shares <= layer) read.insert(one.shares);
  }
  std::int64_t out = 0;
  for (const std::int64_t i : read) out += shared_keys_of(model, i);
  return out;
}

bool has_module(const model::ModelConfig& model, model::ModuleKind kind) {
  const std::vector<model::ModuleRow>& rows = model::traits_of(model.family).modules;
  return std::any_of(rows.begin(), rows.end(), [&](const model::ModuleRow& row) { return row.kind == kind; });
}

// The sizes that every formula below is made of.
struct Shapes {
  explicit Shapes(const MemoryInputs& in)
      : hidden(in.model.hidden_size),
        layers(in.model.num_hidden_layers),
        tokens(std::max(in.train.tokens, in.eval.tokens)),
        scored(std::max(in.train.scored, in.eval.scored)),
        e(in.linear_size),
        residual(in.residual_size) {
    for (const AdaptedLinear& linear : in.adapted) {
      first_adapted = std::min(first_adapted.value_or(linear.layer), linear.layer);
      rank_sum += linear.rank;
    }
    if (in.token_rows > 0 || in.trains_below) first_adapted = 0;
    is_joined = has_module(in.model, model::ModuleKind::kGateUp);
    is_llama = !is_joined && !in.model.norms_after && in.model.experts.count == 0 &&
               in.model.activation == model::Activation::kSilu;
    for (std::int64_t i = 0; i < layers; ++i) {
      take_plain(in.model, i);
      shared_keys += shared_keys_of(in.model, i);
      is_llama &= in.model.mixer(i).attends();
    }
    if (in.model.per_layer_width > 0) take_per_layer(in);
    if (in.tied_head) head_rows = in.token_rows;
  }
  void take_plain(const model::ModelConfig& model, std::int64_t layer) {
    for (const model::LayerPart* const part : model::parts_of(model, layer)) {
      const std::int64_t inner = part->columns(model, layer).inner;
      mlp = std::max(mlp, inner);
      if (layer < first_adapted.value_or(layers)) continue;
      inner_sum += inner;
      plain += part->plain_bytes(model, layer, e);
    }
    const model::Mixer& mixer = model.mixer(layer);
    if (layer < first_adapted.value_or(layers) || !mixer.attends()) return;
    turned += mixer.columns(model, layer).in - mixer.key_columns(model, layer);
  }
  void take_per_layer(const MemoryInputs& in) {
    own_inputs = layers * in.model.per_layer_width;
    trains_inputs = in.full || in.trains_below || in.token_rows > 0;
    for (const AdaptedLinear& linear : in.adapted) trains_inputs |= linear.reads == kReadsForAll;
  }
  std::int64_t taped_layers() const { return first_adapted ? layers - *first_adapted : 0; }

  std::int64_t hidden, layers, tokens, scored, e, residual;
  std::int64_t mlp = 0, inner_sum = 0;           // PartColumns::inner: the most; of all parts of taped layers
  std::int64_t turned = 0;                       // columns of queries and keys of taped layers
  std::int64_t plain = 0;                        // bytes of a token that autograd saves in all of them
  std::int64_t own_inputs = 0, shared_keys = 0;  // columns: of inputs of each layer; of keys that others read
  bool trains_inputs = false;                    // or what they are made of
  std::int64_t rank_sum = 0;
  std::int64_t head_rows = 0;  // that are trained
  bool is_joined = false;      // gate and up are one linear
  bool is_llama = false;       // each layer is attention and an MLP as Llama's
  std::optional<std::int64_t> first_adapted;
};

// How a pass at this level goes over the parts.
model::PassShape pass_of(const MemoryInputs& in, const Shapes& s, RecomputeMode level) {
  return {.e = s.e,
          .residual = s.residual,
          .keeps_all = level == RecomputeMode::kNone,
          .keeps_some = level != RecomputeMode::kLayer,
          .trains_weights = in.full,
          .sums_in_floats = in.on_device};
}

// Says what sides hold of the linears that share a number, in the order in which linears_backward() goes over
// them. DoRA's gradients of what the magnitudes scale stay until it ends. Before one is made its sum is in
// fp32, and so is a copy of what that multiplies; in fp32 there is only what it differs by, with dropout.
model::SideShape sides_of(const MemoryInputs& in, const Shapes& s, std::int64_t layer, std::int64_t reads) {
  const std::int64_t mask = in.masks == DropoutMasks::kInKernel ? 0 : 4;  // in fp32
  model::SideShape out;
  std::int64_t scaled = 0;
  for (const AdaptedLinear& linear : in.adapted) {
    if (linear.layer != layer || linear.reads != reads) continue;
    out.any = true;
    if (in.dropout) out.dropped = s.e + mask;
    if (!linear.dora) continue;
    out.sums = std::max(out.sums, (in.dropout ? 8 : 4) * linear.out);
    out.dora = std::max(out.dora, scaled + (s.e == 4 && !in.dropout ? 4 : 8) * linear.out);
    scaled += s.e * linear.out;
  }
  return out;
}

// What the parts of all layers hold of a training pass in the fused form: their tapes, and beyond those the
// most that one part holds. The backward goes down from the last part, and frees each tape, so that a part
// has those of the parts up to it.
struct FusedParts {
  FusedParts(const MemoryInputs& in, const Shapes& s, RecomputeMode level) {
    model::PassShape pass = pass_of(in, s, level);
    // Layers' own inputs are made of three rows in each dtype, before the first layer.
    forward = s.tokens * s.own_inputs * (2 * s.e + 3 * s.residual);
    std::int64_t most = 0;
    for (std::int64_t layer = 0; layer < s.layers; ++layer) {
      const bool is_taped = layer >= s.first_adapted.value_or(s.layers);
      if (level == RecomputeMode::kLayer || !is_taped)  // else they are the tape's own
        tape += in.train.tokens * shared_keys_of(in.model, layer) * s.e;
      std::int64_t reads = 0;
      for (const model::LayerPart* const part : model::parts_of(in.model, layer)) {
        pass.first = sides_of(in, s, layer, reads++);
        pass.last = sides_of(in, s, layer, reads++);
        const model::PartScratch one = part->scratch(in.model, layer, pass);
        forward = std::max(forward, s.tokens * (one.forward + s.shared_keys * s.e));
        if (!is_taped) continue;
        const std::int64_t kept = in.train.tokens * part->tape_bytes(in.model, layer, pass);
        taped = std::max(taped, in.train.tokens * one.forward - kept);
        tape += kept;
        const auto sums = [&](std::int64_t from) {
          return in.train.tokens * shared_gradients(in.model, from, layer) * 4;
        };
        std::int64_t held = sums(layer + 1);
        if (one.mixes) held = std::max(held + in.attention_backward, sums(layer));
        held += in.train.tokens * one.backward;
        most = std::max(most, tape + held);
      }
    }
    backward = most - tape;
  }

  std::int64_t tape = 0, forward = 0, backward = 0;  // forward: of the longest pass, without a tape
  std::int64_t taped = 0;                            // in a forward with one
};

// What LayerTape holds of all parts; then the low-rank products of all layers.
std::int64_t fused_tape(const MemoryInputs& in, const Shapes& s, const FusedParts& parts) {
  return parts.tape + in.train.tokens * s.rank_sum * s.e;
}

// The first forward after a step makes the norms of DoRA (ops/dora.h): of a linear at a time the matrix,
// where it is held in another form, and some of its rows twice in fp32.
std::int64_t dora_norm_bytes(const MemoryInputs& in) {
  const std::int64_t dense = in.packed || !in.quantized.empty() ? in.linear_size : 0;
  std::int64_t out = 0;
  for (const AdaptedLinear& one : in.adapted)
    if (one.dora)
      out = std::max(out, one.in * (one.out * dense + std::min(one.out, ops::kDoraNormRows) * 2 * 4));
  return out;
}

// Returns the sums of a stack's gradient of B: the largest.
std::int64_t stack_sums(const MemoryInputs& in) {
  std::int64_t out = 0;
  for (const AdaptedLinear& linear : in.adapted)
    if (linear.stacked) out = std::max(out, 4 * linear.factors * linear.out);
  return out;
}

// Returns the B of all stacks in the order of products in fp32. Other dtypes count them with their copies.
std::int64_t stack_copies(const MemoryInputs& in) {
  std::int64_t out = 0;
  for (const AdaptedLinear& linear : in.adapted)
    if (linear.stacked && in.linear_size == 4) out += 4 * linear.factors * linear.out;
  return out;
}

// Bits of the masks of all modules.
std::int64_t mask_bits(const MemoryInputs& in) {
  if (!in.dropout || in.masks != DropoutMasks::kSentAsBits) return 0;
  std::int64_t token = 0;
  for (const AdaptedLinear& linear : in.adapted) token += (linear.in + 7) / 8;
  return in.train.tokens * token;
}

// The most that one layer holds beyond the tape: in a backward, or in a forward that has none. Such a forward
// has the room of the tape, but for a device's allocator, whose blocks of the tape may not fit. DoRA's norms
// are made in a forward that has a tape.
std::int64_t fused_scratch(const MemoryInputs& in, const Shapes& s, const FusedParts& parts) {
  const std::int64_t forward = parts.forward - (in.on_device ? 0 : parts.tape), norm = dora_norm_bytes(in);
  return std::max({parts.backward, forward, norm > 0 ? parts.taped + norm : 0}) +
         s.tokens * in.frozen_rank * s.e + stack_sums(in);
}

// Returns what stays from the first pass on, beside the head too.
std::int64_t kept_scratch(const MemoryInputs& in, bool fused_layer) {
  return in.threads * kThreadScratch + (fused_layer ? stack_copies(in) : 0);
}

// linear_logprob: the gathered rows, their norm, the gradient and its scaled copy, one tile of logits; of
// rows of the head that are trained their logits, log-probabilities, probabilities and coefficients.
std::int64_t fused_head_bytes(const MemoryInputs& in, const Shapes& s) {
  const std::int64_t tile =
      in.head_tile > 0 ? in.head_tile
                       : std::min(s.scored, kHeadRows) * kHeadColumns * (4 + (in.float_head ? 4 : s.e));
  return s.scored * (s.hidden * (s.residual + s.e + 2 * 4) + s.head_rows * (4 * 4 + s.e)) + tile;
}

// When the backward comes from the head: the gradient of the stream, and of scored rows what the last norm
// read, the gradient of that, and the head's in fp32.
std::int64_t below_head_bytes(const MemoryInputs& in, const Shapes& s) {
  return s.hidden * (in.train.tokens * s.residual + in.train.scored * (2 * s.residual + 4));
}

// What it reads is attention's output, which attention itself saves.
bool reads_attention(const model::ModelConfig& model, const AdaptedLinear& linear) {
  const model::Mixer& mixer = model.mixer(linear.layer);
  return linear.reads == 1 && mixer.attends() && !mixer.has_gate(model);
}

// What autograd saves. Both norms keep their fp32 input (one of the two is the residual stream itself),
// SwiGLU its three factors, attention q, k, v, out and lse; a side keeps its input in the linears' dtype (a
// copy of its own after dropout or a cast), its low-rank product, and A and B as cast.
std::int64_t plain_tape(const MemoryInputs& in, const Shapes& s) {
  std::int64_t token = s.plain;
  if (in.model.attention_soft_cap > 0) {  // scores, capped and with their softmax
    constexpr std::int64_t kScore = 16;
    token += s.taped_layers() * in.model.num_attention_heads * in.train.segment * kScore;
  }
  // The whole projection lives on with the values, which are a part of it.
  if (has_module(in.model, model::ModuleKind::kQkv)) token += s.turned * s.e;
  // inputs of the linears, cast for each of them
  if (in.full) {
    token += (s.e != s.residual ? 5 : 2) * s.hidden * s.e * s.taped_layers();
    token += s.inner_sum * s.e;
  }
  std::int64_t tape = in.train.tokens * token;
  std::set<std::pair<std::int64_t, std::int64_t>> shared;  // inputs that several sides keep as one tensor
  // A weight of 1 + w is in fp32, and so is the norm, which each linear casts for itself.
  const bool casts = s.e != s.residual || (s.e != 4 && model::traits_of(in.model.family).norm_adds_one);
  for (const AdaptedLinear& linear : in.adapted) {
    const bool cast = casts && linear.reads_norm;
    const bool own =
        in.dropout || cast ||
        (!reads_attention(in.model, linear) && shared.emplace(linear.layer, linear.reads).second);
    tape += in.train.tokens * (linear.rank + (own ? linear.in : 0)) * s.e;
    if (linear.dora) tape += in.train.tokens * 2 * linear.out * 4;  // what its magnitude scales, in fp32
    if (s.e != 4) tape += std::max(linear.rank, linear.factors) * (linear.in + linear.out) * s.e;
  }
  return tape;
}

// In a layer as Llama's the gradient of the MLP's product twice, of the base and of a side, and as much
// again, which whole runs have beside their tensors (docs/log.md). Elsewhere it is an upper bound: with
// sorted rows, a mixer's own rows, other norms, and where it was not measured. Joined gates have gradients of
// both halves. Attention's backward takes turns with it.
std::int64_t portable_scratch(const MemoryInputs& in, const Shapes& s) {
  const std::int64_t mask = in.dropout ? 8 * s.mlp : 0;  // fp32, and its product
  const std::int64_t widths = s.is_joined ? 7 : s.is_llama && !in.full && !in.on_device ? 3 : 5;
  const std::int64_t norm = dora_norm_bytes(in);
  const std::int64_t scaled = norm > 0 ? 10 * s.mlp : 0;  // DoRA's gradients in fp32, and cast; measured
  return std::max(s.tokens * (widths * s.mlp * s.e + mask + scaled), in.attention_backward) +
         s.tokens * (4 * s.hidden * s.residual + in.frozen_rank * s.e) + norm;
}

std::int64_t plain_head_bytes(const MemoryInputs& in, const Shapes& s) {
  const std::int64_t vocabulary = in.model.vocab_size;
  // logits, d, both cast
  const std::int64_t tile = std::min(s.scored, kPlainHeadRows) * vocabulary * (2 * 4 + s.e);
  const std::int64_t rows = s.head_rows > 0 ? std::min(s.scored, kPlainHeadRows) * vocabulary * 4 : 0;
  return s.scored * s.hidden * 2 * s.residual + tile + rows +
         std::min(s.scored, kPlainBlock) * vocabulary * 8;
}

// Layers' own inputs, and what their backward reads; autograd saves all that they are made of.
std::int64_t own_input_bytes(const MemoryInputs& in, const Shapes& s, bool fused_layer) {
  if (s.own_inputs == 0) return 0;
  const std::int64_t made_of = s.own_inputs * (3 * s.e + 3 * s.residual) + s.hidden * s.e;
  if (!fused_layer) return s.tokens * made_of;
  const std::int64_t taped = s.trains_inputs ? s.own_inputs * 2 * s.e + s.hidden * s.e : 0;
  return s.tokens * s.own_inputs * s.e + in.train.tokens * taped;
}

std::int64_t batch_bytes(const MemoryInputs& in, const Shapes& s) {
  const std::int64_t rotations =
      (in.model.local_rope_theta ? 2 : 1) + (in.model.query_scale_beta != 0 ? 1 : 0);
  // cos, sin; the rows of the tokens
  const std::int64_t tables = rotations * 2 * in.model.rotated() * s.residual + 8;
  return s.tokens * (in.accumulation * 3 * 8 + tables) + s.scored * 2 * 8;
}

// Products dequantize a matrix at a time, but for those of the fused layer by our GEMM.
std::int64_t dequantized_bytes(const MemoryInputs& in, bool fused_layer) {
  if (in.quantized.empty() || (fused_layer && in.by_panels)) return 0;
  return in.largest_linear * in.linear_size;
}

// In full fine-tuning: what autograd holds of embedding and head beside their gradients.
std::int64_t plain_ends_bytes(const MemoryInputs& in) {
  const std::int64_t e = in.linear_size;
  return in.model.vocab_size * in.model.hidden_size * (e == 4 ? 4 : e + 4);
}

}  // namespace

PassBytes pass_bytes(const MemoryInputs& in, bool fused_layer, RecomputeMode level) {
  const Shapes s(in);
  PassBytes out;
  out.taped_layers = s.taped_layers();
  out.kept = kept_scratch(in, fused_layer);
  out.batch = batch_bytes(in, s) + own_input_bytes(in, s, fused_layer);
  out.ends = in.ends_bytes + (in.full && !fused_layer ? plain_ends_bytes(in) : 0);
  out.head = (fused_layer && !in.tiled_head ? fused_head_bytes(in, s) : plain_head_bytes(in, s)) +
             (in.float_head ? s.scored * s.hidden * 4 : 0);
  if (fused_layer) {
    const FusedParts parts(in, s, level);
    out.tape = fused_tape(in, s, parts) + mask_bits(in);
    out.scratch = fused_scratch(in, s, parts);
    if (!in.on_device) out.head = std::max(out.head, below_head_bytes(in, s));
  } else {
    out.tape = plain_tape(in, s);
    out.scratch = portable_scratch(in, s);
  }
  out.scratch += dequantized_bytes(in, fused_layer);
  return out;
}

std::int64_t beside_sampling(const MemoryInputs& in) {
  return (in.on_device ? 0 : in.threads * kThreadScratch) + stack_copies(in) + dora_norm_bytes(in);
}

}  // namespace hone::train
