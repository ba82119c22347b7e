// Facts about a run for report/ and the doctor. Nothing here prints.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/verdict.h"
#include "data/forms/preferences.h"
#include "data/forms/tokenize.h"
#include "data/forms/unpaired.h"
#include "train/facts/memory_plan.h"

namespace hone::train {

// One tensor group in "what is trained".
struct TrainedFacts {
  std::int64_t tensors = 0, parameters = 0, bytes = 0;
  std::int64_t base_parameters = 0, base_bytes = 0;
  std::string base_kind;             // "4-bit nf4, double quantized"; empty: held in full
  std::vector<std::string> modules;  // distinct short names: q_proj, ...
  std::int64_t modules_matched = 0;
  std::int64_t token_rows = 0;     // rows of the embedding (trainable_token_indices)
  bool tied_head = false;          // they are rows of the head too
  std::vector<std::string> whole;  // what is trained in full: "lm_head", "5 norms", "14 biases"
  bool adapts_embedding = false;   // a LoRA on it, which modules counts too
  bool unties_head = false;        // head or embedding are trained apart, and were tied
  bool full = false;               // full fine-tuning: `whole` says of what
};

// One example, decoded piece by piece, with which pieces are targets.
struct ColoredPiece {
  std::string text;
  bool supervised = false;
};

// SFT: its rows.
struct ExampleStartFacts {
  data::DataFacts data;
  std::int64_t packed_rows = 0;  // data.kept when nothing is packed
  std::string packing = "bfd";   // packing_strategy
};

// GRPO, RLOO and Online DPO: how they sample and score.
struct PolicyStartFacts {
  std::int64_t prompts = 0, longest_prompt = 0;  // rows; tokens of the longest
  std::int64_t num_generations = 0;              // completions a prompt
  std::int64_t generation_batch_size = 0;        // completions a generation batch
  std::int64_t steps_per_batch = 1;  // optimizer steps on one generation batch; 0: several batches a step
  std::vector<std::string> reward_names;  // with a weight where one is not 1: "0.5 x format_reward"
  // One line each, or empty: "temperature 1, top_p 0.95, at most 256 new tokens"; "dapo, beta 0, epsilon 0.2,
  // ..."
  std::string sampling, loss;
  std::string evaluation;  // "200 prompts x 1 completion"
};

// A method on pairs, or a reward model.
struct PreferenceStartFacts {
  data::PreferenceFacts data;
  std::int64_t eval_pairs = 0;
  std::string loss;       // "sigmoid, beta 0.1"
  std::string reference;  // "the base without its adapter"; "none"; empty: a reward model
  std::string head;       // of a reward model: where its score head comes from
  // What reduces the effect of length; empty: the loss has means over tokens, or it is a reward model.
  std::string length_advice;
};

// KTO.
struct UnpairedStartFacts {
  data::UnpairedFacts data;
  std::int64_t eval_rows = 0;
  std::string loss;       // "kto, beta 0.1"
  std::string reference;  // "the base without its adapter"
};

// Rows to evaluate, and those of them that are training rows too (eval_overlap.h).
struct EvalOverlap {
  std::int64_t rows = 0;  // 0: no evaluation
  std::int64_t trained = 0;
  std::string first = {};  // the first of these: "eval.jsonl:3"
};

// Says what the method trains on and how: the start page has lines for each kind.
using MethodStartFacts =
    std::variant<ExampleStartFacts, PreferenceStartFacts, UnpairedStartFacts, PolicyStartFacts>;

// How fast this machine multiplies for the run (product_facts.h).
struct ProductFacts {
  std::string kernels;           // "avx512", or "libtorch" where none are ours; empty: not measured
  std::string precision;         // of the run: "bf16", "float32"
  double gflops = 0, limit = 0;  // of all threads; limit: what these instructions can do here, 0: not known
  std::string other_precision;
  double other_gflops = 0;
  double seconds = 0;        // of measuring each
  std::string held_to = {};  // the level that `--instructions` names
};

// The device of a run that is not on the CPU.
struct DeviceFacts {
  std::string name;    // "cuda:0, NVIDIA H100 80GB HBM3, 85.0 GB"; empty: the CPU
  std::string driver;  // "driver 580.65.06 for CUDA 13.0, torch 2.11.0 for CUDA 13.0"
  std::string
      memory;  // how libtorch's allocator takes it, where that is not by pages (ops/machine/device_memory.h)
  std::vector<std::string>
      reference_forms;  // what has no faster form there: "attention in float32", one each
};

// Before step 1.
struct StartFacts {
  TrainedFacts trained;
  DeviceFacts device;
  ProductFacts products;
  MemoryPlan memory;  // no segments: nothing was planned
  MethodStartFacts method;
  std::int64_t train_rows = 0;  // after packing
  double mean_length = 0;       // tokens of a row, of both sides of a pair; 0: a method that samples
  bool conversational = false;  // the data are messages
  bool streamed = false;  // what is said of the rows is of the first: others are read as the run needs them
  EvalOverlap overlap;
  std::vector<ColoredPiece> example;  // no target in it: a prompt as the model reads it
  std::string samples,
      scored;  // one line each: what is sampled beside, what an evaluation scores; empty: nothing
  std::int64_t total_steps = 0, steps_per_epoch = 0, warmup_steps = 0;
  std::int64_t first_step = 0;  // > 0 when resumed
  bool evaluation_due = false;  // the run begins with the evaluation of first_step (RunState)
  std::string resumed_from;
  std::string output_dir;
  std::string optimizer;           // "rmsprop, 2.3 MB of state"; empty: AdamW, the default
  std::vector<std::string> notes;  // ignored options, one line each
};

// A named number of a step, under TRL's name where TRL has it.
using NamedValue = std::pair<std::string, double>;

// A call of a tool in a completion.
struct CallFacts {
  std::int64_t turn = 0;  // of the model's turns
  std::string name;
  std::string arguments;  // JSON
  bool failed = false;
  double seconds = 0;
  bool is_unread = false;  // the dialogue ended before the model could read the result
  std::string unread;      // that result
};

// One completion with its rewards: what completions/ and the terminal's table show.
struct CompletionFacts {
  std::string prompt;      // as the model reads it: a conversation as its template renders it
  std::string asked = {};  // the last turn of a conversation's user; empty: the prompt is plain text
  std::string completion;
  bool truncated = false;
  std::int64_t tokens = 0;          // of the completion, the stop token included
  std::string most_common_token;    // the token that it holds most often, as text
  double most_common_fraction = 0;  // of all its tokens
  std::vector<double> rewards;      // one a function, NaN for None
  double advantage = 0;
  std::vector<std::pair<std::string, base::Json>> extra;  // log_extra columns
  base::Json messages = {};           // of a dialogue with tools: the turns after the prompt; null: one turn
  std::vector<CallFacts> calls = {};  // of tools, in the order in which the model wrote them
  bool opens_call = false;  // what the model drew holds what begins a call in its template, called or not
  // Holds a dialogue, in order: [text, whether the model drew it], with control tokens.
  base::Json spans = {};
};

// Holds what a reward function printed during one call, and the samples of that call, 0-based in the
// generation batch.
struct PrintedFacts {
  std::string reward;
  std::int64_t first = 0, count = 0;
  std::string text;
};

// The KL to the reference by the place in a completion: of tokens in each eighth of it. Completions of fewer
// than eight drawn tokens are left out.
struct KlByDepth {
  static constexpr std::size_t kParts = 8;
  std::array<double, kParts> sums = {};  // nats
  std::int64_t tokens = 0;  // of all parts; 0: there is no reference, or its values are not known
};

// A generation batch, told once, when it has been scored.
struct RolloutFacts {
  std::int64_t step = 0;  // 1-based number of the optimizer step that first trains on it
  std::vector<std::string> reward_names;
  std::vector<CompletionFacts> completions;  // groups beside each other
  std::vector<std::string> warnings;         // samples that could not be scored, dead workers: one line each
  std::vector<PrintedFacts> printed = {};
  // For a run with tools these are seconds of sampling, and those of them in which every completion waited
  // for a tool.
  double sampling_seconds = 0, tool_wait_seconds = 0;
  KlByDepth kl = {};  // before the step trains on it
};

// Greedy completions of the run's fixed prompts (sample_prompts) by the weights after `step` steps.
struct SampleFacts {
  std::int64_t step = 0, total_steps = 0;
  std::vector<CompletionFacts> completions;  // one a prompt, in the order of the prompts
  std::vector<std::string> reward_names;  // of their rewards, where an evaluation has scored them; else empty
};

// After an optimizer step. Means are over the steps since the last log, as transformers logs them.
struct StepFacts {
  std::int64_t step = 0;  // 1-based, after the step
  double epoch = 0;
  double loss = 0, grad_norm = 0, learning_rate = 0;
  // This step's metrics by TRL's names: entropy and mean_token_accuracy of SFT; reward, reward_std, kl, ...
  // of GRPO, and of ours: dead_groups (share), skipped_rows, ratio_gap (largest |sampler - trainer|
  // log-probability).
  std::vector<NamedValue> metrics;
  // Seconds of the step's parts, in order: rollout, reward (what was waited for after the last token), train.
  // Empty for methods without parts.
  std::vector<NamedValue> timings;
  std::int64_t num_tokens = 0;  // since the start of the run
  std::int64_t tokens_this_step = 0;
  double seconds = 0;
};

// Named numbers to write down: a logging step ("loss", ...), an evaluation ("eval_loss", ...) or the end of
// training.
struct LogRecord {
  std::int64_t step = 0;
  double epoch = 0;
  std::vector<std::pair<std::string, double>> values;  // in TRL's order and names
  // What differs from run to run, of a logging step only: seconds of the steps since the last log, their tokens per
  // second, the peak of memory so far in bytes, seconds of the parts (rollout_seconds, ...). metrics.jsonl has it in
  // a block of its own, so that the rest of a line is the same bits in a repeated run.
  std::vector<NamedValue> performance = {};
};

// The memory plan compared with the measured peak: after the first step of a run, and at its end.
struct MemoryFacts {
  std::int64_t step = 0;
  std::int64_t peak = 0;  // bytes: VmHWM of the process, or ru_maxrss
  std::int64_t planned = 0;
  bool at_end = false;
};

// Listens to a run. Every call comes from the loop's own thread.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void on_start(const StartFacts&) {}
  // The doctor's: before step 1 in the order of the data, and whenever a fault is found.
  virtual void on_verdict(const base::Verdict&, std::int64_t /*step*/) {}
  virtual void on_rollout(const RolloutFacts&) {}
  virtual void on_samples(const SampleFacts&) {}
  virtual void on_step(const StepFacts&, std::int64_t /*total_steps*/) {}
  virtual void on_log(const LogRecord&) {}
  virtual void on_memory(const MemoryFacts&) {}
  virtual void on_save(const std::string& /*folder*/, std::int64_t /*step*/) {}
  virtual void on_finish(const std::string& /*folder*/, bool /*interrupted*/, std::int64_t /*step*/) {}
};

}  // namespace hone::train
