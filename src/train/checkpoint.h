// Checkpoints: everything that makes the rest of the run bit-equal to one that was never interrupted.
//
// output_dir/checkpoint-N/ holds
//
//   - adapter_config.json, adapter_model.safetensors: PEFT's own files; a checkpoint is a usable adapter
//   - optimizer.safetensors: exp_avg, exp_avg_sq, [P] fp32 each, in the order of the adapter's tensors
//   - trainer_state.json: transformers' form
//   - the tokenizer's files, plan.yaml
//   - hone_state.json: RunState, the resolved options, size and CRC-32C of each file, and its own CRC-32C
//
// The folder is staged, synced and renamed into place: whole or absent, whatever kills the process. What is
// checked before it is read again, and which one a run is resumed from: train/checkpoint_check.h.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adapters/lora.h"
#include "config/plan.h"
#include "learn/adamw.h"
#include "text/tokenizer.h"
#include "train/run_state.h"

namespace hone::train {

// What a checkpoint is made of; references are only read.
struct CheckpointParts {
  const adapters::Adapter& adapter;
  const learn::AdamWState& optimizer;
  const RunState& state;
  const TrainerStateFacts& facts;
  const config::Plan& plan;
  const text::Tokenizer& tokenizer;
  // The method's own (TrainingMethod::state_files()): name and text. Only in checkpoints, not at the top.
  std::vector<std::pair<std::string, std::string>> method_files = {};
};

// Writes output_dir/checkpoint-<step>. UserError on a full disk, with no trace left.
void save_checkpoint(const base::fs::path& output_dir, const CheckpointParts& parts);

struct LoadedCheckpoint {
  base::fs::path folder;
  RunState state;
  learn::AdamWState optimizer;
  std::map<std::string, std::string> method_files;  // CheckpointParts::method_files
  std::vector<std::string> changed_options;         // "learning_rate: 0.001 -> 0.0001", for the user to see
};

// Reads state and moments, checking every file's size and CRC-32C; the parameters are the adapter in the same
// folder (Adapter::load). `parameters` is the flat buffer's length. UserError when a file is damaged or of
// another shape.
LoadedCheckpoint load_checkpoint(const base::fs::path& folder, std::int64_t parameters,
                                 const config::Plan& plan);

// The finished adapter, tokenizer and trainer state at the top of output_dir; each file appears whole.
void publish_final(const base::fs::path& output_dir, const CheckpointParts& parts);

}  // namespace hone::train
