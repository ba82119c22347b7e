// Plans the memory of a training run by segment, before step 1, and chooses layer form and recompute level. A
// function of numbers; memory_inputs.h collects them from a model and its data.
//
//   const MemoryInputs inputs = memory_inputs(model, plan, program_bytes, longest, {});
//   start.memory = plan_memory(inputs, plan.layer_form, plan.recompute, memory_limit(plan));
//   ... start.memory.recompute and .fused_layer say what to run; the loop compares .total with the peak.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "model/config/model_config.h"

namespace hone::train {

// AdaptedLinear::reads of the projection that makes the layers' own inputs: of no part.
inline constexpr std::int64_t kReadsForAll = -2;

// A linear with LoRA. `reads`: a number that linears of a layer share which read one tensor. Part i of the
// layer begins with those of 2 i, and has those of 2 i + 1 after them.
struct AdaptedLinear {
  std::int64_t layer = 0, reads = 0;
  bool reads_norm = true;  // the residual stream, by a norm: not what the linears' products gave
  std::int64_t in = 0, out = 0, rank = 0;  // rank: of what a token has
  std::int64_t factors = 0;                // rows of A: more than rank of stacked experts
  bool dora = false;                       // it has a magnitude
  bool stacked = false;  // of experts: the gradient of B is summed apart (model/layers/fused_moe.cpp)
};

// The largest micro-batch that any order of the rows can make.
struct LongestBatch {
  std::int64_t tokens = 0;
  std::int64_t scored = 0;   // rows of the head
  std::int64_t segment = 0;  // the longest sequence
};

// Says where a module's dropout mask comes from. kWidened: it is a tensor of fp32 while it is used.
// kSentAsBits: besides, the host draws it, and the device keeps its bits from the module's forward to its
// backward. kInKernel: it is no tensor.
enum class DropoutMasks { kWidened, kSentAsBits, kInKernel };

struct MemoryInputs {
  model::ModelConfig model;
  std::int64_t linear_size = 2;  // bytes of an element: frozen linears and their GEMMs
  bool float_head = false;       // the head's products are fp32, and its rows a copy
  bool tiled_head = false;       // the losses take the autograd form of the head in either form of the layers
  std::int64_t residual_size = 4;  // ... residual stream, norms, embedding
  // resident on the host just before the model is read, on a device after it: program, libtorch, tokenizer,
  // data
  std::int64_t program_bytes = 0;
  bool on_device = false;    // the model is on a device with memory of its own: all but the program is there
  bool keeps_blocks = true;  // the host's tensors take the room of freed ones (base/gguf/kept_blocks.h)
  std::int64_t device_bytes = 0;   // in use on the device just before the model is read
  std::int64_t context_bytes = 0;  // of the device's runtime, beside what libtorch's allocator takes
  // libtorch's allocator takes this from the device beyond what it hands out: a share of what a batch needs,
  // and bytes.
  double unfilled_share = 0;
  std::int64_t unfilled_bytes = 0;
  std::int64_t head_tile = 0;       // scratch of the head's tiles on a device; 0: the CPU's
  std::int64_t base_bytes = 0;      // CausalLm::parameter_bytes()
  bool packed = false;              // the base is held as packs (ops/weight.h)
  std::string quantized;            // ops::describe() of its linears; empty: not quantized
  std::int64_t largest_linear = 0;  // numbers of the largest quantized linear: dequantized whole at times
  bool by_panels = false;           // but not by the bf16 GEMM of this machine
  // Sums the ranks of frozen adapters below, which base_bytes counts, over a layer's modules that read one
  // input: the largest sum.
  std::int64_t frozen_rank = 0;
  std::int64_t adapter_parameters = 0;
  std::optional<std::int64_t> optimizer_bytes;  // of its state; empty: two fp32 moments a parameter
  std::vector<AdaptedLinear> adapted;
  std::int64_t token_rows = 0;  // rows of the embedding that are trained
  bool tied_head = false;       // ... and of the head
  bool dropout = false;
  DropoutMasks masks = DropoutMasks::kWidened;  // of it
  std::int64_t attention_backward = 0;  // ops::packed_attention_backward_bytes of the longest training batch
  LongestBatch train, eval;             // eval: zeros without an evaluation
  std::int64_t sampling = 0;            // keys, values, prefill and logits of a method that samples
  std::int64_t graphs = 0;              // of the sampler's steps, beside a training pass too
  // A reference that is not the model itself has its weights, perhaps only before step 1, and needs this for
  // a forward pass of another model (forward_bytes).
  std::int64_t reference_bytes = 0, reference_pass = 0;
  bool reference_released = false;
  // Distillation holds them beside a training pass: the teacher's hidden states of all scored rows, and tiles
  // of both heads.
  std::int64_t teacher_rows = 0;
  bool has_teacher = false;       // the reference is a teacher
  std::int64_t accumulation = 1;  // micro-batches of a step, all laid out at once
  std::int64_t gradient_copies =
      0;  // of the whole gradient, while micro-batches are added up (parallel/tree_sum.h)
  std::int64_t threads = 1;
  bool full = false;         // full fine-tuning: adapter_parameters are those of the model that are trained
  bool fused_trains = true;  // the fused form can train what is trained
  // What a pass holds of embedding and head that are trained in full or have a LoRA: casts and gradients.
  std::int64_t ends_bytes = 0;
  bool trains_below = false;  // something is trained below the lowest LoRA: every layer is taped
  // Parameters whose gradients are alive together where the optimizer steps in the backward; 0: it cannot
  // here.
  std::int64_t layer_step_parameters = 0;
  // Of the trained linears in the layers: all, and of one layer, the most. 0: their copies have to be kept.
  std::int64_t layer_copies = 0, layer_copies_of_one = 0;
  bool clips = true;  // max_grad_norm is not 0
  // Full fine-tuning: what is trained outside the layers, and in the largest of them. Of these, zero_stage
  // divides among `ranks` (train/loop/shards.h); optimizer_bytes are this rank's.
  std::int64_t outside_parameters = 0, largest_layer = 0;
  std::int64_t zero_stage = 0, ranks = 1;
};

// The segment of the device's runtime, which libtorch's allocator does not count.
inline constexpr const char* kContextSegment = "CUDA's own memory";

// The segment of graphs that the sampler keeps.
inline constexpr const char* kGraphSegment = "graphs of the sampler's steps";

// The segment of the weights of a reference that is not the model itself.
inline constexpr const char* kReferenceSegment = "reference model";
inline constexpr const char* kTeacherSegment = "teacher";  // of distillation

// The segment of what a device holds of this process before the model is read.
inline constexpr const char* kEarlierSegment = "in use before the model";

// Segments after program, base and adapter: what a batch needs.
inline constexpr std::size_t kFirstOfBatch = 3;

struct MemorySegment {
  std::string name;
  std::int64_t bytes = 0;
  bool on_device = false;  // of the device's memory, not of the host's
};

struct MemoryLimit {
  std::int64_t bytes = 0;  // of the whole process; 0: not known, nothing is compared
  bool is_set = false;     // memory_limit, not what was free
  std::string by =
      {};  // what bounds the free memory when it is not the machine (base/process/process_memory.h)
};

struct MemoryPlan {
  std::vector<MemorySegment> segments;  // in order of allocation
  // The planned peaks of both memories; on the CPU the device has none. total: of the one that `limit`
  // bounds, which is the device's where the model is on one.
  std::int64_t total = 0, host_total = 0, device_total = 0;
  MemoryLimit limit;
  bool fused_layer = true;
  config::RecomputeMode recompute = config::RecomputeMode::kNone;  // never kAuto; kNone in autograd form
  std::string why_layer;      // "layer form explicit (fused): base frozen, adapters are LoRA on linears"
  std::string why_recompute;  // "recompute cheap: fits 2.95 GB; none would need 3.30 GB"
  bool keeps_casts = true;  // copies of the layers' trained weights in the linears' dtype (model/causal_lm.h)
  bool layer_steps = false;  // the optimizer steps in the backward (train/loop/layer_steps.h)
  std::string why_savings;   // of these two, with their cost; empty: neither
};

// What full fine-tuning can do to need less.
struct MemorySavings {
  bool keeps_casts = true, layer_steps = false;
};

// The plan of one form and level, whether it fits or not; level is not kAuto.
MemoryPlan memory_of(const MemoryInputs& inputs, bool fused_layer, config::RecomputeMode level,
                     const MemorySavings& savings = {});

// Returns what one forward pass over the largest batch needs beside the weights, in the fused form.
std::int64_t forward_bytes(const MemoryInputs& inputs);

// The requested form, or with kAuto the fused one where it is supported; in fused form the requested level,
// or with kAuto the first of none, cheap, layer whose total is within the limit. Full fine-tuning also saves
// memory, in the order of cost: copies of a layer at a time and recompute, then the optimizer's step in the
// backward, which comes first where nothing is clipped. UserError when
//   kFused is requested and the base or anything but LoRA is trained; kAuto is requested and no level fits:
//   the message has the segments and what to lower.
MemoryPlan plan_memory(const MemoryInputs& inputs, config::LayerForm form, config::RecomputeMode level,
                       const MemoryLimit& limit);

std::string_view recompute_name(config::RecomputeMode level);  // "none", "cheap", "layer", "auto"

}  // namespace hone::train
