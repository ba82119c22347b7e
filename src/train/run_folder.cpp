#include "train/run_folder.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/error.h"

namespace hone::train {

namespace {

constexpr std::string_view kCheckpointPrefix = "checkpoint-";

// The N of "checkpoint-N", or nothing.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* first = name.data() + kCheckpointPrefix.size();
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(first, last, step);
  if (error != std::errc() || end != last || step < 0) return std::nullopt;
  return step;
}

}  // namespace

base::fs::path checkpoint_path(const base::fs::path& output_dir, std::int64_t step) {
  return output_dir / (std::string(kCheckpointPrefix) + std::to_string(step));
}

std::vector<std::int64_t> checkpoint_steps(const base::fs::path& output_dir) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : base::fs::directory_iterator(output_dir, error)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && base::fs::is_regular_file(entry.path() / kHoneStateFile)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void recover_run_folder(const base::fs::path& output_dir) {
  std::vector<base::fs::path> unfinished;
  std::error_code error;
  for (const auto& entry : base::fs::directory_iterator(output_dir, error)) {
    const base::fs::path whole =
        output_dir / entry.path().stem();  // "checkpoint-5" of "checkpoint-5.partial"
    const std::string extension = entry.path().extension().string();
    if (extension != ".partial" && extension != ".hone-old") continue;
    if (entry.is_directory() && step_of(whole.filename().string())) unfinished.push_back(whole);
  }
  for (const auto& whole : unfinished) base::StagedFolder::recover(whole);
}

void rotate_checkpoints(const base::fs::path& output_dir, std::int64_t keep, std::int64_t pinned) {
  if (keep <= 0) return;
  std::vector<std::int64_t> steps = checkpoint_steps(output_dir);
  std::erase(steps, pinned);
  const auto count = static_cast<std::int64_t>(steps.size());
  for (std::int64_t i = 0; i < count - keep; ++i) {
    const auto folder = checkpoint_path(output_dir, steps[static_cast<std::size_t>(i)]);
    // The new name comes first: from that moment it is no checkpoint, and what a kill leaves of it goes with
    // the half-written ones (recover_run_folder).
    base::fs::path leaving = folder;
    leaving += ".partial";
    base::fs::remove_all(leaving);
    base::fs::rename(folder, leaving);
    base::fs::remove_all(leaving);
  }
}

void require_fresh(const base::fs::path& output_dir) {
  if (base::fs::exists(output_dir) && !base::fs::is_directory(output_dir)) {
    throw base::UserError({.where = "output_dir " + output_dir.string(),
                           .expected = "a folder, or nothing yet",
                           .found = "a file of that name",
                           .cause = {},
                           .fix = "choose another --output_dir, or move the file away"});
  }
  const auto steps = checkpoint_steps(output_dir);
  const bool has_adapter = base::fs::exists(output_dir / kAdapterWeightsFile);
  if (steps.empty() && !has_adapter) return;
  throw base::UserError(
      {.where = "output_dir " + output_dir.string(),
       .expected = "an empty folder, or a run to resume",
       .found = steps.empty() ? "a finished adapter" : "a checkpoint of step " + std::to_string(steps.back()),
       .cause = "an earlier run wrote here; starting again would overwrite it",
       .fix = "go on with --resume_from_checkpoint true, choose another --output_dir, or delete the folder"});
}

}  // namespace hone::train
