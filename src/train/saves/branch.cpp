#include "train/saves/branch.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/files/file_errors.h"
#include "base/json.h"
#include "train/saves/run_folder.h"

namespace hone::train {

namespace fs = base::fs;
using base::Json;

namespace {

constexpr const char* kBranchFormat = "hone-branch-1";

void move_to(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) base::throw_system_error(from, "move", error.value());
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) base::throw_system_error(folder, "create", error.value());
}

// Every folder of a checkpoint's name, whole or not: a run would replace it when it gets there.
std::vector<std::int64_t> steps_after(const fs::path& output_dir, std::int64_t after) {
  std::vector<std::int64_t> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(output_dir, error)) {
    const auto step = checkpoint_step(entry.path());
    std::error_code gone;
    if (step && *step > after && entry.is_directory(gone)) out.push_back(*step);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string next_name(const fs::path& output_dir, std::int64_t after) {
  std::int64_t last = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(output_dir, error)) {
    if (const auto name = abandoned_name_of(entry.path())) last = std::max(last, name->number);
  }
  return abandoned_name({.number = last + 1, .after = after});
}

// Completions of steps in (after, until].
void move_completions(const fs::path& from, const fs::path& to, std::int64_t after, std::int64_t until) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(from / kCompletionsFolder, none)) {
    const auto step = completions_step(entry.path());
    if (step && *step > after && *step <= until) files.push_back(entry.path());
  }
  if (files.empty()) return;
  make_folder(to / kCompletionsFolder);
  for (const fs::path& file : files) move_to(file, to / kCompletionsFolder / file.filename());
}

// Metrics and samples: files of all steps.
void copy_logs(const fs::path& from, const fs::path& to) {
  for (const std::string_view name : {kSamplesFile, kMetricsFile}) {
    const fs::path file = from / name;
    if (fs::is_regular_file(file)) base::write_file_atomic(to / name, base::read_text(file));
  }
}

void move_aside(const fs::path& output_dir, const Branch& branch) {
  const fs::path to = output_dir / branch.to;
  make_folder(to);
  if (!fs::exists(to / kMetricsFile)) copy_logs(output_dir, to);
  move_completions(output_dir, to, branch.after, std::numeric_limits<std::int64_t>::max());
  for (const std::int64_t step : steps_after(output_dir, branch.after))
    move_to(checkpoint_path(output_dir, step), checkpoint_path(to, step));
  base::sync_path(to);
  base::sync_path(output_dir);
}

// Every part may have been done already.
void move_all(const fs::path& output_dir, const Branch& branch) {
  if (branch.back.empty()) {
    move_aside(output_dir, branch);
    return;
  }
  const fs::path back = output_dir / branch.back, from = back.parent_path();
  // Where it has come back nothing else is left to move aside, and it is itself newer than `after`.
  if (fs::exists(back)) {
    move_aside(output_dir, branch);
    move_to(back, output_dir / back.filename());
    base::sync_path(output_dir);
  }
  if (!fs::exists(from)) return;
  copy_logs(from, output_dir);
  move_completions(from, output_dir, branch.after, checkpoint_step(back).value_or(branch.after));
  base::sync_path(from);
  std::error_code not_empty;
  fs::remove(from, not_empty);
}

[[noreturn]] void refuse_record(const fs::path& path, const std::string& found) {
  throw base::UserError({.where = path.string(),
                         .expected = "the record of an interrupted move, in hone's format",
                         .found = found,
                         .cause = "the file was edited or damaged",
                         .fix = "move checkpoints that are newer than the one to resume from to another "
                                "folder, and delete this file"});
}

Branch read_branch(const fs::path& path) {
  const Json json = base::parse_json(base::read_text(path), path.string());
  const auto text = [&](const char* name) -> std::string {
    const auto found = json.is_object() ? json.find(name) : json.end();
    if (!json.is_object() || found == json.end() || !found->is_string())
      refuse_record(path, std::string("no text of the name ") + name);
    return found->get<std::string>();
  };
  if (text("format") != kBranchFormat) refuse_record(path, "format " + text("format"));
  Branch out{.to = text("to"), .back = text("back")};
  const auto name = abandoned_name_of(out.to);
  if (!name || fs::path(out.to).has_parent_path()) refuse_record(path, "\"to\": " + out.to);
  out.after = name->after;
  const fs::path back = out.back;
  const bool good = back.empty() || (checkpoint_step(back) && abandoned_name_of(back.parent_path()) &&
                                     !back.parent_path().has_parent_path());
  if (!good) refuse_record(path, "\"back\": " + out.back);
  return out;
}

}  // namespace

std::optional<Branch> plan_branch(const fs::path& output_dir, const fs::path& folder, std::int64_t step) {
  Branch out{.after = step};
  // Where it lies without links: a link to a checkpoint may stand anywhere.
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  const auto left = abandoned_name_of(real.parent_path());
  if (!error && left && checkpoint_step(real) &&
      fs::equivalent(real.parent_path().parent_path(), output_dir, error)) {
    out.after = left->after;
    out.back = (real.parent_path().filename() / real.filename()).string();
  }
  out.steps = steps_after(output_dir, out.after);
  if (out.steps.empty() && out.back.empty()) return std::nullopt;
  out.to = next_name(output_dir, out.after);
  return out;
}

std::string describe(const Branch& branch) {
  std::string out;
  for (const std::int64_t step : branch.steps)
    out += (out.empty() ? "" : ", ") + checkpoint_path({}, step).string();
  if (!out.empty()) {
    out = "this run leaves the earlier one at step " + std::to_string(branch.after) + ": " + out +
          (branch.steps.size() == 1 ? " goes to " : " go to ") + branch.to +
          ", where save_total_limit "
          "counts them";
  }
  if (!branch.back.empty()) out += (out.empty() ? "" : "; ") + branch.back + " comes back";
  return out;
}

void make_branch(const fs::path& output_dir, const Branch& branch) {
  const fs::path record = output_dir / kBranchFile;
  const Json json = {{"format", kBranchFormat}, {"to", branch.to}, {"back", branch.back}};
  base::write_file_atomic(record, base::dump_json(json) + "\n");
  finish_branch(output_dir);
}

void finish_branch(const fs::path& output_dir) {
  const fs::path record = output_dir / kBranchFile;
  if (!fs::exists(record)) return;
  move_all(output_dir, read_branch(record));
  std::error_code error;
  fs::remove(record, error);
  if (error) base::throw_system_error(record, "remove", error.value());
  base::sync_path(output_dir);
}

}  // namespace hone::train
