// Checkpoints: the full state, so that the rest of the run is bit-equal to an uninterrupted run.
//
// output_dir/checkpoint-N/ holds
//
//   - adapter_config.json, adapter_model.safetensors: PEFT's files; a checkpoint is a usable adapter
//   - or, with use_peft: false, config.json, generation_config.json, model.safetensors (or shards and their index) with
//     the fp32 masters: a checkpoint is a usable model
//   - optimizer.safetensors: the optimizer's name and state (learn/optimizer.h); AdamW's are exp_avg, exp_avg_sq,
//     [P] fp32 each, in the order of the adapter's tensors
//   - reference.safetensors, of a run with sync_ref_model: the reference's parameters, fp32, by the adapter's names
//   - trainer_state.json: transformers' format
//   - the tokenizer's files, plan.yaml
//   - hone_state.json: RunState, the resolved options, size and CRC-32C of each file, and its own CRC-32C
//
// The folder is staged, synced and renamed into place, so that it is complete or absent after any kill. The
// checks on reading and the choice of the checkpoint to resume from are in train/saves/checkpoint_check.h.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adapters/lora.h"
#include "config/plan.h"
#include "learn/optimizer.h"
#include "text/tokenizer.h"
#include "train/saves/run_state.h"

namespace hone::train {

class Shards;  // train/loop/shards.h

// The contents of a checkpoint; references are only read.
struct CheckpointParts {
  const adapters::Adapter& adapter;
  const learn::Optimizer& optimizer;
  const RunState& state;
  const TrainerStateFacts& facts;
  const config::Plan& plan;
  const text::Tokenizer& tokenizer;
  // The method's files (TrainingMethod::state_files()): name and text. Only in checkpoints, not at the top of
  // output_dir.
  std::vector<std::pair<std::string, std::string>> method_files = {};
  // publish_final: the checkpoint whose adapter is the result (load_best_model_at_end); empty: `adapter`.
  base::fs::path best = {};
  at::Tensor reference = {};  // [P] fp32, of a reference that moves; undefined: it stays
  Shards* shards = nullptr;   // where other ranks keep parts of it: within Shards::reading()
};

// Writes output_dir/checkpoint-<step>. UserError on a full disk; no partial folder is left.
void save_checkpoint(const base::fs::path& output_dir, const CheckpointParts& parts);

struct LoadedCheckpoint {
  base::fs::path folder;
  RunState state;
  std::map<std::string, std::string> method_files;  // CheckpointParts::method_files
  std::vector<std::string> changed_options;         // "learning_rate: 0.001 -> 0.0001", shown to the user
};

// Reads the state, and that of `optimizer` into it, checking every file's size and CRC-32C; the parameters are
// the adapter in the same folder (Adapter::load). UserError when a file is damaged, has another shape, or is of
// another optimizer.
LoadedCheckpoint load_checkpoint(const base::fs::path& folder, learn::Optimizer& optimizer,
                                 const config::Plan& plan);

// The finished adapter, tokenizer and trainer state at the top of output_dir; each file is written
// atomically.
void publish_final(const base::fs::path& output_dir, const CheckpointParts& parts);

}  // namespace hone::train
