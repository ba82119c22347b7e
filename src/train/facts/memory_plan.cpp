#include "train/facts/memory_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/enum_names.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/gguf/kept_blocks.h"
#include "train/facts/pass_bytes.h"

namespace hone::train {
namespace {

using config::LayerForm;
using config::RecomputeMode;

// Pages of libtorch and thread stacks that only training touches; measured (docs/log.md). Then what tensors'
// memory may keep.
constexpr std::int64_t kFirstUse = 40LL << 20;
constexpr auto kKept = static_cast<std::int64_t>(base::KeptBlocks::kOver);
std::string describe_base(const MemoryInputs& in) {
  if (in.full) return "the model as it was read";
  const std::string out = in.frozen_rank > 0 ? "base weights and adapters" : "base weights";
  if (!in.quantized.empty()) return out + ", " + in.quantized;
  return in.packed ? out + ", packed" : out;
}

// Numbers of trained weights that have a copy in the linears' dtype.
std::int64_t copied_parameters(const MemoryInputs& in, const MemorySavings& savings) {
  return in.adapter_parameters - (savings.keeps_casts ? 0 : in.layer_copies - in.layer_copies_of_one);
}

bool divides(const MemoryInputs& in, std::int64_t stage) {
  return in.full && in.ranks > 1 && in.zero_stage >= stage;
}

// Of all parameters, those that a rank has when it keeps its share of each part and works on one layer, with
// another one on its way.
std::int64_t parameters_of_a_share(const MemoryInputs& in) {
  const std::int64_t layers = in.adapter_parameters - in.outside_parameters;
  return in.outside_parameters + (layers + in.ranks - 1) / in.ranks + 2 * in.largest_layer;
}

std::string trained_segment(const MemoryInputs& in, bool layer_steps) {
  if (!in.full) return "adapter and optimizer";
  if (divides(in, 1))
    return "float32 weights, gradients and optimizer, by zero_stage " + std::to_string(in.zero_stage);
  return layer_steps ? "float32 weights, a layer's gradients and optimizer"
                     : "float32 weights, gradients and optimizer";
}

// What is saved, where `before` was the leanest plan without the optimizer's step in the backward.
std::string describe_savings(const MemoryInputs& in, const MemoryPlan& plan, const MemoryPlan& before) {
  std::string out;
  if (!plan.keeps_casts) out = "copies of weights: of one layer at a time";
  if (!plan.layer_steps) return out;
  out += (out.empty() ? "" : "; ") +
         std::string("optimizer step layer by layer in the backward: gradients of all layers would need ") +
         base::gigabytes(before.total);
  if (in.clips) out += "; to clip them a step takes two backwards, with max_grad_norm: 0 one";
  return out;
}

struct Candidate {
  RecomputeMode level;
  MemorySavings savings;
};

// In the order of their cost in time.
std::vector<Candidate> candidates_of(const MemoryInputs& in, bool fused_layer, RecomputeMode level) {
  std::vector<RecomputeMode> levels = {level};
  if (level == RecomputeMode::kAuto)
    levels = {RecomputeMode::kNone, RecomputeMode::kCheap, RecomputeMode::kLayer};
  if (!fused_layer) levels = {RecomputeMode::kNone};
  std::vector<Candidate> out;
  const auto add_levels = [&](const MemorySavings& savings) {
    for (const RecomputeMode one : levels) out.push_back({one, savings});
  };
  const bool drops = fused_layer && in.layer_copies > 0, steps = fused_layer && in.layer_step_parameters > 0;
  if (!drops && !steps) {
    add_levels({});
    return out;
  }
  out.push_back({levels.front(), {}});
  if (steps && !in.clips) {
    out.push_back({levels.front(), {.layer_steps = true}});
  } else {
    add_levels({.keeps_casts = !drops});
  }
  if (steps) add_levels({.keeps_casts = !drops, .layer_steps = true});
  return out;
}

std::string two_digits(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

bool fits(const MemoryPlan& plan, const MemoryLimit& limit) {
  return limit.bytes == 0 || plan.total <= limit.bytes;
}

std::string describe_limit(const MemoryLimit& limit) {
  return (limit.is_set ? "" : "the free ") + base::gigabytes(limit.bytes) +
         (limit.by.empty() ? "" : " that " + limit.by + " leaves");
}

[[noreturn]] void throw_too_large(const MemoryInputs& in, const MemoryPlan& leanest,
                                  const MemoryLimit& limit) {
  std::string found = "the smallest plan (" +
                      std::string(leanest.fused_layer ? "recompute layer" : "layer form plain") + ") needs " +
                      base::gigabytes(leanest.total) + ":";
  std::int64_t of_batch = 0;
  for (std::size_t i = 0; i < leanest.segments.size(); ++i) {
    found +=
        (i == 0 ? " " : ", ") + leanest.segments[i].name + " " + base::gigabytes(leanest.segments[i].bytes);
    // what comes after program, base and adapter
    const std::string& name = leanest.segments[i].name;
    if (i >= kFirstOfBatch && name != kReferenceSegment && name != kTeacherSegment)
      of_batch += leanest.segments[i].bytes;
  }
  const bool batch_can = leanest.total - of_batch < limit.bytes;
  std::string fix = batch_can ? "lower per_device_train_batch_size or max_length" : "take a smaller model";
  if (!batch_can && in.linear_size == 4) fix += ", or bf16: true";
  if (!leanest.fused_layer) {
    fix += in.fused_trains
               ? ", or remove layer_form: plain"
               : ", or train only LoRA on linears of the layers, which takes the form that needs less";
  }
  const auto rounded_up = [](std::int64_t bytes) {
    return two_digits(std::ceil(static_cast<double>(bytes) / 1e7) / 100) + "GB";
  };
  if (!limit.by.empty()) {
    fix += ", or raise that limit by " + rounded_up(leanest.total - limit.bytes);
  } else {
    fix += limit.is_set
               ? ", or raise memory_limit"
               : ", or end other programs; memory_limit: " + rounded_up(leanest.total) + " runs it anyway";
  }
  throw base::UserError({.where = "memory plan",
                         .expected = "a run within " + describe_limit(limit) + " (MEM-01)",
                         .found = found,
                         .cause = "the longest micro-batch has " + std::to_string(in.train.tokens) +
                                  " tokens, " + std::to_string(in.train.scored) + " of them scored",
                         .fix = fix});
}

bool choose_explicit(const MemoryInputs& in, LayerForm form, std::string& why) {
  const bool can = in.fused_trains;
  if (can && form == LayerForm::kAutograd) {
    why = "layer form plain: as set";
    return false;
  }
  if (can) {
    const bool whole = in.full || in.trains_below || in.ends_bytes > 0;
    why = whole ? "layer form explicit (fused): it has the gradients of all weights"
                : "layer form explicit (fused): base frozen, adapters are LoRA on linears" +
                      std::string(in.token_rows > 0 ? " and rows of the embedding" : "");
    return true;
  }
  const std::string reason = "the embedding or the head has a LoRA";
  if (form != LayerForm::kFused) {
    why = "layer form plain: " + reason;
    return false;
  }
  throw base::UserError({.where = "layer_form",
                         .expected = "layer_form: auto or plain for this run (GRAD-07)",
                         .found = "explicit",
                         .cause = reason + ", for which the fused layer (explicit) has no gradients",
                         .fix = "remove layer_form"});
}

// The head and the layers take turns. But the allocator of a device keeps blocks of the head's sizes, which
// no layer fits; and so does the heap of a host that keeps no blocks (base/gguf/kept_blocks.h).
void add_pass_segments(MemoryPlan& out, const MemoryInputs& in, const PassBytes& pass) {
  out.segments.push_back({"tape of " + std::to_string(pass.taped_layers) + " layers", pass.tape});
  if (in.on_device || !in.keeps_blocks) {
    out.segments.push_back({"one layer's scratch", pass.scratch + pass.kept});
    out.segments.push_back({"head", pass.head});
  } else {
    out.segments.push_back({"one layer or the head", std::max(pass.scratch, pass.head) + pass.kept});
  }
  out.segments.push_back({"batch", pass.batch});
}

std::int64_t bytes_of_batch(const MemoryPlan& plan) {
  std::int64_t out = 0;
  for (std::size_t i = kFirstOfBatch; i < plan.segments.size(); ++i) out += plan.segments[i].bytes;
  return out;
}

// Sampling, training and a reference's pass take turns: what the larger needs more than the others.
void add_turns(MemoryPlan& out, const MemoryInputs& in) {
  const std::int64_t training = bytes_of_batch(out);
  const std::int64_t sampling = in.sampling == 0 ? 0 : in.sampling + beside_sampling(in);
  if (sampling > training) out.segments.push_back({"sampling, beyond a training pass", sampling - training});
  const std::int64_t most = std::max(training, sampling);
  if (in.reference_pass > most)
    out.segments.push_back({"a pass of the reference, beyond a training pass", in.reference_pass - most});
}

}  // namespace

std::string_view recompute_name(RecomputeMode level) {
  static constexpr std::array<std::string_view, 4> kNames = {"auto", "none", "cheap", "layer"};
  return base::enum_name(kNames, level);
}

MemoryPlan memory_of(const MemoryInputs& in, bool fused_layer, RecomputeMode level,
                     const MemorySavings& asked) {
  MemorySavings savings = asked;
  if (divides(in, 3)) savings.keeps_casts = false;  // what is gathered of a layer is gone after its pass
  base::require(level != RecomputeMode::kAuto, "train::memory_of", "a level, not auto");
  // parameters and gradients; GEMMs read a copy in the linears' dtype, which autograd saves of whole matrices
  const bool copies = in.linear_size != 4 && (fused_layer || in.full);
  const std::int64_t shadow = copies ? in.linear_size : 0;
  const std::int64_t gradients = savings.layer_steps ? in.layer_step_parameters
                                 : divides(in, 2)    ? parameters_of_a_share(in)
                                                     : in.adapter_parameters;
  const std::int64_t weights = divides(in, 3) ? parameters_of_a_share(in) : in.adapter_parameters;
  MemoryPlan out;
  out.layer_steps = savings.layer_steps;
  out.keeps_casts = savings.keeps_casts;
  out.fused_layer = fused_layer;
  out.recompute = fused_layer ? level : RecomputeMode::kNone;
  out.segments = {
      {"program and data", in.program_bytes + kFirstUse + (in.keeps_blocks ? kKept : 0)},
      {describe_base(in), in.base_bytes},
      {trained_segment(in, savings.layer_steps),
       weights * 4 + copied_parameters(in, savings) * shadow + gradients * 4 * (1 + in.gradient_copies) +
           in.optimizer_bytes.value_or(2 * 4 * in.adapter_parameters)},
  };
  const PassBytes pass = pass_bytes(in, fused_layer, level);
  add_pass_segments(out, in, pass);
  if (pass.ends > 0) out.segments.push_back({"embedding and head, trained", pass.ends});
  if (in.teacher_rows > 0) out.segments.push_back({"the teacher's hidden states", in.teacher_rows});
  add_turns(out, in);
  // They are up to a tenth of what came and went (docs/log.md).
  if (!in.on_device && !in.keeps_blocks)
    out.segments.push_back({"holes of the heap", bytes_of_batch(out) / 10});
  if (in.graphs > 0) out.segments.push_back({kGraphSegment, in.graphs});
  if (in.unfilled_share > 0) {
    const auto filled = static_cast<double>(bytes_of_batch(out));
    out.segments.push_back({"what the allocator cannot fill",
                            in.unfilled_bytes + static_cast<std::int64_t>(in.unfilled_share * filled)});
  }
  // Before step 1 there is no tape, whose memory a reference has that is released then.
  const std::int64_t tape = in.reference_released ? out.segments[kFirstOfBatch].bytes : 0;
  const char* const reference = in.has_teacher ? kTeacherSegment : kReferenceSegment;
  if (in.reference_bytes > tape) out.segments.push_back({reference, in.reference_bytes - tape});
  if (in.context_bytes > 0) out.segments.push_back({kContextSegment, in.context_bytes});
  if (in.device_bytes > 0) out.segments.push_back({kEarlierSegment, in.device_bytes});
  for (MemorySegment& segment : out.segments) {
    segment.on_device = in.on_device && &segment != &out.segments.front();
    (segment.on_device ? out.device_total : out.host_total) += segment.bytes;
  }
  out.total = in.on_device ? out.device_total : out.host_total;
  return out;
}

std::int64_t forward_bytes(const MemoryInputs& in) {
  MemoryInputs pass = in;
  pass.train = {};
  pass.context_bytes = pass.device_bytes = pass.graphs = 0;
  pass.unfilled_share = 0;
  return bytes_of_batch(memory_of(pass, /*fused_layer=*/true, RecomputeMode::kNone));
}

MemoryPlan plan_memory(const MemoryInputs& in, LayerForm form, RecomputeMode level,
                       const MemoryLimit& limit) {
  std::string why_layer;
  const bool fused_layer = choose_explicit(in, form, why_layer);
  MemoryPlan plan, before;
  std::string without;  // the levels that do not fit, and what they would need
  bool fitting = false;
  const std::vector<Candidate> candidates = candidates_of(in, fused_layer, level);
  for (std::size_t i = 0; i < candidates.size() && !fitting; ++i) {
    const auto& [candidate, savings] = candidates[i];
    if (i > 0 && candidate == candidates.front().level) {
      without.clear();
    } else if (i > 0) {
      without += (without.empty() ? "; " : ", ") + std::string(recompute_name(plan.recompute)) +
                 (without.empty() ? " would need " : " ") + base::gigabytes(plan.total);
    }
    plan = memory_of(in, fused_layer, candidate, savings);
    if (!savings.layer_steps) before = plan;
    fitting = fits(plan, limit);
  }
  plan.why_savings = describe_savings(in, plan, before);
  if (!fitting && level == RecomputeMode::kAuto) throw_too_large(in, plan, limit);

  plan.limit = limit;
  plan.why_layer = why_layer;
  plan.why_recompute = "recompute " + std::string(recompute_name(plan.recompute)) + ": ";
  const std::string within =
      limit.bytes == 0 ? "the free memory is not known" : "fits " + describe_limit(limit);
  if (!fused_layer) {
    plan.why_recompute += "the autograd layer keeps all activations" + std::string(fitting ? "" : ", ");
  } else {
    plan.why_recompute +=
        level != RecomputeMode::kAuto ? "as set" + std::string(fitting ? "" : ", ") : within + without;
  }
  if (!fitting)
    plan.why_recompute +=
        "over " + describe_limit(limit) + " by " + base::gigabytes(plan.total - limit.bytes);
  return plan;
}

}  // namespace hone::train
