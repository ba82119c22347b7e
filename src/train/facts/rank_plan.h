// What a run needs and takes on W = hosts x ranks of each: a function of numbers that were measured or set. `hone plan`
// prints it. Nothing here knows a network or a model.
//
// A step's W x G micro-batches go into bins as in the run itself (parallel/bins.h), with their real tokens. t threads a rank =
// max(1, processors of a host / ranks of a host), or the option `threads`; with more threads than processors each has a share of one.
//
//   compute        tokens of a rank, the mean x (serial + divided / t) seconds     Amdahl's law, from passes of 1 and all threads
//   imbalance      the rank with the most tokens, beyond the mean                  a step ends when the slowest has come
//   optimizer      seconds of one process x ranks of a host                        each rank steps all parameters
//   communication  of each exchange latency + (W - 1) x message seconds, and bytes over bandwidth (LogGP: L + o n + G k)
//
// Bytes that a rank sends in a step (parallel/linked_ranks.cpp), of P trained parameters and n micro-batches of its own:
//
//   sum of gradients  each part of the others to its owner, its own part to all: 2 (W - 1) / W x 4 P
//   facts             (1 + n x (8 + facts)) x (W - 1), where they do not fit a header
//   headers           kHeaderBytes x (W - 1) a collective: gradients' facts, their sum, agreement; the gather of a generation batch
//
// Of these the peers of other hosts are (W - ranks of a host) / (W - 1); a host's ranks share its network and its loopback.
//
// Memory of a rank is the memory plan of one process with accumulation W x G and the copies of partial sums that W ranks need
// (parallel/tree_sum.h), and beside it what a sum receives. It has the whole base; a host has it once
// (model/layers/shared_base.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/facts/memory_plan.h"

namespace hone::train {

// Seconds, and bytes a second.
struct RankSpeed {
  double serial = 0, divided = 0;  // of a token, forward and backward: serial + divided / threads
  double optimizer = 0;            // of a step, by one process on all processors
  // Between ranks of a host: of a message; the CPU's part of each; bytes that one rank sends.
  double latency = 20e-6, message = 5e-6, bandwidth = 1e9;
  double network_latency = 50e-6, network_bandwidth = 1.25e9;  // between hosts: of a message; of a host

  double token(double threads) const { return serial + divided / threads; }
};

struct RankWork {
  std::vector<std::int64_t> micro_batches;  // tokens of each, in the order of the run
  std::int64_t accumulation = 1;            // of each rank
  std::int64_t parameters = 0;              // that are trained
  bool tree_sums = true;                    // false: full fine-tuning adds up in plain order
  // For full fine-tuning these are what ranks divide (train/loop/shards.h), the layers, and parameters
  // outside them.
  std::int64_t zero_stage = 0, layers = 0, outside = 0;
  std::int64_t facts_bytes = 0;  // of a micro-batch, as ranks tell them each other
  // For methods that sample these are what a rank's part of a generation batch costs in tokens of training,
  // its bytes, and how many steps train on it.
  double sampled_tokens = 0;
  std::int64_t sampled_bytes = 0, steps_of_batch = 1;
};

struct RankSetting {
  std::int64_t hosts = 1, per_host = 1;
  std::int64_t cores = 1;        // of a host
  std::int64_t set_threads = 0;  // of a rank, by the option `threads`; 0: its share of the processors

  std::int64_t ranks() const { return hosts * per_host; }
  std::int64_t threads() const {
    return set_threads > 0 ? set_threads : std::max<std::int64_t>(1, cores / per_host);
  }
};

constexpr std::int64_t kHeaderBytes = 296;    // of a collective, to each peer (LinkedRanks::Header)
constexpr std::int64_t kInHeaderBytes = 192;  // that fit into it

// Return what rank `rank` of `ranks` sends. sum: of fp32 elements, with the header; gather: of `bytes` of its
// own.
std::int64_t sum_bytes(std::int64_t elements, std::int64_t ranks, std::int64_t rank);
std::int64_t gather_bytes(std::int64_t bytes, std::int64_t ranks);

struct RankForecast {
  RankSetting setting;
  std::int64_t steps = 0;                                               // that were looked at
  double tokens = 0;                                                    // of a step, of all ranks
  double compute = 0, imbalance = 0, optimizer = 0, communication = 0;  // seconds of a step
  double bytes_of_rank = 0;    // that a rank sends in a step; the mean
  double network_of_host = 0;  // of these, what a host sends to the others
  double efficiency = 1;       // seconds of one process for the same step / (seconds x hosts)

  double seconds() const { return compute + imbalance + optimizer + communication; }
  double tokens_per_second() const { return tokens / seconds(); }
};

// work.micro_batches is not empty.
RankForecast forecast(const RankWork& work, const RankSetting& setting, const RankSpeed& speed);

// ---- memory

struct RankMemory {
  MemoryPlan plan;         // of a rank: total and segments
  std::int64_t host = 0;   // of all ranks of a host, with one base
  std::int64_t limit = 0;  // of a host; 0: not known
  bool fits() const { return limit == 0 || host <= limit; }
};

// As the run would plan it: `level` kAuto is the first that fits, the leanest where none does. `inputs` of one process.
RankMemory rank_memory(const MemoryInputs& inputs, const RankWork& work, const RankSetting& setting,
                       config::RecomputeMode level, std::int64_t memory_of_host);

// What may be changed, from the least cost to the most: recompute, moments, smaller micro-batches, the base in 4 bits. Each is
// tried alone and with those before it.
struct Choices {
  config::RecomputeMode recompute = config::RecomputeMode::kAuto;
  bool full_moments = true;  // the optimizer has 32-bit moments that 8-bit ones may replace
  // Smaller micro-batches, with as much more accumulation; the first is half of the run's.
  std::vector<std::pair<std::int64_t, LongestBatch>> batches;
  std::int64_t quantized_base = 0;  // bytes in 4 bits; 0: it cannot be, or is
};
struct Change {
  std::vector<std::string> options;  // "recompute: layer", "per_device_train_batch_size: 2"
  RankMemory memory;
};
// The first of them that fits; empty: none does. Nothing to change: no options.
std::optional<Change> cheapest_that_fits(const MemoryInputs& inputs, const RankWork& work,
                                         const RankSetting& setting, const Choices& choices,
                                         std::int64_t memory_of_host);

}  // namespace hone::train
