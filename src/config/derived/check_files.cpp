// The paths of a plan, looked at before anything is loaded or written.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/files/staging.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/datasets/dataset_files.h"
#include "config/datasets/named_templates.h"
#include "config/datasets/row_options.h"
#include "config/derived/finish_samples.h"
#include "config/hub_names.h"
#include "config/method_traits.h"
#include "config/methods/policy_plan.h"
#include "config/named_word.h"
#include "config/option_secrets.h"
#include "config/parse.h"

namespace hone::config {
namespace {

namespace fs = std::filesystem;
using base::exists;
using base::is_folder;
using base::UserError;

std::string neighbors(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  return base::did_you_mean(path.filename().string(), names);
}

// Where a path was looked for; "a/b" could be a name of the hub too.
std::string where_looked(const std::string& path) {
  if (!fs::path(path).is_relative()) return "";
  std::string here = "the path is relative to the folder in which you run hone";
  if (!looks_like_hub_name(path)) return here;
  if (is_hub_name(path)) return here + "; this option takes no names of the hub";
  return fmt::format(
      "{}; as a name of the hub it is not in {}, and is not downloaded, since a folder '{}' is here", here,
      hub_cache_folder().string(), path.substr(0, path.find('/')));
}

[[noreturn]] void missing(const std::string& what, const std::string& path, const std::string& where) {
  const bool hub = looks_like_hub_name(path);
  throw UserError({.where = where,
                   .expected = what,
                   .found = fmt::format("'{}' does not exist.{}", base::cut_text(path, 300), neighbors(path)),
                   .cause = where_looked(path),
                   .fix = hub ? "correct the path, or fetch the name with `hf download` and name its folder"
                              : "correct the path"});
}

}  // namespace

void require_rows_path(const std::string& path, const std::string& option, const std::string& where) {
  if (!exists(path)) missing(fmt::format("a file or folder of rows as {}", option), path, where);
}

void require_model_path(const std::string& path, const std::string& option, const std::string& where) {
  if (is_hub_name(path)) {
    throw UserError({.where = where,
                     .expected = fmt::format("a local folder or .gguf file as {}", option),
                     .found = fmt::format("'{}', which looks like a hub name", path),
                     .cause = "this option takes paths only; model_name_or_path takes names of the hub too",
                     .fix = fmt::format("download it with `hf download {} --local-dir DIR` and set {} to DIR",
                                        path, option)});
  }
  if (is_folder(path)) base::finish_publishing_before_reading(path, "config.json");
  if (!exists(path)) missing(fmt::format("a model folder or .gguf file as {}", option), path, where);
  if (is_folder(path)) {
    if (exists((fs::path(path) / "config.json").string())) return;
    const bool adapter = exists((fs::path(path) / "adapter_config.json").string());
    throw UserError(
        {.where = where,
         .expected = fmt::format("config.json in the model folder {}", path),
         .found = adapter ? "adapter_config.json: this is an adapter, not a model" : "a folder without it",
         .fix = adapter ? fmt::format("set adapter_name_or_path: {}, and {} to its base model", path, option)
                        : "name the folder that holds config.json and the .safetensors files"});
  }
  if (!path.ends_with(".gguf")) {
    throw UserError({.where = where,
                     .expected = fmt::format("a model folder or .gguf file as {}", option),
                     .found = path,
                     .fix = "name the folder that holds config.json and the .safetensors files"});
  }
}

void find_model(std::string& path, const std::string& revision, const std::string& option,
                const std::string& where, std::vector<HubRequest>& downloads) {
  if (const auto snapshot = exists(path) ? std::nullopt : hub_snapshot(HubKind::kModel, path, revision)) {
    path = snapshot->string();
  } else if (!is_hub_name(path)) {
    require_model_path(path, option, where);
  } else {
    downloads.push_back({HubKind::kModel, path, revision, option});
  }
}

void find_reward_models(std::vector<std::string>& words, const std::string& option,
                        std::vector<HubRequest>& downloads) {
  for (std::string& word : words) {
    if (exists(word) || !looks_like_hub_name(word)) continue;
    if (const auto snapshot = hub_snapshot(HubKind::kModel, word, "")) {
      word = snapshot->string();
    } else if (is_hub_name(word)) {
      downloads.push_back({HubKind::kModel, word, "", option});
    }
  }
}

void require_adapter_path(const std::string& path, const std::string& option, const std::string& where) {
  if (!path.empty()) base::finish_publishing_before_reading(path, "adapter_config.json");
  if (!is_folder(path)) missing("a folder with adapter_config.json as " + option, path, where);
  if (exists((fs::path(path) / "adapter_config.json").string())) return;
  throw UserError({.where = where,
                   .expected = fmt::format("adapter_config.json in the folder {}", path),
                   .found = "a folder without it",
                   .fix = "name the folder of an adapter as PEFT or hone writes it"});
}

void require_base_adapters(const Settings& settings, const std::string& adapter) {
  const std::string where = settings.where("base_adapters");
  std::vector<std::string> seen;
  if (!adapter.empty()) seen.push_back(adapter);
  for (const std::string& folder : settings.list("base_adapters")) {
    require_adapter_path(folder, "base_adapters", where);
    std::error_code ignored;
    for (const std::string& other : seen) {
      if (!fs::equivalent(folder, other, ignored)) continue;
      throw UserError({.where = where,
                       .expected = "each adapter once",
                       .found = fmt::format("'{}', which is there already", folder),
                       .cause = "its effect would be applied twice",
                       .fix = "remove one of them"});
    }
    seen.push_back(folder);
  }
}

void require_file(const std::string& path, const std::string& option, const std::string& where) {
  if (!exists(path)) missing(fmt::format("a file as {}", option), path, where);
}

namespace {

// text/clone_template.h reads the folder.
void require_template(const std::string& path, const std::string& where) {
  require_file(path, "chat_template_path", where);
  if (!is_folder(path) || exists((fs::path(path) / "tokenizer.json").string())) return;
  throw UserError({.where = where,
                   .expected = "a .jinja file, or a folder with tokenizer.json, as chat_template_path",
                   .found = fmt::format("the folder {} without it", path),
                   .fix = "name a template, or the folder of a tokenizer as transformers saves it"});
}

void require_tokenizer(const Plan& plan, const Settings& settings) {
  const std::string& folder = plan.tokenizer_name_or_path;
  if (folder.empty() || exists((fs::path(folder) / "tokenizer.json").string())) return;
  const std::string where = settings.where("tokenizer_name_or_path");
  if (!exists(folder)) missing("a folder with tokenizer.json as tokenizer_name_or_path", folder, where);
  throw UserError({.where = where,
                   .expected = "tokenizer.json in the folder of tokenizer_name_or_path",
                   .found = fmt::format("'{}' without it", base::cut_text(folder, 300)),
                   .fix = "name the folder of a tokenizer as transformers saves it, or remove the option"});
}

// A model's folder, or the folder of a reward model's adapter, which names its base.
void require_reward_model(const std::string& path, const std::string& option, const std::string& where) {
  // find_reward_models finds those
  if (!exists(path) && (is_hub_name(path) || hub_snapshot(HubKind::kModel, path, ""))) return;
  base::finish_publishing_before_reading(path, "adapter_config.json");
  if (!exists((fs::path(path) / "adapter_config.json").string())) require_model_path(path, option, where);
}

}  // namespace

bool require_function(const std::string& word, const std::string& option, const std::string& where) {
  const std::size_t colon = word.rfind(".py:");
  if (colon != std::string::npos && colon + 4 < word.size()) {
    const std::string file = word.substr(0, colon + 3);
    if (!exists(file)) missing("a Python file before the colon in " + option, file, where);
    return true;
  }
  if (word.ends_with(".py") || word.ends_with(".py:")) {
    throw UserError({.where = where,
                     .expected = "path/to/file.py:function in " + option,
                     .found = fmt::format("'{}'", word),
                     .cause = "the function is missing",
                     .fix = fmt::format("write {}{}my_function", word, word.ends_with(':') ? "" : ":")});
  }
  return false;
}

namespace {

// A word with a parenthesis is a built-in reward with parameters.
void check_reward_spec(const std::string& word, const std::string& where,
                       const char* option = "reward_funcs") {
  const bool plain = word.find('(') == std::string::npos;
  require_unredacted_url(word, where);
  if (word.starts_with("http://") || word.starts_with("https://") || !plain) return;
  if (require_function(word, option, where)) return;
  if (word.find('/') != std::string::npos) require_reward_model(word, option, where);
}

}  // namespace

void check_sample_files(const Plan& plan, const Settings& settings) {
  if (!plan.sample_file.empty())
    require_file(plan.sample_file, "sample_prompts", settings.where("sample_prompts"));
  for (const std::string& word : plan.eval_reward_funcs)
    check_reward_spec(word, settings.where("eval_reward_funcs"), "eval_reward_funcs");
}

void check_reward_files(const Settings& settings) {
  const char* const option = reward_model_option(settings);
  const std::string model = settings.text(option);
  if (!model.empty()) require_reward_model(model, option, settings.where(option));
  for (const std::string& word : settings.list("reward_funcs")) {
    check_reward_spec(word, settings.where("reward_funcs"));
  }
  for (const char* name : {"tools", "environment", "rollout"}) {
    if (settings.schema().find(name) == nullptr) continue;
    for (const std::string& word : settings.list(name)) {
      require_function(split_named(word).second, name, settings.where(name));
    }
  }
  if (settings.schema().find("judge") != nullptr) {
    require_unredacted_url(settings.text("judge"), settings.where("judge"));
    require_function(settings.text("judge"), "judge", settings.where("judge"));
  }
  const std::string python = settings.text("python");
  if (python.find('/') != std::string::npos) require_file(python, "python", settings.where("python"));
}

namespace {

void check_resume(const Plan& plan, const Settings& settings) {
  const std::string& resume = plan.resume_from_checkpoint;
  // train/saves/checkpoint_check.h knows where a checkpoint of the run may have gone.
  const base::fs::path asked = resume;
  const bool of_a_run =
      asked.filename().string().starts_with("checkpoint-") && is_folder(asked.parent_path().string());
  if (!resume.empty() && resume != "true" && !is_folder(resume) && !of_a_run) {
    missing("a checkpoint folder, or true, as resume_from_checkpoint", resume,
            settings.where("resume_from_checkpoint"));
  }
}

}  // namespace

namespace {

void map_rows(Plan& plan, const Settings& settings) {
  const base::RowMapping mapping = row_mapping(settings);
  const std::string python = settings.text("python");
  if (!mapping.function.word.empty() && python.find('/') != std::string::npos)
    require_file(python, "python", settings.where("python"));
  plan.train_rows.mapping = plan.eval_rows.mapping = mapping;
  for (EvalSet& set : plan.eval_sets) set.rows.mapping = mapping;
  for (std::string& line : describe_mapping(mapping)) plan.notes.push_back(std::move(line));
}

}  // namespace

void collect_files(Plan& plan, Settings& settings) {
  const auto set = [&](const char* name) { return !settings.text(name).empty(); };
  if (set("model_name_or_path")) {
    settings.collect([&] {
      find_model(plan.model_name_or_path, plan.model_revision, "model_name_or_path",
                 settings.where("model_name_or_path"), plan.downloads);
    });
  }
  if (!plan.ref_model.empty()) {
    settings.collect([&] {
      const std::string option(method_traits(plan.method).reference_option);
      const bool revised = settings.schema().find("teacher_model_revision") != nullptr;
      find_model(plan.ref_model, revised ? settings.text("teacher_model_revision") : "", option.c_str(),
                 settings.where(option), plan.downloads);
    });
  }
  settings.collect([&] {
    if (plan.adapter_name_or_path.empty()) return;
    require_adapter_path(plan.adapter_name_or_path, "adapter_name_or_path",
                         settings.where("adapter_name_or_path"));
  });
  settings.collect([&] { require_base_adapters(settings, plan.adapter_name_or_path); });
  settings.collect([&] {
    if (!plan.chat_template_path.empty())
      require_template(plan.chat_template_path, settings.is_set("chat_template")
                                                    ? settings.where("chat_template")
                                                    : settings.where("chat_template_path"));
  });
  settings.collect([&] { require_tokenizer(plan, settings); });
  settings.collect([&] {
    if (plan.downloads.empty()) find_named_template(plan, settings);
  });
  settings.collect([&] { find_train_rows(plan, settings); });
  settings.collect([&] { find_test_rows(plan, settings); });
  name_rows(plan);
  settings.collect([&] { map_rows(plan, settings); });
  settings.collect([&] {
    if (!samples(plan.method)) return;
    if (method_traits(plan.method).rewarded) check_reward_files(settings);
    find_reward_models(plan.policy.reward_funcs, "reward_funcs", plan.downloads);
    if (!plan.policy.replay.empty()) require_file(plan.policy.replay, "replay", settings.where("replay"));
  });
  settings.collect([&] { check_sample_files(plan, settings); });
  find_reward_models(plan.eval_reward_funcs, "eval_reward_funcs", plan.downloads);
  settings.collect([&] { check_resume(plan, settings); });
}

}  // namespace hone::config
