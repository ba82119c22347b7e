// Probe P9: memory for the longest batch, and room for every planned checkpoint. Steps and warm-up are
// check_schedule's.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "doctor/checks/check_format.h"
#include "doctor/examination.h"
#include "model/config/families.h"
#include "train/loop/triggers.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/run_view.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

namespace fs = base::fs;

constexpr double kDiskReserve = 1.2;
constexpr double kGiant = 16;       // times the mean row
constexpr double kOverLimit = 1.1;  // the plan is an upper bound, and what is free changes

std::int64_t scored_at_once(const train::RunView& run) {
  if (const auto* examples = run.examples())
    return train::longest_batch(*examples, run.plan.per_device_train_batch_size).scored;
  if (const auto* pairs = run.pairs()) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < pairs->records.size(); ++i) most = std::max(most, pairs->records.scored(i));
    return run.plan.per_device_train_batch_size * most;
  }
  return run.plan.per_device_train_batch_size * run.plan.policy.max_completion_length;
}

// What the base takes with its linears, and its experts, in 4 bits, double quantized; 0: they are quantized already.
std::int64_t four_bit_base(const model::CausalLm& model) {
  if (model.quantized()) return 0;
  std::int64_t bytes = model.parameter_bytes();
  const model::Quantize leanest = model::leanest_base(model.config());
  const std::set<std::string> taken = model::quantized_matrices(model.config(), leanest.experts);
  for (const ops::Linear* linear : model.linears()) {
    if (!taken.contains(linear->name + ".weight")) continue;
    const ops::Weight& weight = linear->weight;
    bytes += ops::quantized_bytes(weight.out(), weight.in(), *leanest) - weight.bytes();
  }
  return bytes;
}

// MEM-01
Verdict check_memory(const train::RunView& run) {
  const train::MemoryPlan& plan = run.start.memory;
  Verdict out{.code = "MEM-01"};
  if (plan.segments.empty()) {
    out.what = "memory was not planned";
    return out;
  }
  std::vector<train::MemorySegment> segments = plan.segments;
  std::sort(segments.begin(), segments.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string table;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, segments.size()); ++i)
    table += (i == 0 ? "" : ", ") + segments[i].name + " " + base::gigabytes(segments[i].bytes);
  const std::string planned = "planned peak " + base::gigabytes(plan.total);
  const bool known = plan.limit.bytes > 0;
  const std::string limit =
      base::gigabytes(plan.limit.bytes) + (plan.limit.is_set ? " of memory_limit" : " that are free");
  const std::int64_t logits = 4 * scored_at_once(run) * run.model->config().vocab_size;
  out.what = planned + (known ? " of " + limit : "");
  out.evidence = "most of it " + table + "; logits of " + base::gigabytes(logits) +
                 " are never held at once: the head is computed in tiles";
  const std::int64_t base = run.model->parameter_bytes(), four_bits = four_bit_base(*run.model);
  if (four_bits > 0) {
    const bool experts = run.model->config().experts.count > 0;
    out.evidence += std::string("; load_in_4bit ") + (experts ? "with quantize_moe_experts " : "") +
                    "would hold the base in " + base::gigabytes(four_bits) + ", not " + base::gigabytes(base);
  }
  if (!known || plan.total <= plan.limit.bytes) return out;
  const bool over = static_cast<double>(plan.total) > kOverLimit * static_cast<double>(plan.limit.bytes);
  out.level = over ? Level::kFail : Level::kWarn;
  out.what = planned + ", more than the " + limit;
  out.cause = plan.why_layer + "; " + plan.why_recompute;
  const bool leaner = plan.fused_layer && plan.recompute != config::RecomputeMode::kLayer;
  out.fix = leaner ? "recompute: auto  (the results are bit-equal)"
                   : "lower per_device_train_batch_size and raise gradient_accumulation_steps, or lower " +
                         std::string(run.samples() ? "max_completion_length" : "max_length");
  if (leaner) out.repair = {{"recompute", "auto"}};
  if (four_bits > 0 && plan.total - base + four_bits <= plan.limit.bytes)
    out.fix += ", or " + model::leanest_options(run.model->config()) + "  (a different base, almost as good)";
  out.cost = "an out-of-memory kill, at the latest at the longest batch";
  return out;
}

// MEM-02
Verdict check_longest(const train::RunView& run) {
  Verdict out{.code = "MEM-02"};
  if (const auto* examples = run.examples()) {
    const train::LongestBatch longest = train::longest_batch(*examples, run.plan.per_device_train_batch_size);
    out.what = "planned for the longest batch that any order of the rows can give: " +
               format::counted(longest.tokens, "token") + ", the longest sequence " +
               std::to_string(longest.segment);
    // Nobody set a bound, and one row determines the memory of the run.
    const double mean = run.start.mean_length;
    if (run.plan.max_length == 0 && static_cast<double>(longest.segment) > kGiant * mean) {
      out.level = Level::kWarn;
      out.what = "one row of " + format::counted(longest.segment, "token") +
                 " determines the memory of the "
                 "run";
      out.evidence = "the mean row has " + format::number(std::round(mean)) +
                     " tokens; planned for it: " + base::gigabytes(run.start.memory.total);
      out.cause = "max_length is off";
      out.fix =
          "max_length: " + std::to_string(static_cast<std::int64_t>(kGiant * mean)) + ", or remove that row";
      out.cost = "a peak at any step, depending on the order of the rows";
      return out;
    }
  } else if (!run.samples()) {
    out.what = "planned for the longest micro-batch that the data can give";
  } else {
    out.what = "planned for completions that all reach max_completion_length " +
               std::to_string(run.plan.policy.max_completion_length) + ", with the longest prompt";
    if (const auto* policy = std::get_if<train::PolicyStartFacts>(&run.start.method))
      out.what += " of " + format::counted(policy->longest_prompt, "token");
  }
  out.evidence = "the peak is compared with the plan after the first step and at the end";
  return out;
}

// ---- CKPT-06

std::int64_t tokenizer_bytes(const config::Plan& plan) {
  constexpr std::int64_t kUsual = 8LL << 20U;  // of a GGUF, whose tokenizer is written as files
  std::error_code error;
  const auto size = fs::file_size(fs::path(plan.model_name_or_path) / "tokenizer.json", error);
  return error ? kUsual : static_cast<std::int64_t>(size);
}

// Checkpoints from here to the end, one after the other.
std::int64_t saves(const train::RunView& run) {
  const train::StartFacts& start = run.start;
  const std::int64_t left = std::max<std::int64_t>(0, start.total_steps - start.first_step);
  if (run.plan.save_strategy == config::IntervalStrategy::kNo || left == 0) return 0;
  if (run.plan.save_strategy == config::IntervalStrategy::kEpoch) {
    const std::int64_t epoch = std::max<std::int64_t>(1, start.steps_per_epoch);
    return (left + epoch - 1) / epoch;
  }
  const std::int64_t every = train::resolve_intervals(run.plan, start.total_steps).save;
  return every > 0 ? start.total_steps / every - start.first_step / every : 0;
}

std::optional<std::int64_t> free_bytes(fs::path at) {
  at = fs::absolute(at);
  std::error_code error;
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  const fs::space_info found = fs::space(at, error);
  if (error) return std::nullopt;
  return static_cast<std::int64_t>(found.available);
}

Verdict check_disk(const train::RunView& run) {
  const auto adapter = static_cast<std::int64_t>(run.adapter->flat().nbytes());
  const std::int64_t each = adapter + run.resume_state->optimizer.state_bytes() + tokenizer_bytes(run.plan);
  std::int64_t kept = saves(run);
  // While one is written, those that are kept are all there.
  if (run.plan.save_total_limit > 0) kept = std::min(kept, run.plan.save_total_limit + 1);
  const std::int64_t needed = kept * each + adapter + tokenizer_bytes(run.plan);
  const std::optional<std::int64_t> found = free_bytes(run.directory.output_dir());
  Verdict out{.code = "CKPT-06"};
  const std::string plan = format::counted(kept, "checkpoint") + " of " +
                           base::human_bytes(static_cast<std::uint64_t>(each)) + " and the adapter";
  out.what = plan + ": " + base::human_bytes(static_cast<std::uint64_t>(needed));
  if (!found) return out;
  out.what += ", " + base::human_bytes(static_cast<std::uint64_t>(*found)) + " free";
  out.evidence = "checkpoints are written atomically (base::StagedFolder)";
  if (static_cast<double>(*found) >= kDiskReserve * static_cast<double>(needed)) return out;
  out.level = *found < needed ? Level::kFail : Level::kWarn;
  out.evidence = run.directory.output_dir().string() + "; required is a fifth more than the plan, " +
                 base::human_bytes(static_cast<std::uint64_t>(kDiskReserve * static_cast<double>(needed)));
  out.cause = "the disk is nearly full, or too many checkpoints are kept";
  const std::int64_t fit = static_cast<std::int64_t>(static_cast<double>(*found) / kDiskReserve) / each - 2;
  out.fix = fit > 0 ? "save_total_limit: " + std::to_string(fit) + ", or another output_dir"
                    : "free some space, or name another output_dir";
  out.cost = "the run ends when the disk is full";
  return out;
}

}  // namespace

Verdicts probe_budget(const train::RunView& run) {
  return {check_memory(run), check_longest(run), check_disk(run)};
}

}  // namespace hone::doctor
