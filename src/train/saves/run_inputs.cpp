#include "train/saves/run_inputs.h"

#include "base/files/path_kind.h"
#include "base/json_tools.h"
#include "train/saves/own_files.h"
#include "train/saves/run_folder.h"

namespace hone::train {

namespace fs = base::fs;
using base::ReadPlace;

namespace {

// "path/to/file.py:function" is a file; what is no path here is a built-in one, a package's, or an address.
fs::path file_of_word(const std::string& word) {
  const std::size_t colon = word.rfind(".py:");
  return colon == std::string::npos ? fs::path(word) : fs::path(word.substr(0, colon + 3));
}

// The bases of adapters are read with them.
void add_bases(std::vector<ReadPlace>& out) {
  const std::vector<ReadPlace> named = out;
  for (const ReadPlace& one : named) {
    const base::Json config = base::read_object(one.path / kAdapterConfigFile);
    const base::Json below = config.value("base_model_name_or_path", base::Json());
    if (below.is_string()) out.push_back({.option = one.option, .path = below.get<std::string>()});
  }
}

}  // namespace

std::vector<ReadPlace> run_inputs(const config::Plan& plan) {
  std::vector<ReadPlace> out;
  const auto add = [&out](const char* option, const fs::path& path) {
    if (!path.empty() && base::exists(path)) out.push_back({.option = option, .path = path});
  };
  const auto add_words = [&](const char* option, const std::vector<std::string>& words) {
    for (const std::string& word : words) add(option, file_of_word(word));
  };
  add("model_name_or_path", plan.model_name_or_path);
  add("ref_model", plan.ref_model);
  add("tokenizer_name_or_path", plan.tokenizer_name_or_path);
  add("adapter_name_or_path", plan.adapter_name_or_path);
  add_words("base_adapters", plan.base_adapters);
  add("chat_template_path", plan.chat_template_path);
  for (const base::RowSet& set : plan.train_rows.sets) add("dataset_name", set.name);
  for (const fs::path& file : plan.train_rows.files()) add("dataset_name", file);
  for (const fs::path& file : plan.eval_rows.files()) add("eval_dataset", file);
  add("row_function", file_of_word(plan.train_rows.mapping.function.word));
  add_words("reward_funcs", plan.policy.reward_funcs);
  add_words("eval_reward_funcs", plan.eval_reward_funcs);
  add("judge", file_of_word(plan.online.judge));
  add("replay", plan.policy.replay);
  add("sample_prompts", plan.sample_file);
  add_bases(out);
  return out;
}

void require_apart_from_inputs(const config::Plan& plan) {
  base::require_apart({{.option = "output_dir",
                        .path = plan.output_dir,
                        .touches = [&plan](const std::string& name) { return is_written(name, plan); }}},
                      run_inputs(plan));
}

}  // namespace hone::train
