#include "train/facts/rank_plan.h"

#include <bit>
#include <cmath>
#include <span>

#include "base/error.h"
#include "parallel/bins.h"
#include "parallel/tree_sum.h"

namespace hone::train {

namespace {

using config::LayerForm;
using config::RecomputeMode;

// As parallel/linked_ranks.cpp has them.
constexpr std::int64_t kRoundElements = 4 << 20, kLeastRound = 4096, kPieceBytes = 64 << 20;
constexpr std::int64_t kElement = 4;
constexpr std::size_t kMostSteps = 64;  // of a forecast: enough for the mean of uneven rows

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Elements of rank `rank`'s part: equal parts in order, the last ones shorter (Ranks::part_of).
std::int64_t part_elements(std::int64_t elements, std::int64_t ranks, std::int64_t rank) {
  constexpr std::int64_t kAligned = 16;
  const std::int64_t each = divided_up(divided_up(elements, ranks), kAligned) * kAligned;
  return std::min(elements, (rank + 1) * each) - std::min(elements, rank * each);
}

std::int64_t sum_rounds(std::int64_t elements, std::int64_t ranks) {
  const std::int64_t part = divided_up(elements, ranks);
  const std::int64_t piece = std::max(kRoundElements / ranks, kLeastRound);
  return divided_up(part, piece) + divided_up(part * kElement, kPieceBytes);
}

// A step's tokens by rank.
struct Shares {
  double mean = 0, most = 0, total = 0;
  std::vector<std::int64_t> counts;  // micro-batches of each rank
};

Shares shares_of(std::span<const std::int64_t> costs, std::int64_t ranks) {
  const parallel::BinnedWork work(costs, static_cast<int>(ranks));
  Shares out;
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t tokens = 0;
    const std::vector<std::int64_t> items = work.items_of_rank(rank);
    for (const std::int64_t item : items) tokens += costs[static_cast<std::size_t>(item)];
    out.counts.push_back(static_cast<std::int64_t>(items.size()));
    out.total += static_cast<double>(tokens);
    out.most = std::max(out.most, static_cast<double>(tokens));
  }
  out.mean = out.total / static_cast<double>(ranks);
  return out;
}

std::int64_t facts_of_rank(const RankWork& work, std::int64_t count) {
  return 1 + count * (8 + work.facts_bytes);
}

// Seconds of a token on a rank, of which a host has setting.per_host.
double token_seconds(const RankSpeed& speed, const RankSetting& setting) {
  const std::int64_t threads = setting.per_host * setting.threads();
  const double crowd = std::max(1.0, static_cast<double>(threads) / static_cast<double>(setting.cores));
  return speed.token(static_cast<double>(setting.threads())) * crowd;
}

// Seconds that `bytes` of each rank take, evenly to all peers.
double transfer_seconds(double bytes, const RankSetting& setting, const RankSpeed& speed) {
  const auto ranks = static_cast<double>(setting.ranks()), local = static_cast<double>(setting.per_host);
  if (setting.ranks() == 1) return 0;
  const double senders = std::min(local, static_cast<double>(setting.cores));
  const double inside = bytes * (local - 1) / (ranks - 1) * local / (speed.bandwidth * senders);
  const double outside = bytes * (ranks - local) / (ranks - 1) * local / speed.network_bandwidth;
  return inside + outside;
}

double exchange_seconds(const RankSetting& setting, const RankSpeed& speed) {
  if (setting.ranks() == 1) return 0;
  const double latency = setting.hosts > 1 ? std::max(speed.latency, speed.network_latency) : speed.latency;
  return latency + static_cast<double>(setting.ranks() - 1) * speed.message;
}

// What all steps have alike: the sum, agreement, a generation batch.
struct Sending {
  double bytes = 0, exchanges = 0;
};

Sending whole_sum(std::int64_t elements, std::int64_t ranks) {
  double bytes = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    bytes += static_cast<double>(sum_bytes(elements, ranks, rank));
  return {.bytes = bytes / static_cast<double>(ranks),
          .exchanges = static_cast<double>(sum_rounds(elements, ranks))};
}

// What train/loop/shards.h sends. From stage 2 on an agreement comes before each collective of a pass, and ends the passes.
Sending divided_sums(const RankWork& work, std::int64_t ranks) {
  const auto all = static_cast<double>(work.parameters), outside = static_cast<double>(work.outside);
  const auto passes = static_cast<double>(work.accumulation), layers = static_cast<double>(work.layers);
  const double parts = layers + 2;
  double elements = 0, collectives = 0, agreed = 0;  // elements: sums of shares, or shares that go to all
  if (work.zero_stage == 1) {
    elements = 2 * all;
    collectives = 2 * parts;
  } else if (work.zero_stage == 2) {
    elements = (passes + 1) * all;
    agreed = passes * parts;
    collectives = agreed + parts;
  } else {
    elements = passes * (all + 2 * (all - outside)) + outside;
    agreed = passes * (parts + 2 * layers);
    collectives = agreed + 2;
  }
  if (work.zero_stage > 1) agreed += 1;
  collectives += 1;  // the norm: a sum of one fp64
  const auto peers = static_cast<double>(ranks - 1);
  const double to_others = peers / static_cast<double>(ranks);
  return {.bytes = elements * to_others * kElement + 2 * to_others * sizeof(double) +
                   (collectives + agreed) * peers * kHeaderBytes,
          .exchanges = 2 * collectives + agreed};
}

Sending sending_of(const RankWork& work, std::int64_t ranks, double facts) {
  Sending out;
  if (ranks == 1) return out;
  const auto peers = static_cast<double>(ranks - 1);
  // gradients' facts, their sum, agreement
  out = work.zero_stage > 0 ? divided_sums(work, ranks) : whole_sum(work.parameters, ranks);
  out.bytes += facts + peers * kHeaderBytes;
  out.exchanges += 3 + 1;
  if (work.sampled_bytes > 0) {
    const double share = 1 / static_cast<double>(work.steps_of_batch);
    out.bytes += share * static_cast<double>(gather_bytes(work.sampled_bytes, ranks));
    out.exchanges += 2 * share;
  }
  return out;
}

}  // namespace

std::int64_t sum_bytes(std::int64_t elements, std::int64_t ranks, std::int64_t rank) {
  const std::int64_t own = part_elements(elements, ranks, rank);
  return (elements - own + own * (ranks - 1)) * kElement + kHeaderBytes * (ranks - 1);
}

std::int64_t gather_bytes(std::int64_t bytes, std::int64_t ranks) {
  return (kHeaderBytes + (bytes > kInHeaderBytes ? bytes : 0)) * (ranks - 1);
}

RankForecast forecast(const RankWork& work, const RankSetting& setting, const RankSpeed& speed) {
  base::require(!work.micro_batches.empty() && setting.ranks() > 0, "train::forecast", "micro-batches");
  const std::int64_t ranks = setting.ranks();
  const auto all = static_cast<std::int64_t>(work.micro_batches.size());
  const std::int64_t of_step = std::min(work.accumulation * ranks, all);
  RankForecast out{.setting = setting};
  double mean = 0, most = 0, facts = 0;
  const std::span<const std::int64_t> costs(work.micro_batches);
  // The last step of a pass may be shorter: it is left out.
  for (std::int64_t at = 0; at + of_step <= all && out.steps < static_cast<std::int64_t>(kMostSteps);
       at += of_step) {
    const Shares shares =
        shares_of(costs.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(of_step)), ranks);
    mean += shares.mean;
    most += shares.most;
    out.tokens += shares.total;
    for (const std::int64_t count : shares.counts)
      facts +=
          static_cast<double>(gather_bytes(facts_of_rank(work, count), ranks)) / static_cast<double>(ranks);
    out.steps += 1;
  }
  const auto steps = static_cast<double>(out.steps);
  const double token = token_seconds(speed, setting);
  out.tokens /= steps;
  out.compute = (mean / steps + work.sampled_tokens) * token;
  out.imbalance = (most - mean) / steps * token;
  out.optimizer = speed.optimizer * static_cast<double>(setting.per_host);
  const Sending sending = sending_of(work, ranks, facts / steps);
  out.bytes_of_rank = sending.bytes;
  out.communication =
      sending.exchanges * exchange_seconds(setting, speed) + transfer_seconds(sending.bytes, setting, speed);
  if (ranks > 1) {
    out.network_of_host = sending.bytes * static_cast<double>(setting.per_host) *
                          static_cast<double>(ranks - setting.per_host) / static_cast<double>(ranks - 1);
  }
  // One process that does the whole step.
  const RankSetting one{.cores = setting.cores, .set_threads = setting.set_threads};
  const double alone =
      (out.tokens + work.sampled_tokens * static_cast<double>(ranks)) * token_seconds(speed, one) +
      speed.optimizer;
  out.efficiency = alone / (out.seconds() * static_cast<double>(setting.hosts));
  return out;
}

// ---- memory

namespace {

// Of one process with all micro-batches of the step.
MemoryInputs inputs_of(const MemoryInputs& inputs, const RankWork& work, const RankSetting& setting) {
  MemoryInputs out = inputs;
  if (setting.ranks() == 1) return out;
  out.accumulation = work.accumulation * setting.ranks();
  out.threads = setting.threads();
  out.ranks = setting.ranks();
  if (out.full && out.zero_stage > 0 && out.optimizer_bytes)
    out.optimizer_bytes = divided_up(*out.optimizer_bytes, setting.ranks());
  const std::int64_t most = work.tree_sums ? parallel::tree_buffers(static_cast<int>(setting.ranks())) : 0;
  const auto levels = static_cast<std::int64_t>(
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, out.accumulation) - 1)));
  out.gradient_copies = work.sampled_bytes > 0 ? most : std::min(most, levels);
  if (out.accumulation > 1) out.layer_step_parameters = 0;  // the gradients of a step are summed first
  return out;
}

MemoryPlan plan_or_leanest(const MemoryInputs& inputs, RecomputeMode level, const MemoryLimit& limit) {
  const bool fused = inputs.fused_trains;
  try {
    return plan_memory(inputs, LayerForm::kAuto, level, limit);
  } catch (const base::UserError&) {  // no level fits
    return plan_memory(inputs, LayerForm::kAuto, fused ? RecomputeMode::kLayer : RecomputeMode::kNone, limit);
  }
}

void add_rank_segments(MemoryPlan& plan, const RankWork& work, std::int64_t ranks) {
  if (ranks == 1) return;
  const auto add = [&plan](const char* name, std::int64_t bytes) {
    if (bytes == 0) return;
    plan.segments.push_back({name, bytes, plan.device_total > 0});
    (plan.device_total > 0 ? plan.device_total : plan.host_total) += bytes;
    plan.total += bytes;
  };
  const std::int64_t part = divided_up(work.parameters, ranks);
  const std::int64_t received =
      std::min(std::max(kRoundElements / ranks, kLeastRound), part) * (ranks - 1) * kElement;
  add("sums of ranks", received);
  add("the others' completions", work.sampled_bytes * (ranks - 1));
}

// A combination of Choices.
struct Chosen {
  bool moments = false;
  std::size_t smaller = 0;  // 0: the run's micro-batches; else of choices.batches[smaller - 1]
  bool quantized = false;
};

Change changed(const MemoryInputs& inputs, const RankWork& work, const RankSetting& setting,
               const Choices& choices, const Chosen& chosen, std::int64_t memory_of_host) {
  constexpr double kEightBitBytes = 2.0 + 2.0 * 4 / 256;  // two codes, and a scale of each 256 of them
  MemoryInputs in = inputs;
  RankWork own = work;
  Change out;
  if (chosen.moments) {
    const double bytes = kEightBitBytes * static_cast<double>(inputs.adapter_parameters);
    in.optimizer_bytes = static_cast<std::int64_t>(std::ceil(bytes));
    out.options.emplace_back("optim: adamw_bnb_8bit");
  }
  if (chosen.smaller > 0) {
    const auto& [size, longest] = choices.batches[chosen.smaller - 1];
    in.train = longest;
    own.accumulation <<= chosen.smaller;
    out.options.push_back("per_device_train_batch_size: " + std::to_string(size));
    out.options.push_back("gradient_accumulation_steps: " + std::to_string(own.accumulation));
  }
  if (chosen.quantized) {
    in.base_bytes = std::min(in.base_bytes, choices.quantized_base);
    in.quantized = "4-bit nf4";
    in.packed = false;
    in.largest_linear = std::max(in.model.intermediate_size, in.model.hidden_size) * in.model.hidden_size;
    out.options.emplace_back("load_in_4bit: true");
  }
  out.memory = rank_memory(in, own, setting, RecomputeMode::kAuto, memory_of_host);
  const RecomputeMode level = out.memory.plan.recompute;
  if (choices.recompute != RecomputeMode::kAuto && choices.recompute != level)
    out.options.insert(out.options.begin(), "recompute: " + std::string(recompute_name(level)));
  return out;
}

}  // namespace

RankMemory rank_memory(const MemoryInputs& inputs, const RankWork& work, const RankSetting& setting,
                       RecomputeMode level, std::int64_t memory_of_host) {
  MemoryPlan extra;
  add_rank_segments(extra, work, setting.ranks());
  const std::int64_t shared = inputs.base_bytes * (setting.per_host - 1);  // the base is there once
  const std::int64_t share =
      memory_of_host == 0
          ? 0
          : std::max<std::int64_t>(1, (memory_of_host + shared) / setting.per_host - extra.total);
  RankMemory out{.limit = memory_of_host};
  out.plan = plan_or_leanest(inputs_of(inputs, work, setting), level, {.bytes = share, .is_set = share > 0});
  add_rank_segments(out.plan, work, setting.ranks());
  out.host = out.plan.total * setting.per_host - shared;
  return out;
}

std::optional<Change> cheapest_that_fits(const MemoryInputs& inputs, const RankWork& work,
                                         const RankSetting& setting, const Choices& choices,
                                         std::int64_t memory_of_host) {
  const RankMemory as_it_is = rank_memory(inputs, work, setting, choices.recompute, memory_of_host);
  if (as_it_is.fits()) return Change{.options = {}, .memory = as_it_is};
  for (const bool quantized : {false, true}) {
    if (quantized && choices.quantized_base == 0) continue;
    for (std::size_t smaller = 0; smaller <= choices.batches.size(); ++smaller) {
      for (const bool moments : {false, true}) {
        if (moments && !choices.full_moments) continue;
        Change one =
            changed(inputs, work, setting, choices,
                    {.moments = moments, .smaller = smaller, .quantized = quantized}, memory_of_host);
        if (one.memory.fits()) return one;
      }
    }
  }
  return std::nullopt;
}

}  // namespace hone::train
