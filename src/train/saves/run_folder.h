// The one home of every name inside a run's folder (the design's "A run's folder").
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"

namespace hone::train {

constexpr std::string_view kPlanFile = "plan.yaml";
constexpr std::string_view kMetricsFile = "metrics.jsonl";
constexpr std::string_view kRewardLogFile =
    "rewards.log";  // what reward functions print (report/reward_output.h)
constexpr std::string_view kSamplesFile = "samples.jsonl";      // of sample_prompts (report/samples_file.h)
constexpr std::string_view kCompletionsFolder = "completions";  // report/completions_file.h
// abandoned-1-after-10/checkpoint-20: of a run that was left at step 10 by the first resume that did so
// (train/saves/branch.h), with its metrics and completions.
constexpr std::string_view kAbandonedPrefix = "abandoned-";
constexpr std::string_view kBranchFile = "hone-branch.json";  // exists while checkpoints are moved
constexpr std::string_view kRolloutsFile = "rollouts.jsonl";  // dump_rollouts (train/batches/rollout_batch.h)
// The doctor's, beside the run's: there while a run goes on (doctor/running_file.h), and when it found a
// fault or died.
constexpr std::string_view kRunningFile = "hone-running.json";
constexpr std::string_view kFaultFile = "hone-fault.json";
constexpr std::string_view kCrashPrefix = "hone-crash-";  // and the process's number, and .json
// The run's page, and what it tells that no other file has (report/page/page_facts.h).
constexpr std::string_view kPageFile = "report.html";
constexpr std::string_view kPageFactsFile = "hone-page.json";
constexpr std::string_view kTrainerStateFile = "trainer_state.json";
constexpr std::string_view kHoneStateFile = "hone_state.json";  // a checkpoint's position and checksums
// Beside a finished adapter: what its run read (train/opening/input_files.h). A checkpoint has this in hone_state.json.
constexpr std::string_view kInputsFile = "hone_inputs.json";
constexpr std::string_view kOwnFile =
    "hone_files.json";  // what of the folder is hone's (train/saves/own_files.h)
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kReferenceFile = "reference.safetensors";  // of a reference that moves
constexpr std::string_view kAdapterConfigFile = "adapter_config.json";
constexpr std::string_view kAdapterWeightsFile = "adapter_model.safetensors";
// Full fine-tuning writes a model's folder, with its weights in one file or in shards with an index.
constexpr std::string_view kModelConfigFile = "config.json";
constexpr std::string_view kModelWeightsFile = "model.safetensors";
constexpr std::string_view kModelIndexFile = "model.safetensors.index.json";
// Returns whether `folder` has a model's weights.
bool has_model_weights(const base::fs::path& folder);

base::fs::path checkpoint_path(const base::fs::path& output_dir,
                               std::int64_t step);                          // output_dir/checkpoint-N
std::optional<std::int64_t> checkpoint_step(const base::fs::path& folder);  // the N of its name

// completions/completions_00012.jsonl, and the 12 of such a name. Inline, for report/, which links no train/.
constexpr std::string_view kCompletionsPrefix = "completions_", kCompletionsEnd = ".jsonl";

inline std::string completions_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return std::string(kCompletionsPrefix) + digits + std::string(kCompletionsEnd);
}

// Reads digits only, without a sign.
inline std::optional<std::int64_t> number_of_digits(std::string_view digits) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && digits.front() != '-';
  return whole ? std::optional(out) : std::nullopt;
}

inline std::optional<std::int64_t> completions_step(const base::fs::path& file) {
  const std::string name = file.filename().string();
  constexpr std::size_t kAround = kCompletionsPrefix.size() + kCompletionsEnd.size();
  if (!name.starts_with(kCompletionsPrefix) || !name.ends_with(kCompletionsEnd) || name.size() <= kAround) {
    return std::nullopt;
  }
  return number_of_digits(std::string_view(name).substr(kCompletionsPrefix.size(), name.size() - kAround));
}

// Steps of the checkpoints in `output_dir`, ascending. A folder counts only when its hone_state.json is
// there: checkpoints are renamed into place after every file is on disk, so half-written ones never match.
std::vector<std::int64_t> checkpoint_steps(const base::fs::path& output_dir);

// abandoned-<number>-after-<after>
struct AbandonedName {
  std::int64_t number = 0;  // counts up: which was moved aside first
  std::int64_t after = 0;   // the step at which the run was left
};
std::string abandoned_name(const AbandonedName& name);
// The name that the next folder of this kind in `output_dir` has.
std::string next_abandoned_name(const base::fs::path& output_dir, std::int64_t after);
std::optional<AbandonedName> abandoned_name_of(const base::fs::path& folder);

// Abandoned checkpoints, those of the oldest move first.
struct AbandonedCheckpoint {
  base::fs::path folder;
  AbandonedName name;
  std::int64_t step = 0;
};
std::vector<AbandonedCheckpoint> abandoned_checkpoints(const base::fs::path& output_dir);

// Removes files that a killed run left incomplete in `output_dir`, restores a checkpoint that was being
// replaced (StagedFolder::recover), and completes an interrupted move (train/saves/branch.h). Only for the process
// that writes there.
void recover_run_folder(const base::fs::path& output_dir);

// As save_total_limit asks: deletes until at most `keep` checkpoints are left (0: keep all), abandoned ones
// first, then the oldest. One with a file that hone did not write is kept, and not counted.
struct Rotation {
  std::int64_t keep = 0;
  std::int64_t written = -1;  // the step just saved: kept, and counted
  std::int64_t pinned = -1;   // another step to keep, which is not counted; -1: none
  std::int64_t best = -1;     // another step to keep, which is counted; -1: none
};
void rotate_checkpoints(const base::fs::path& output_dir, const Rotation& rotation);

// Moves the records of an earlier run from the top of `output_dir` to the folder `branch` in it, for a run
// that begins again there: metrics, samples, completions, rollouts, reports, what loggers were sent.
// `branch`: the one that make_branch has just filled; empty: a new one, abandoned-N-after-0. Their names
// prove little (the user may have made one of them), so none is deleted. Checkpoints, the finished result and
// everything else stay. UserError when one cannot be moved.
void set_records_aside(const base::fs::path& output_dir, const std::string& branch);

// UserError when `output_dir` is a file.
void require_folder(const base::fs::path& output_dir);

// UserError when `output_dir` already holds a run that a fresh start would overwrite, or folders of
// checkpoints' names that are not hone's.
void require_fresh(const base::fs::path& output_dir);

}  // namespace hone::train
