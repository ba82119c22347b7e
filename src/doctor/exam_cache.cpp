#include "doctor/exam_cache.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/process/instruction_level.h"
#include "config/named_word.h"
#include "tools/tool_spec.h"
#include "train/facts/machine.h"

namespace hone::doctor {

using base::Json;

namespace {

namespace fs = base::fs;

constexpr const char* kCacheFormat = "hone-examination-1";
constexpr std::size_t kMostKept = 32;

// Options that no rehearsed step depends on.
constexpr std::array<std::string_view, 22> kNotRehearsed = {"output_dir",
                                                            "overwrite_output_dir",
                                                            "resume_from_checkpoint",
                                                            "save_steps",
                                                            "save_strategy",
                                                            "save_total_limit",
                                                            "logging_steps",
                                                            "logging_strategy",
                                                            "logging_first_step",
                                                            "eval_steps",
                                                            "eval_strategy",
                                                            "eval_on_start",
                                                            "eval_dataset",
                                                            "report_to",
                                                            "disable_tqdm",
                                                            "run_name",
                                                            "memory_limit",
                                                            "on_fault",
                                                            "push_to_hub",
                                                            "load_best_model_at_end",
                                                            "log_completions",
                                                            "skip_doctor"};

Json identity_of(const fs::path& file) {
  std::error_code none;
  const auto size = fs::file_size(file, none);
  if (none) return nullptr;
  return {file.filename().string(), size, fs::last_write_time(file, none).time_since_epoch().count()};
}

// The text of a file of tools or environments, and what lies beside it, which it may import.
Json python_of(const fs::path& file) {
  Json out = {base::hash64(base::read_text(file))};
  std::set<fs::path> beside;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(file.parent_path(), none)) {
    if (entry.path().extension() == ".py" && entry.path() != file) beside.insert(entry.path());
  }
  for (const fs::path& one : beside) out.push_back(identity_of(one));
  return out;
}

// Of the functions that the model may call; nullopt: what they are cannot be seen from here, in a package or in the program that called
// hone. Those of hone are part of the program.
std::optional<Json> tools_of(const config::Plan& plan) {
  std::vector<std::pair<std::string, std::string>> words;
  for (const std::string& word : plan.acting.tools) words.emplace_back("tools", word);
  for (const std::string& entry : plan.acting.environment) {
    words.emplace_back("environment", config::split_named(entry).second);
  }
  Json out = Json::array();
  for (const auto& [option, word] : words) {
    const tools::ToolFile parsed = tools::parse_tool_word(word, option);
    if (parsed.is_file) {
      out.push_back(python_of(parsed.file_or_module));
    } else if (parsed.file_or_module != "hone.tools") {
      return std::nullopt;
    }
  }
  return out;
}

// Sizes and times beside the checksums of samples: a value that changes in place changes these.
Json files_of(const fs::path& model) {
  Json out = Json::array();
  std::error_code none;
  if (!fs::is_directory(model, none)) return {identity_of(model)};
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(model, none)) files.insert(entry.path());
  for (const fs::path& file : files) out.push_back(identity_of(file));
  return out;
}

std::string key_of(const fs::path& program, const train::RunView& run, const Json& tools) {
  Json out = {{"inputs", run.resume_state->state.inputs},
              {"model", files_of(run.plan.model_name_or_path)},
              {"rows", run.resume_state->state.data_rows},
              {"crc32c", run.resume_state->state.data_crc32c},
              {"threads", train::threads_or_default(run.plan.threads)},
              {"instructions", base::name_of(base::instruction_level())},
              {"form", {run.start.memory.fused_layer, train::recompute_name(run.start.memory.recompute)}},
              {"tools", tools},
              {"program", {identity_of(program), identity_of(program.parent_path() / "libhone_core.so")}}};
  if (!run.plan.ref_model.empty()) out["reference"] = files_of(run.plan.ref_model);
  for (const auto& [name, value] : run.plan.resolved) {
    if (std::find(kNotRehearsed.begin(), kNotRehearsed.end(), name) == kNotRehearsed.end())
      out["options"][name] = value;
  }
  return base::dump_json(out);
}

Json verdict_json(const base::Verdict& one) {
  return {{"code", one.code},         {"level", static_cast<int>(one.level)},
          {"part", one.part},         {"what", one.what},
          {"evidence", one.evidence}, {"cause", one.cause},
          {"not_this", one.not_this}, {"fix", one.fix},
          {"cost", one.cost}};
}

std::string word_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

base::Verdict verdict_from(const Json& json) {
  const auto level = json.find("level");
  const bool warns = level != json.end() && level->is_number_integer() && level->get<int>() >= 0 &&
                     level->get<int>() < static_cast<int>(base::Level::kFail);
  return {.code = word_of(json, "code"),
          .level = warns ? static_cast<base::Level>(level->get<int>()) : base::Level::kOk,
          .part = word_of(json, "part"),
          .what = word_of(json, "what"),
          .evidence = word_of(json, "evidence"),
          .cause = word_of(json, "cause"),
          .not_this = word_of(json, "not_this"),
          .fix = word_of(json, "fix"),
          .cost = word_of(json, "cost")};
}

bool failed(const ExamPart& part) {
  return std::any_of(part.verdicts.begin(), part.verdicts.end(),
                     [](const base::Verdict& one) { return one.level == base::Level::kFail; });
}

void drop_oldest(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().filename().string().starts_with("examination-"))
      files.emplace_back(fs::last_write_time(entry.path(), none), entry.path());
  }
  if (files.size() <= kMostKept) return;
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + kMostKept < files.size(); ++i) fs::remove(files[i].second, none);
}

}  // namespace

ExamCache::ExamCache(const fs::path& folder, const fs::path& program, const train::RunView& run) {
  const bool new_adapter =
      !run.directory.resuming() && run.plan.adapter_name_or_path.empty() && run.plan.base_adapters.empty();
  if (folder.empty() || program.empty() || !new_adapter) return;
  const std::optional<Json> tools = tools_of(run.plan);
  if (!tools) return;
  path_ = folder / ("examination-" + std::to_string(base::hash64(key_of(program, run, *tools))) + ".json");
  std::error_code none;
  if (!fs::exists(path_, none)) return;
  try {
    const Json json = Json::parse(base::read_text(path_), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || word_of(json, "format") != kCacheFormat || !json.contains("parts")) return;
    for (const auto& [name, verdicts] : json["parts"].items()) {
      ExamPart part{.name = name};
      for (const Json& one : verdicts) part.verdicts.push_back(verdict_from(one));
      known_.push_back(std::move(part));
    }
  } catch (const base::Error&) {
    known_.clear();
  }
}

std::optional<ExamPart> ExamCache::find(const std::string& name) const {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const ExamPart& part) { return part.name == name; });
  return found == known_.end() ? std::nullopt : std::optional(*found);
}

void ExamCache::add(const ExamPart& part) {
  if (!path_.empty() && !failed(part)) added_.push_back(part);
}

void ExamCache::write() const {
  if (path_.empty() || added_.empty()) return;
  Json parts = Json::object();
  for (const auto* list : {&known_, &added_}) {
    for (const ExamPart& part : *list) {
      Json verdicts = Json::array();
      for (const base::Verdict& one : part.verdicts) verdicts.push_back(verdict_json(one));
      parts[part.name] = verdicts;
    }
  }
  std::error_code none;
  fs::create_directories(path_.parent_path(), none);
  try {
    base::write_file_atomic(path_, base::dump_json({{"format", kCacheFormat}, {"parts", parts}}, 1));
  } catch (const base::Error&) {  // a full disk: it is examined again next time
    return;
  }
  drop_oldest(path_.parent_path());
}

}  // namespace hone::doctor
