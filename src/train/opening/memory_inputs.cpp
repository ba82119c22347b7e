#include "train/opening/memory_inputs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <queue>

#include "base/error.h"
#include "base/files/file.h"
#include "base/gguf/kept_blocks.h"
#include "base/process/instruction_level.h"
#include "base/process/process_memory.h"
#include "model/config/layer_of.h"
#include "model/config/mixer.h"
#include "model/config/planned_bytes.h"
#include "ops/attention.h"
#include "ops/head/linear_logprob.h"
#include "ops/machine/cuda.h"
#include "ops/machine/device_memory.h"
#include "ops/machine/graph_library.h"
#include "ops/machine/product_rates.h"
#include "ops/machine/step_graphs.h"
#include "ops/sampling/lists.h"
#include "parallel/tree_sum.h"
#include "rollout/device_draws.h"
#include "rollout/drafts.h"
#include "rollout/kv_memory.h"
#include "train/facts/machine.h"
#include "train/opening/open_model.h"

namespace hone::train {
namespace {

// The sum of the largest `count` of many values.
class SumOfLargest {
 public:
  explicit SumOfLargest(std::int64_t count) : count_(static_cast<std::size_t>(count)) {}

  void add(std::int64_t value) {
    if (kept_.size() == count_ && value <= kept_.top()) return;
    kept_.push(value);
    sum_ += value;
    if (kept_.size() <= count_) return;
    sum_ -= kept_.top();
    kept_.pop();
  }
  std::int64_t sum() const { return sum_; }

 private:
  std::size_t count_;
  std::int64_t sum_ = 0;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> kept_;  // the least is on top
};

class LargestBatch {
 public:
  explicit LargestBatch(std::int64_t batch_size) : tokens_(batch_size), scored_(batch_size) {}

  void add(const RowSize& row) {
    tokens_.add(row.tokens);
    scored_.add(row.scored);
    segment_ = std::max(segment_, row.segment);
  }
  LongestBatch found() const {
    return {.tokens = tokens_.sum(), .scored = scored_.sum(), .segment = segment_};
  }

 private:
  SumOfLargest tokens_, scored_;
  std::int64_t segment_ = 0;
};

std::int64_t largest_frozen_rank(const model::CausalLm& model) {
  std::int64_t most = 0;
  for (const model::DecoderLayer& layer : model.layers()) {
    for (const auto& readers : layer.readers()) {
      std::int64_t rank = 0;
      for (const ops::Linear* linear : readers)
        rank += linear->frozen_lora ? linear->frozen_lora->a.out() : 0;
      most = std::max(most, rank);
    }
  }
  return most;
}

// A LoRA, at its place.
void add_side(MemoryInputs& out, const ops::Linear& linear, std::int64_t layer, std::int64_t reads) {
  const ops::LoraWeights& side = *linear.lora;
  // of stacked experts a token has the factors of those that it goes through
  const std::int64_t parts = linear.stacked > 1 ? out.model.experts.per_token : 1;
  out.adapted.push_back({.layer = layer,
                         .reads = reads,
                         .reads_norm = reads % 2 == 0,
                         .in = side.a.size(1),
                         .out = side.b.size(0),
                         .rank = side.a.size(0) / linear.stacked * parts,
                         .factors = side.a.size(0),
                         .dora = side.magnitude.defined(),
                         .stacked = linear.stacked > 1});
  out.adapter_parameters += side.a.numel() + side.b.numel();
  if (side.magnitude.defined()) out.adapter_parameters += side.magnitude.numel();
  out.dropout = out.dropout || side.dropout > 0;
}

// Linears with LoRA, and their parameters.
void add_adapted(MemoryInputs& out, const model::CausalLm& model) {
  for (const model::DecoderLayer& layer : model.layers()) {
    for (const ops::Linear* linear : layer.linears()) {
      const ops::Weight& weight = linear->weight;
      if (weight.is_quantized())
        out.largest_linear = std::max(out.largest_linear, weight.out() * weight.in());
    }
    // Dequantized together where groups are multiplied.
    for (const model::LinearStack& stack : layer.stacks()) {
      if (const ops::Quantized* const codes = stack.codes; codes != nullptr)
        out.largest_linear = std::max(out.largest_linear, codes->out * codes->in);
    }
    std::int64_t part = 0;
    for (const model::LayerPart* one : layer.parts) {
      const auto groups = layer.readers(*one);
      base::require(groups.size() <= 2, "train::memory_inputs", "at most two groups of linears in a part");
      std::int64_t reads = 2 * part++;
      for (const auto& group : groups) {
        for (const ops::Linear* linear : group)
          if (linear->lora) add_side(out, *linear, layer.number, reads);
        ++reads;
      }
    }
  }
  const model::PerLayerInputs* const inputs = model.per_layer();  // below the first layer
  if (inputs == nullptr) return;
  const ops::Weight& weight = inputs->projection.weight;
  if (weight.is_quantized()) out.largest_linear = std::max(out.largest_linear, weight.out() * weight.in());
  if (inputs->projection.lora) add_side(out, inputs->projection, 0, kReadsForAll);
}

// Parameters outside the layers' linears, and what a pass holds of them. A whole matrix has a cast and a
// gradient in the dtype of its products, and the gradient in fp32; a LoRA on the head a second tile of
// logits.
void add_trained_parts(MemoryInputs& out, const model::CausalLm& model) {
  constexpr std::int64_t kHeadRows = 512;  // of a tile of the autograd head
  const model::TrainedParts& parts = model.trained_parts();
  const std::int64_t vocabulary = out.model.vocab_size, e = out.linear_size;
  out.fused_trains = model.fused_trains();
  out.trains_below = parts.below_layers();
  const auto whole = [](const at::Tensor& matrix, std::int64_t element) {
    return matrix.numel() * (element == 4 ? 4 : 2 * element + 4);
  };
  const auto add = [&out](const at::Tensor& tensor) { out.adapter_parameters += tensor.numel(); };
  for (const auto& [name, vector] : parts.tensors) add(vector);
  if (parts.head.defined() && !parts.head.is_same(parts.embedding)) {
    add(parts.head);
    if (!out.full) out.ends_bytes += whole(parts.head, e);
  }
  if (parts.embedding.defined()) {
    add(parts.embedding);
    if (!out.full) out.ends_bytes += whole(parts.embedding, out.residual_size);
  }
  if (const auto& lora = parts.embedding_lora) {
    add(lora->a);
    add(lora->b);
    out.ends_bytes += 2 * lora->a.numel() * 4;
  }
  if (const auto& lora = model.head_linear().lora) {
    add(lora->a);
    add(lora->b);
    if (lora->magnitude.defined()) add(lora->magnitude);
    out.dropout = out.dropout || lora->dropout > 0;
    out.ends_bytes += lora->b.numel() * (e + 4) + kHeadRows * vocabulary * (4 + e);
  }
}

struct PartSizes {
  std::int64_t outside = 0, largest = 0;
};

PartSizes part_sizes(const model::CausalLm& model) {
  const model::TrainedParts& parts = model.trained_parts();
  std::int64_t outside = 0;
  std::map<std::int64_t, std::int64_t> layers;
  for (const auto& [name, tensor] : parts.tensors) {
    const std::int64_t layer = model::layer_of(name);
    (layer < 0 ? outside : layers[layer]) += tensor.numel();
  }
  if (parts.embedding.defined()) outside += parts.embedding.numel();
  if (parts.head.defined() && !parts.head.is_same(parts.embedding)) outside += parts.head.numel();
  if (model.score_head().defined()) outside += model.score_head().numel();
  std::int64_t largest = 0;
  for (const auto& [layer, numbers] : layers) largest = std::max(largest, numbers);
  return {outside, largest};
}

void count_layer_copies(MemoryInputs& out, const model::CausalLm& model) {
  for (const model::DecoderLayer& layer : model.layers()) {
    std::int64_t numbers = 0;
    for (const ops::Linear* linear : layer.linears()) {
      if (linear->trained_weight.defined()) numbers += linear->trained_weight.numel();
    }
    out.layer_copies += numbers;
    out.layer_copies_of_one = std::max(out.layer_copies_of_one, numbers);
  }
}

}  // namespace

LongestBatch longest_batch(const RecordData& data, std::int64_t batch_size) {
  if (data.stream != nullptr && data.longest_row > 0) {
    return {.tokens = batch_size * data.longest_row,
            .scored = batch_size * data.longest_row,
            .segment = data.longest_row};
  }
  LargestBatch out(batch_size);
  for (std::size_t row = 0; row < data.rows.size(); ++row) {
    RowSize size;
    for (const std::uint32_t member : data.rows.members(row)) {
      size.tokens += data.records.tokens(member);
      size.scored += data.records.scored(member);
      size.segment = std::max(size.segment, data.records.tokens(member));
    }
    out.add(size);
  }
  return out.found();
}

LongestBatch largest_batch(const std::vector<RowSize>& rows, std::int64_t batch_size) {
  LargestBatch out(batch_size);
  for (const RowSize& row : rows) out.add(row);
  return out.found();
}

namespace {

// Of other mixers, over a sequence of `longest` tokens, with all that share its prefix.
std::int64_t mixer_backward_bytes(const model::CausalLm& model, std::int64_t longest, std::int64_t threads) {
  std::int64_t most = 0;
  for (const model::Mixer* const mixer : model::mixers_of(model.config()))
    most = std::max(most, mixer->backward_bytes(model.config(), longest, threads));
  return most;
}

// Attention's backward, of the layer that needs most; `sizes` without the layer's heads.
std::int64_t attention_backward_bytes(const model::CausalLm& model, const MemoryInputs& in,
                                      ops::AttentionSizes sizes) {
  sizes.heads = in.model.num_attention_heads;
  sizes.threads = in.threads;
  sizes.dtype = model.dtypes().linear;
  sizes.device = model.device();
  sizes.soft_cap = in.model.attention_soft_cap > 0;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (std::int64_t i = 0; i < in.model.num_hidden_layers; ++i) {
    const model::LayerAttention one = in.model.attention_of(i);
    shapes.emplace(one.kv_heads, one.head_dim);
  }
  std::int64_t most = 0;
  for (const auto& [kv_heads, head_dim] : shapes) {
    sizes.kv_heads = kv_heads;
    sizes.head_dim = head_dim;
    most = std::max(most, ops::packed_attention_backward_bytes(sizes));
  }
  return most;
}

}  // namespace

void count_shared_prompts(MemoryInputs& inputs, const model::CausalLm& model, std::int64_t longest_prompt,
                          std::int64_t sharing) {
  inputs.attention_backward = attention_backward_bytes(model, inputs,
                                                       {.tokens = inputs.train.tokens,
                                                        .longest = inputs.train.segment,
                                                        .prefix = longest_prompt,
                                                        .sharing = sharing});
  inputs.attention_backward = std::max(inputs.attention_backward,
                                       mixer_backward_bytes(model, longest_prompt + sharing, inputs.threads));
}

namespace {

// Copies that the tree of a step's sums needs: by items, which are micro-batches, or passes of sampled
// completions.
std::int64_t gradient_copies(const config::Plan& plan) {
  if (!plan.use_peft || plan.accumulation() == 1) return 0;
  const std::int64_t most = parallel::tree_buffers(static_cast<int>(plan.ranks));
  // passes by group may be more than micro-batches, but not twice as many
  const std::int64_t items = plan.accumulation() * (config::samples(plan.method) ? 2 : 1);
  return std::min<std::int64_t>(most, std::bit_width(static_cast<std::uint64_t>(items - 1)));
}

// Of a process on a card, before its first tensor. Assumed: no card has shown it.
constexpr std::int64_t kCudaContext = 512LL << 20;
// What libtorch's allocator takes beyond what it hands out, measured on runs of tests/paper/runs.md. By
// pages: up to 1.9 % of the activations, of which the formulas above have a half, and the ends of the last
// pages, of 20 and of 2 MiB. In blocks: 3 to 36 %.
constexpr double kUnfilledPages = 0.01, kUnfilledBlocks = 0.25;
constexpr std::int64_t kLastPages = 40LL << 20;

}  // namespace

MemoryInputs memory_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                           const LongestBatch& train, const LongestBatch& eval) {
  MemoryInputs out;
  out.model = model.config();
  out.linear_size = static_cast<std::int64_t>(c10::elementSize(model.dtypes().linear));
  out.float_head = model.head().dtype() == at::kFloat && out.linear_size != 4;
  out.tiled_head = out.model.logits_soft_cap > 0 && plan.sft.label_smoothing_factor > 0;  // run_pass()
  out.residual_size = static_cast<std::int64_t>(c10::elementSize(model.dtypes().residual));
  out.on_device = !ops::is_host(model.device());
  out.device_bytes = out.on_device ? program_bytes : 0;
  out.program_bytes = out.on_device ? base::process_memory().resident : program_bytes;
  out.base_bytes = model.parameter_bytes();
  out.packed = model.packed();
  if (const model::Quantize scheme = model.held_as()) out.quantized = model::describe(scheme);
  out.by_panels = ops::has_own_products(model.device());
  out.frozen_rank = largest_frozen_rank(model);
  add_adapted(out, model);
  if (const model::TokenRows& rows = model.token_rows(); rows.defined()) {
    out.token_rows = rows.values().size(0);
    out.tied_head = model.config().tie_word_embeddings && !model.score_head().defined();
    out.adapter_parameters += rows.values().numel();
  }
  out.full = !plan.use_peft;
  add_trained_parts(out, model);
  out.clips = plan.max_grad_norm > 0;
  if (out.full) {
    const PartSizes sizes = part_sizes(model);
    out.outside_parameters = sizes.outside;
    out.largest_layer = sizes.largest;
    out.zero_stage = plan.zero_stage;
    out.ranks = plan.ranks;
  }
  if (out.full && plan.accumulation() == 1 && !config::samples(plan.method)) {
    out.layer_step_parameters = out.outside_parameters + out.largest_layer;  // as LayerSteps keeps them
  }
  // A sampler reads the copies again and again.
  if (out.full && out.linear_size != 4 && !config::samples(plan.method)) count_layer_copies(out, model);
  out.train = train;
  out.eval = eval;
  out.accumulation = plan.accumulation();
  out.gradient_copies = gradient_copies(plan);
  out.threads = threads_or_default(plan.threads);
  out.attention_backward =
      attention_backward_bytes(model, out, {.tokens = train.tokens, .longest = train.segment});
  out.keeps_blocks = base::kept_blocks().keeps();
  if (!out.on_device) out.masks = DropoutMasks::kInKernel;
  if (out.on_device) {
    const std::int64_t scored = std::max(train.scored, eval.scored);
    out.head_tile =
        ops::linear_logprob_bytes(scored, out.model.vocab_size, model.head().dtype(), model.device());
  }
  if (model.device().is_cuda()) {
    out.context_bytes = kCudaContext;
    out.masks = ops::own_kernels_missing().empty() ? DropoutMasks::kInKernel : DropoutMasks::kSentAsBits;
    const bool pages = ops::grows_by_pages(model.device());
    out.unfilled_share = pages ? kUnfilledPages : kUnfilledBlocks;
    out.unfilled_bytes = pages ? kLastPages : 0;
  }
  out.attention_backward =
      std::max(out.attention_backward, mixer_backward_bytes(model, train.segment, out.threads));
  return out;
}

namespace {

// What a forward of the sampler holds of a token at a time, in a layer.
std::int64_t token_bytes(const model::ModelConfig& shape, std::int64_t element) {
  std::int64_t widest = 0;
  for (std::int64_t i = 0; i < shape.num_hidden_layers; ++i) {
    std::int64_t layer = 0;
    for (const model::LayerPart* const part : model::parts_of(shape, i))
      layer += part->columns(shape, i).step;
    widest = std::max(widest, layer);
  }
  // layers' own inputs, and in fp32 what they are made of
  const std::int64_t own = shape.num_hidden_layers * shape.per_layer_width * (3 + 3 * (element == 4 ? 1 : 2));
  return (4 * shape.hidden_size + widest + own) * element;
}

// What attention to pages holds of a layer between its two kernels: of each row and part a sum for each head.
// Lists have places for a quarter more.
std::int64_t attended_bytes(const model::ModelConfig& shape, std::int64_t rows, std::int64_t tokens) {
  constexpr std::int64_t kPartTokens = ops::kPartPages * ops::kPageTokens,
                         kCuts = 2;  // a prompt's end, a fork
  const std::int64_t parts = rows * ((tokens + kPartTokens - 1) / kPartTokens + kCuts);
  return (parts + parts / 4) * shape.num_attention_heads *
         (std::max(shape.head_dim, shape.global_head_dim) + 1) * 4;
}

}  // namespace

std::int64_t sampling_bytes(const model::CausalLm& model, const SampledSize& size,
                            const rollout::GenerateOptions& options) {
  const model::ModelConfig& shape = model.config();
  const rollout::KvBytes kv =
      rollout::kv_bytes(shape, model.dtypes().linear, size.longest_prompt, options, model.device());
  std::int64_t keys = size.prompts * (kv.prompt + size.samples * kv.sample);
  if (options.kv_memory > 0) keys = std::min(keys, options.kv_memory);
  const auto element = static_cast<std::int64_t>(c10::elementSize(model.dtypes().linear));
  const std::int64_t read = std::min(options.prefill_tokens, size.prompts * size.longest_prompt);
  const std::int64_t guesses = options.drafts == rollout::Drafts::kOff ? 0 : rollout::kMostGuesses;
  const std::int64_t rows = std::min(options.batch_size, size.prompts * size.samples) + guesses;
  return keys + read * token_bytes(shape, element) + rows * shape.vocab_size * 4;
}

std::int64_t graph_bytes(const model::CausalLm& model, std::int64_t sequences, std::int64_t tokens) {
  if (!ops::step_graphs_wanted() || !model.device().is_cuda() || !model.has_listed_steps()) return 0;
  if (model.config().experts.count > 0 || !ops::cuda::graph_library_missing().empty()) return 0;
  const model::ModelConfig& shape = model.config();
  const auto element = static_cast<std::int64_t>(c10::elementSize(model.dtypes().linear));
  const std::int64_t rows = rollout::DeviceDraws::rows_for(sequences);
  return rows * (token_bytes(shape, element) + shape.vocab_size * 4) + attended_bytes(shape, rows, tokens);
}

std::int64_t bytes_in_use(const config::MachinePlan& plan) {
  return ops::device_memory(device(plan)).in_use;
}

MemoryLimit memory_limit(const config::MachinePlan& plan) {
  const ops::DeviceMemory memory = ops::device_memory(device(plan));
  MemoryLimit found = {.bytes = memory.free == 0 ? 0 : memory.free / plan.local_ranks + memory.in_use,
                       .by = memory.limit};
  // What is free on a machine changes, so that memory_limit may say more; limits of the process do not.
  // Addresses are also taken by threads that come later: their stacks, and the heaps that malloc reserves for
  // them.
  if (found.by.starts_with("`ulimit")) {
    constexpr std::int64_t kOfThread = 72LL << 20, kOfProcess = 64LL << 20;
    found.bytes = std::max<std::int64_t>(
        1, found.bytes - (threads_or_default(plan.threads) + 1) * kOfThread - kOfProcess);
  }
  const bool tighter = !found.by.empty() && found.bytes < plan.memory_limit;
  if (plan.memory_limit > 0 && !tighter) return {.bytes = plan.memory_limit, .is_set = true};
  return found;
}

void require_room_for_base(const model::WeightSource& source, const config::Plan& plan, bool keep_blocks) {
  const MemoryLimit limit = memory_limit(plan);
  if (limit.is_set) return;  // the plan of the whole run says more
  for (const std::string& name : source.names()) {
    if (source.quantization(name)) return;  // its codes take less than its config says
  }
  const model::DtypePolicy dtypes = dtype_policy(plan);
  const model::Quantize asked = quantize(plan);
  const model::SchemeOf scheme_of = [&](const std::string& name) {
    return model::kept_scheme(source, name, dtypes);
  };
  const std::int64_t base =
      keep_blocks && !asked ? model::planned_bytes(source.config(), dtypes.linear, dtypes.residual, scheme_of)
                            : model::planned_bytes(source.config(), dtypes.linear, dtypes.residual, asked);
  const bool shared = plan.shared_base.descriptor >= 0;
  const std::int64_t others = bytes_in_use(plan);
  const std::int64_t needed = others + (shared ? base / plan.shared_base.ranks : base);
  if (limit.bytes == 0 || needed <= limit.bytes) return;
  const std::int64_t four_bits = model::planned_bytes(source.config(), dtypes.linear, dtypes.residual,
                                                      model::leanest_base(source.config()));
  const bool smaller = others + four_bits <= limit.bytes;
  throw base::UserError(
      {.where = "memory plan",
       .expected =
           "a base model that fits " +
           (limit.by.empty() ? "the free " + base::gigabytes(limit.bytes)
                             : "the " + base::gigabytes(limit.bytes) + " that " + limit.by + " leaves") +
           " (MEM-01)",
       .found = "its weights need " + base::gigabytes(base) + ", the program has " + base::gigabytes(others) +
                (shared ? ", and its ranks share the weights" : ""),
       .cause = "the model is too large for this limit, before anything is trained",
       .fix = std::string(smaller ? model::leanest_options(source.config()) + " (" +
                                        base::gigabytes(four_bits) + "), or "
                                  : "") +
              "take a smaller model" + (limit.by.empty() ? "" : ", or raise that limit")});
}

PassForm pass_form(const MemoryPlan& plan) {
  const auto level = [&] {
    switch (plan.recompute) {
      case config::RecomputeMode::kNone:
        return model::RecomputeLevel::kNone;
      case config::RecomputeMode::kCheap:
        return model::RecomputeLevel::kCheap;
      case config::RecomputeMode::kLayer:
        return model::RecomputeLevel::kLayer;
      case config::RecomputeMode::kAuto:
        break;
    }
    throw base::InternalError({"pass_form", "a chosen recompute level", "auto", "", ""});
  };
  return {.is_fused = plan.fused_layer, .recompute = level()};
}

}  // namespace hone::train
