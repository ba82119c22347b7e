#include "train/saves/run_folder.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/files/file_errors.h"
#include "base/files/staging.h"
#include "train/saves/branch.h"
#include "train/saves/own_files.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

constexpr std::string_view kLoggerPrefix =
    "hone-logger-";  // what loggers were sent (report/python/logger.py)

constexpr std::string_view kCheckpointPrefix = "checkpoint-";
constexpr std::string_view kAfter = "-after-";

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code gone;
    if (entry.is_directory(gone)) out.push_back(entry.path());
  }
  return out;
}

bool is_hones(const fs::path& checkpoint) {
  std::error_code error;
  return fs::is_regular_file(checkpoint / kHoneStateFile, error);
}

// What StagedFolder and remove_whole_folder left in `folder`; those of earlier versions of hone too.
void recover_checkpoints(const fs::path& folder) {
  for (const fs::path& path : folders_in(folder)) {
    const auto whole = base::final_of_staging(path);
    if (whole && checkpoint_step(*whole)) base::StagedFolder::recover(*whole);
    const std::string extension = path.extension().string();
    const bool former = extension == ".partial" || extension == ".hone-old";
    const fs::path named = folder / path.stem();  // "checkpoint-5" of "checkpoint-5.partial"
    if (former && checkpoint_step(named)) base::recover_former_staging(named);
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& output_dir, std::int64_t step) {
  return output_dir / (std::string(kCheckpointPrefix) + std::to_string(step));
}

std::optional<std::int64_t> checkpoint_step(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  const auto step = number_of_digits(std::string_view(name).substr(kCheckpointPrefix.size()));
  // "checkpoint-05" would not be found again under its number.
  return step && checkpoint_path({}, *step) == name ? step : std::nullopt;
}

bool has_model_weights(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kModelWeightsFile, none) || fs::exists(folder / kModelIndexFile, none);
}

std::vector<std::int64_t> checkpoint_steps(const fs::path& output_dir) {
  std::vector<std::int64_t> steps;
  for (const fs::path& folder : folders_in(output_dir)) {
    const auto step = checkpoint_step(folder);
    if (step && is_hones(folder)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string abandoned_name(const AbandonedName& name) {
  return std::string(kAbandonedPrefix) + std::to_string(name.number) + std::string(kAfter) +
         std::to_string(name.after);
}

std::optional<AbandonedName> abandoned_name_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::size_t middle = name.find(kAfter);
  if (!name.starts_with(kAbandonedPrefix) || middle == std::string::npos) return std::nullopt;
  const std::string_view text = name;
  const auto number =
      number_of_digits(text.substr(kAbandonedPrefix.size(), middle - kAbandonedPrefix.size()));
  const auto after = number_of_digits(text.substr(middle + kAfter.size()));
  if (!number || !after) return std::nullopt;
  const AbandonedName out{.number = *number, .after = *after};
  return abandoned_name(out) == name ? std::optional(out) : std::nullopt;
}

std::string next_abandoned_name(const fs::path& output_dir, std::int64_t after) {
  std::int64_t last = 0;
  for (const fs::path& folder : folders_in(output_dir)) {
    if (const auto name = abandoned_name_of(folder)) last = std::max(last, name->number);
  }
  return abandoned_name({.number = last + 1, .after = after});
}

std::vector<AbandonedCheckpoint> abandoned_checkpoints(const fs::path& output_dir) {
  std::vector<AbandonedCheckpoint> out;
  for (const fs::path& folder : folders_in(output_dir)) {
    const auto name = abandoned_name_of(folder);
    if (!name) continue;
    for (const std::int64_t step : checkpoint_steps(folder))
      out.push_back({.folder = checkpoint_path(folder, step), .name = *name, .step = step});
  }
  std::sort(out.begin(), out.end(), [](const AbandonedCheckpoint& a, const AbandonedCheckpoint& b) {
    return std::tie(a.name.number, a.step) < std::tie(b.name.number, b.step);
  });
  return out;
}

void recover_run_folder(const fs::path& output_dir) {
  recover_checkpoints(output_dir);
  for (const fs::path& folder : folders_in(output_dir)) {
    if (abandoned_name_of(folder)) recover_checkpoints(folder);
  }
  finish_branch(output_dir);
}

void rotate_checkpoints(const fs::path& output_dir, const Rotation& rotation) {
  if (rotation.keep <= 0) return;
  std::vector<fs::path> removable;
  for (const AbandonedCheckpoint& one : abandoned_checkpoints(output_dir)) {
    if (foreign_in_checkpoint(one.folder).empty()) removable.push_back(one.folder);
  }
  std::int64_t count = static_cast<std::int64_t>(removable.size());
  for (const std::int64_t step : checkpoint_steps(output_dir)) {
    const fs::path folder = checkpoint_path(output_dir, step);
    if (step == rotation.pinned || !foreign_in_checkpoint(folder).empty()) continue;
    count += 1;
    if (step != rotation.written && step != rotation.best) removable.push_back(folder);
  }
  for (const fs::path& folder : removable) {
    if (count <= rotation.keep) return;
    base::remove_whole_folder(folder);
    count -= 1;
    std::error_code not_empty;
    if (abandoned_name_of(folder.parent_path())) fs::remove(folder.parent_path(), not_empty);
  }
}

namespace {

// A finished run's, never another model that lies there.
bool is_finished_model(const fs::path& output_dir) {
  std::error_code none;
  return has_model_weights(output_dir) && fs::exists(output_dir / kTrainerStateFile, none);
}

}  // namespace

namespace {

// Relative to `output_dir`. What of a user's lies in completions is no record.
std::vector<fs::path> records_in(const fs::path& output_dir) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const std::string_view name : {kMetricsFile, kSamplesFile, kRolloutsFile, kRewardLogFile, kFaultFile,
                                      kPageFile, kPageFactsFile, kCompletionsFolder}) {
    const fs::path path = output_dir / name;
    const bool folder = name == kCompletionsFolder && fs::is_directory(path, error);
    if (!folder && fs::exists(fs::symlink_status(path, error))) out.emplace_back(name);
  }
  for (const auto& entry : fs::directory_iterator(output_dir / kCompletionsFolder, error)) {
    if (completions_step(entry.path())) out.push_back(fs::path(kCompletionsFolder) / entry.path().filename());
  }
  for (const auto& entry : fs::directory_iterator(output_dir, error)) {
    const fs::path name = entry.path().filename();
    if (name.string().starts_with(kLoggerPrefix)) out.push_back(name);
  }
  return out;
}

}  // namespace

void set_records_aside(const fs::path& output_dir, const std::string& branch) {
  const std::vector<fs::path> records = records_in(output_dir);
  if (records.empty()) return;
  const fs::path to = output_dir / (branch.empty() ? next_abandoned_name(output_dir, /*after=*/0) : branch);
  base::create_folders(to);
  for (const fs::path& record : records) {
    if (record.has_parent_path()) base::create_folders(to / record.parent_path());
    std::error_code error;
    // make_branch has left a copy of this very file there, at most.
    fs::rename(output_dir / record, to / record, error);
    if (error) base::throw_system_error(output_dir / record, "move", error.value());
  }
  // The earlier result, to which it belongs, stays until the new one is there.
  if (const fs::path state = output_dir / kTrainerStateFile; fs::is_regular_file(state))
    base::write_file_atomic(to / kTrainerStateFile, base::read_text(state));
  base::sync_path(to);
  base::sync_path(output_dir);
}

void require_folder(const fs::path& output_dir) {
  if (fs::exists(output_dir) && !fs::is_directory(output_dir)) {
    throw base::UserError({.where = "output_dir " + output_dir.string(),
                           .expected = "a folder, or nothing yet",
                           .found = "a file of that name",
                           .cause = {},
                           .fix = "choose another --output_dir, or move the file away"});
  }
}

void require_fresh(const fs::path& output_dir) {
  require_folder(output_dir);
  const auto refuse = [&](const std::string& found, const std::string& go_on) {
    throw base::UserError({.where = "output_dir " + output_dir.string(),
                           .expected = "an empty folder, or a run to resume",
                           .found = found,
                           .cause = "an earlier run wrote here; a new run would overwrite it",
                           .fix = go_on + "choose another --output_dir, or delete the folder"});
  };
  const std::string resume = "continue with --resume_from_checkpoint ";
  const auto steps = checkpoint_steps(output_dir);
  if (!steps.empty()) refuse("a checkpoint of step " + std::to_string(steps.back()), resume + "true, ");
  if (fs::exists(output_dir / kAdapterWeightsFile)) refuse("a finished adapter", resume + "true, ");
  if (is_finished_model(output_dir)) refuse("a finished model", resume + "true, ");
  const auto abandoned = abandoned_checkpoints(output_dir);
  if (!abandoned.empty()) {
    const std::string newest = abandoned.back().folder.string();
    refuse("checkpoints that a resumed run moved to another folder, the newest " + newest,
           resume + newest + ", ");
  }
  // A run would replace them by its own.
  for (const fs::path& folder : folders_in(output_dir)) {
    std::error_code error;
    if (checkpoint_step(folder) && !fs::is_empty(folder, error))
      refuse(folder.filename().string() + " without " + std::string(kHoneStateFile), "");
  }
}

}  // namespace hone::train
