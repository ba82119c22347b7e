#include "train/saves/checkpoint_check.h"

#include <charconv>
#include <optional>
#include <ranges>

#include "base/files/crc32c.h"
#include "base/files/mapped_crc.h"
#include "base/files/safetensors.h"
#include "base/strings/suggest.h"
#include "train/saves/run_folder.h"
#include "train/saves/run_state.h"

namespace hone::train {

namespace fs = base::fs;
using base::Json;
using base::UserError;

namespace {

// 2: hone_state.json without a checksum of its own. Counts up when an older hone would misread it.
constexpr int kStateFormat = 3, kUnsealed = 2;
constexpr std::string_view kSealBegin = ",\n \"crc32c\": ", kSealEnd = "\n}\n";
constexpr const char* kSealKey = "crc32c";
// Of a million logged records it has some 300 MB; more is no state of a run.
constexpr std::uintmax_t kMaxStateBytes = std::uintmax_t{1} << 30U;
constexpr const char* kOther = "resume from another checkpoint-N folder";

[[noreturn]] void damaged(const fs::path& file, const std::string& expected, const std::string& found,
                          const std::string& cause = "the file was changed or damaged after it was saved") {
  throw CheckpointDamage({.where = file.string(),
                          .expected = expected + " (CKPT-05)",
                          .found = found,
                          .cause = cause,
                          .fix = kOther});
}

// "/x/checkpoint-4" of "checkpoint-4/" in /x.
fs::path plain(const fs::path& folder) {
  const fs::path out = fs::absolute(folder).lexically_normal();
  return out.has_filename() ? out : out.parent_path();
}

// Opening a pipe would wait for its writer.
void require_file(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (fs::is_regular_file(status)) return;
  damaged(path, "every file that the checkpoint was saved with",
          fs::exists(status) ? "something that is not a file" : "no such file",
          "it was removed or not copied; without it the run would be a different one");
}

// The checksum at the end of `text`, and where it begins; empty: there is none.
struct Seal {
  std::size_t begin = 0;
  std::uint32_t crc32c = 0;
};
std::optional<Seal> seal_of(std::string_view text) {
  const std::size_t begin = text.rfind(kSealBegin);
  if (begin == std::string_view::npos || !text.ends_with(kSealEnd)) return std::nullopt;
  const std::size_t first = begin + kSealBegin.size();
  if (first + kSealEnd.size() > text.size()) return std::nullopt;
  const std::string_view digits = text.substr(first, text.size() - kSealEnd.size() - first);
  Seal out{.begin = begin};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.crc32c);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return out;
}

Json parse_state(const std::string& text, const fs::path& path) {
  try {
    Json json = base::parse_json(text, path.string());
    if (json.is_object()) return json;
  } catch (const UserError& error) {
    damaged(path, "the state of a run, in JSON", error.text().found);
  }
  damaged(path, "the state of a run, a JSON object", "another value");
}

// The state, and whether a checksum says that it is what was saved.
CheckedCheckpoint read_state(const fs::path& path) {
  require_file(path);
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (!error && bytes > kMaxStateBytes)
    damaged(path, "at most " + base::human_bytes(kMaxStateBytes), base::human_bytes(bytes));
  const std::string text = base::read_text(path);
  const auto seal = seal_of(text);
  if (seal && base::crc32c(std::string_view(text).substr(0, seal->begin)) != seal->crc32c)
    damaged(path, std::to_string(text.size()) + " bytes as they were saved", "another checksum");
  CheckedCheckpoint out{.state = parse_state(text, path), .sealed = seal.has_value()};
  const Json format = out.state.value("format", Json());
  if (format == kStateFormat && seal) return out;
  const bool unsealed = format == kUnsealed && !out.state.contains(kSealKey);
  if (unsealed) return out;
  if (format == kStateFormat || format == kUnsealed || !format.is_number_integer())
    damaged(path, "a checksum at its end", "none, or one that hone did not write");
  throw UserError({.where = path.string(),
                   .expected = "format " + std::to_string(kStateFormat),
                   .found = "format " + base::dump_json(format),
                   .cause = "a checkpoint from another version of hone",
                   .fix = "resume with that version, or continue its adapter with adapter_name_or_path"});
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && fs::path(name).filename() == name;
}

void check_files(const fs::path& folder, const Json& state) {
  const fs::path record = folder / kHoneStateFile;
  const Json table = state.value("files", Json());
  if (!table.is_object()) damaged(record, "the checkpoint's files, each with its checksum", "no such table");
  for (const auto& [name, facts] : table.items()) {
    if (!is_plain_name(name)) damaged(record, "names of files in the folder", name);
    const auto expected_bytes = whole_number(facts, "bytes", record.string());
    const auto expected_crc = whole_number(facts, "crc32c", record.string());
    require_file(folder / name);
    const auto file = base::MappedFile::open(folder / name);
    const auto bytes = static_cast<std::int64_t>(file.bytes().size());
    if (bytes == expected_bytes && base::mapped_crc32c(file.bytes()) == expected_crc) continue;
    damaged(folder / name, std::to_string(expected_bytes) + " bytes as they were saved",
            std::to_string(bytes) + (bytes == expected_bytes ? " bytes with another checksum" : " bytes"));
  }
  const bool full = table.contains(std::string(kModelConfigFile));
  std::vector<std::string_view> all = {kOptimizerFile, kTrainerStateFile};
  if (!full) all.insert(all.end(), {kAdapterConfigFile, kAdapterWeightsFile});
  if (full) all.push_back(table.contains(std::string(kModelIndexFile)) ? kModelIndexFile : kModelWeightsFile);
  for (const auto needed : all) {
    if (!table.contains(std::string(needed)))
      damaged(record, "the file " + std::string(needed), "not among the saved files");
  }
  const Json methods = state.value("method_files", Json());
  bool known = methods.is_array();
  for (const Json& name : methods)
    known = known && name.is_string() && table.contains(name.get<std::string>());
  if (!known)
    damaged(record, "method_files among the checkpoint's files", base::dump_json(methods).substr(0, 200));
}

void check_step(const fs::path& file, const std::string& found, std::int64_t step) {
  if (found != std::to_string(step))
    damaged(file, "step " + std::to_string(step) + ", as in " + std::string(kHoneStateFile), "step " + found);
}

void check_steps(const fs::path& folder, std::int64_t step) {
  if (const auto named = checkpoint_step(plain(folder)); named && *named != step) {
    damaged(folder / kHoneStateFile, "step " + std::to_string(*named) + ", as the folder's name says",
            "step " + std::to_string(step), "the folder was renamed, or the file was changed");
  }
  const auto moments = base::SafetensorsFile::open(folder / kOptimizerFile);
  const auto saved = moments.metadata().find("step");
  check_step(moments.path(), saved == moments.metadata().end() ? "not said" : saved->second, step);
  const fs::path trainer = folder / kTrainerStateFile;
  const Json state = parse_state(base::read_text(trainer), trainer);
  check_step(trainer, base::dump_json(state.value("global_step", Json())).substr(0, 40), step);
}

// In output_dir, then among those that were moved aside.
std::optional<fs::path> newest_whole(const fs::path& output_dir) {
  std::vector<fs::path> folders;
  for (const auto& one : abandoned_checkpoints(output_dir)) folders.push_back(one.folder);
  for (const std::int64_t step : checkpoint_steps(output_dir))
    folders.push_back(checkpoint_path(output_dir, step));
  while (!folders.empty()) {
    try {
      check_checkpoint(folders.back());
      return folders.back();
    } catch (const UserError&) {
      folders.pop_back();
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_damaged(base::ErrorText text, const fs::path& output_dir) {
  const auto whole = newest_whole(output_dir);
  text.fix = whole ? "resume from " + whole->string() + ", the newest complete one"
                   : "no checkpoint in " + output_dir.string() +
                         " is complete: resume from another checkpoint-N folder, or start again in another "
                         "--output_dir";
  throw UserError(std::move(text));
}

std::vector<std::string> unsealed_note(const fs::path& folder, const CheckedCheckpoint& found) {
  if (found.sealed) return {};
  return {folder.string() + " is from an older hone, whose " + std::string(kHoneStateFile) +
          " has no checksum; its other files and its step were checked"};
}

FoundCheckpoint find_newest(const fs::path& output_dir) {
  FoundCheckpoint out;
  std::optional<base::ErrorText> first;
  const auto steps = checkpoint_steps(output_dir);
  for (const std::int64_t step : steps | std::views::reverse) {
    out.folder = checkpoint_path(output_dir, step);
    try {
      const CheckedCheckpoint found = check_checkpoint(out.folder);
      out.step = found.step;
      for (auto& note : unsealed_note(out.folder, found)) out.notes.push_back(std::move(note));
      return out;
    } catch (const CheckpointDamage& damage) {
      if (!first) first = damage.text();
      out.notes.push_back(out.folder.string() + " is damaged and was skipped: " + damage.text().where +
                          " has " + damage.text().found + ", expected " + damage.text().expected);
    }
  }
  if (first) refuse_damaged(*first, output_dir);
  const auto aside = newest_whole(output_dir);
  throw UserError(
      {.where = "resume_from_checkpoint true",
       .expected = "a checkpoint-N folder in " + output_dir.string(),
       .found = aside ? "only checkpoints that were moved to another folder" : "none",
       .cause = "the run was stopped before its first save_steps, or output_dir is another folder",
       .fix = aside ? "name the one to resume from: " + aside->string()
                    : "leave out resume_from_checkpoint to start from step 1"});
}

// Near names of checkpoints beside the one that is not there.
std::string near_names(const fs::path& asked) {
  std::vector<std::string> names;
  for (const std::int64_t step : checkpoint_steps(asked.parent_path()))
    names.push_back(checkpoint_path({}, step).string());
  return base::did_you_mean(asked.filename().string(), names);
}

// Where a checkpoint of that name lies now, when it was moved.
std::string moved_to(const fs::path& output_dir, const fs::path& asked) {
  const auto step = checkpoint_step(asked);
  if (!step) return "";
  const auto all = abandoned_checkpoints(output_dir);
  for (const auto& one : all | std::views::reverse) {
    if (one.step == *step) return one.folder.string();
  }
  const fs::path live = checkpoint_path(output_dir, *step);
  return fs::is_regular_file(live / kHoneStateFile) ? live.string() : "";
}

}  // namespace

std::string sealed_state(const Json& state) {
  Json out = {{"format", kStateFormat}};
  out.update(state);
  std::string text = base::dump_json(out, 1);
  text.erase(text.size() - 2);  // the last line, "}"
  const std::uint32_t crc = base::crc32c(text);
  return text + std::string(kSealBegin) + std::to_string(crc) + std::string(kSealEnd);
}

CheckedCheckpoint check_checkpoint(const fs::path& folder) {
  const fs::path path = folder / kHoneStateFile;
  CheckedCheckpoint out = read_state(path);
  try {
    check_files(folder, out.state);
    out.step = RunState::from_json(out.state.value("run", Json()), path.string()).step;
    check_steps(folder, out.step);
  } catch (const BadState& error) {  // of a file without a checksum, or made by somebody
    throw CheckpointDamage(error.text());
  }
  return out;
}

FoundCheckpoint find_checkpoint(const fs::path& output_dir, const std::string& resume_from_checkpoint) {
  if (resume_from_checkpoint == "true") return find_newest(output_dir);
  const fs::path folder = resume_from_checkpoint;
  std::error_code error;
  if (!fs::is_regular_file(folder / kHoneStateFile, error)) {
    const std::string now = moved_to(output_dir, plain(folder));
    throw UserError(
        {.where = "resume_from_checkpoint " + folder.string(),
         .expected = "a checkpoint that hone wrote (with " + std::string(kHoneStateFile) + ")",
         .found = fs::is_directory(folder, error) ? std::string("a folder without that file")
                                                  : "no such folder." + near_names(plain(folder)),
         .cause = now.empty() ? "a path that is not a checkpoint, or a checkpoint from another program"
                              : "it was moved when a run was resumed from another checkpoint",
         .fix = now.empty() ? "name a checkpoint-N folder, or continue an adapter with adapter_name_or_path"
                            : "name " + now});
  }
  try {
    const CheckedCheckpoint found = check_checkpoint(folder);
    return {.folder = folder, .step = found.step, .notes = unsealed_note(folder, found)};
  } catch (const CheckpointDamage& damage) {
    const fs::path beside = plain(folder).parent_path();
    refuse_damaged(damage.text(), checkpoint_steps(output_dir).empty() ? beside : output_dir);
  }
}

}  // namespace hone::train
