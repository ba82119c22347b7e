#include "train/saves/own_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/json_tools.h"
#include "text/tokenizer_files.h"
#include "train/opening/input_files.h"
#include "train/saves/run_folder.h"

namespace hone::train {

namespace fs = base::fs;
using base::Json;

namespace {

constexpr const char* kOwnFormat = "hone-files-1";
constexpr std::string_view kPlanHead = "# hone ";  // of plan.yaml (config/write_plan.cpp)
constexpr std::size_t kNamesShown = 4;

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

template <std::size_t N>
bool begins_as(const std::array<std::string_view, N>& beginnings, std::string_view name) {
  return std::ranges::any_of(beginnings, [&](std::string_view one) { return name.starts_with(one); });
}

// Records of a run that goes on, and what hone keeps beside them.
bool is_record(std::string_view name) {
  constexpr std::array kNames = {kPlanFile,          kMetricsFile,  kRewardLogFile, kSamplesFile,
                                 kCompletionsFolder, kRolloutsFile, kPageFile,      kPageFactsFile,
                                 kOwnFile,           kBranchFile,   kRunningFile,   kFaultFile,
                                 kTrainerStateFile};
  constexpr std::array kBeginnings = {kCrashPrefix, std::string_view("hone-logger-"),
                                      std::string_view(".hone-")};
  return is_one_of(kNames, name) || begins_as(kBeginnings, name);
}

// Files of the finished result (publish.h): an adapter's, or a whole model's.
bool is_result(std::string_view name, bool adapter) {
  constexpr std::array<std::string_view, 3> kAdapter = {kAdapterConfigFile, kAdapterWeightsFile,
                                                        "base_adapters.json"};
  constexpr std::array<std::string_view, 7> kModel = {
      kModelConfigFile,           kModelIndexFile,         "generation_config.json",        kReferenceFile,
      "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"};
  if (name == kInputsFile || text::is_tokenizer_file(name)) return true;
  if (adapter) return is_one_of(kAdapter, name);
  return is_one_of(kModel, name) || (name.starts_with("model") && name.ends_with(".safetensors"));
}

bool is_finished_result(std::string_view name) {
  return is_result(name, true) || is_result(name, false);
}

// Whether a marker that only hone writes ("hone-running.json") says by its content that hone wrote it. A
// process that dies may leave it cut off, or empty: then there is nothing in it to lose.
bool proves_itself(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with("hone-") || !name.ends_with(".json") || !base::is_file(file)) return false;
  const Json format = base::read_object(file).value("format", Json());
  if (format.is_string()) return format.get<std::string>().starts_with("hone-");
  const std::string text = base::read_text(file);
  return text.empty() || text.starts_with(R"({"format": "hone-)");
}

// Of a folder whose plan.yaml is hone's, without hone_files.json. An older hone put an adapter into the
// folder of its base too: where both are, the model is not taken for hone's.
Json result_of_older(const fs::path& folder) {
  Json out = Json::object();
  if (!base::is_file(folder / kTrainerStateFile)) return out;
  const bool adapter = base::is_file(folder / kAdapterConfigFile);
  const Json all = prints_of_files(folder);
  for (const auto& [name, print] : all.items()) {
    if (is_result(name, adapter)) out[name] = print;
  }
  return out;
}

bool same_print(const fs::path& file, const Json& print) {
  return base::is_file(file) && file_print(file) == print;
}

// Whether `files` names something in the folder `name`.
bool has_below(const Json& files, const std::string& name) {
  for (const auto& [file, print] : files.items()) {
    if (file.starts_with(name + "/")) return true;
  }
  return false;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    out.push_back(at->path());
  std::ranges::sort(out);
  return out;
}

}  // namespace

bool is_written(const std::string& name, const config::Plan& plan) {
  if (checkpoint_step(name) || abandoned_name_of(name)) return true;
  if (name == kRolloutsFile) return plan.policy.dump_rollouts || plan.overwrite_output_dir;
  return is_record(name) || is_result(name, plan.use_peft);
}

Json prints_of_files(const fs::path& folder) {
  Json out = Json::object();
  for (const fs::path& path : entries_of(folder)) {
    if (base::is_file(path)) out[path.filename().string()] = file_print(path);
  }
  return out;
}

std::string own_files_text(const Json& result) {
  return base::dump_json(Json{{"format", kOwnFormat}, {"result", result}}, 2) + "\n";
}

OwnFiles own_files(const fs::path& output_dir) {
  const Json json = base::read_object(output_dir / kOwnFile);
  if (json.value("format", Json()) == Json(kOwnFormat)) {
    const Json result = json.value("result", Json());
    return {.known = true, .result = result.is_object() ? result : Json::object()};
  }
  const fs::path plan = output_dir / kPlanFile;
  if (base::is_file(plan) && base::read_text(plan).starts_with(kPlanHead))
    return {.known = true, .result = result_of_older(output_dir)};
  // These two are written in the folder of a run that has begun; a crash may be told in any folder.
  return {.known = proves_itself(output_dir / kRunningFile) || proves_itself(output_dir / kFaultFile)};
}

std::vector<std::string> foreign_in_checkpoint(const fs::path& checkpoint) {
  std::vector<std::string> out;
  const Json files = base::read_object(checkpoint / kHoneStateFile).value("files", Json());
  for (const fs::path& path : entries_of(checkpoint)) {
    const std::string name = path.filename().string();
    const bool listed = files.is_object() && (files.contains(name) || has_below(files, name));
    if (name != kHoneStateFile && !listed) out.push_back(name);
  }
  return out;
}

std::vector<std::string> foreign_files(const fs::path& output_dir, const config::Plan& plan, bool resuming) {
  const OwnFiles own = own_files(output_dir);
  std::vector<std::string> out;
  // A checkpoint's own folder, even of hone's, is no place for another run.
  if (base::is_file(output_dir / kHoneStateFile)) out.emplace_back(kHoneStateFile);
  for (const fs::path& path : entries_of(output_dir)) {
    const std::string name = path.filename().string();
    if (!is_written(name, plan)) continue;
    if (checkpoint_step(name)) {
      if (resuming) continue;
      for (const std::string& inside : foreign_in_checkpoint(path)) out.push_back(name + "/" + inside);
      continue;
    }
    const bool result = is_finished_result(name);
    const bool ours =
        proves_itself(path) ||
        (own.known && (!result || (own.result.contains(name) && same_print(path, own.result[name]))));
    // What hone keeps under a hidden name has its own marks (base/files/staging.h).
    if (!ours && !name.starts_with(".hone-") && !abandoned_name_of(name)) out.push_back(name);
  }
  return out;
}

void require_own_files(const fs::path& output_dir, const config::Plan& plan, bool resuming) {
  const std::vector<std::string> foreign = foreign_files(output_dir, plan, resuming);
  if (foreign.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(foreign.size(), kNamesShown); ++i)
    names += (i == 0 ? "" : ", ") + foreign[i];
  if (foreign.size() > kNamesShown) names += " and " + std::to_string(foreign.size() - kNamesShown) + " more";
  throw base::UserError(
      {.where = "output_dir " + output_dir.string(),
       .expected =
           "a folder in which the run overwrites nothing: a new one, or that of an earlier run of hone",
       .found = names + ", which no run of hone wrote here, or which was changed since",
       .cause = "the folder is a model's, another program's, or your own; files of the run have these names",
       .fix = "choose another --output_dir, or move these files away"});
}

void remove_replaced(const fs::path& output_dir, const Json& before, const Json& now) {
  for (const auto& [name, print] : before.items()) {
    if (now.contains(name) || !same_print(output_dir / name, print)) continue;
    std::error_code none;
    fs::remove(output_dir / name, none);
  }
}

}  // namespace hone::train
