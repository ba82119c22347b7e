// The one home of every name inside a run's folder (the design's "A run's folder").
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hone::train {

constexpr std::string_view kPlanFile = "plan.yaml";
constexpr std::string_view kMetricsFile = "metrics.jsonl";
constexpr std::string_view kCompletionsFolder = "completions";  // report/completions_file.h
constexpr std::string_view kRolloutsFile = "rollouts.jsonl";    // dump_rollouts (train/rollout_batch.h)
// The doctor's, beside the run's: there while a run goes on (doctor/running_file.h), and when it found a
// fault or died.
constexpr std::string_view kRunningFile = "hone-running.json";
constexpr std::string_view kFaultFile = "hone-fault.json";
constexpr std::string_view kCrashPrefix = "hone-crash-";  // and the process's number, and .json
constexpr std::string_view kTrainerStateFile = "trainer_state.json";
constexpr std::string_view kHoneStateFile = "hone_state.json";  // a checkpoint's position and checksums
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kAdapterConfigFile = "adapter_config.json";
constexpr std::string_view kAdapterWeightsFile = "adapter_model.safetensors";

base::fs::path checkpoint_path(const base::fs::path& output_dir,
                               std::int64_t step);  // output_dir/checkpoint-N

// Steps of the whole checkpoints in `output_dir`, ascending. A folder counts only when its hone_state.json is
// there: checkpoints are renamed into place after every file is on disk, so half-written ones never match.
std::vector<std::int64_t> checkpoint_steps(const base::fs::path& output_dir);

// Removes what a killed run left half written or half deleted in `output_dir`, and gives back a checkpoint
// that was being replaced (StagedFolder::recover). For the only process that writes there.
void recover_run_folder(const base::fs::path& output_dir);

// Deletes the oldest checkpoints until at most `keep` are left (0: keep all), as save_total_limit asks; that
// of step `pinned`
// (-1: none) stays besides.
void rotate_checkpoints(const base::fs::path& output_dir, std::int64_t keep, std::int64_t pinned = -1);

// UserError when `output_dir` already holds a run that a fresh start would overwrite.
void require_fresh(const base::fs::path& output_dir);

}  // namespace hone::train
