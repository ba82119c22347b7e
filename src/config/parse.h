// Command line and YAML -> Plan. Every error that can be found without reading a model is found here, before
// libtorch is loaded and before anything is written.
#pragma once

#include <string>
#include <vector>

#include "config/hub_names.h"
#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// `arguments` are those after the command: `--config run.yaml --lora_r 8`. The command line overrides the
// file. Throws UserError for everything that the user can fix: names, types, ranges, incompatible options,
// missing files, hub names; all of it at once (base::UserErrors).
// `ranks`: processes of the run (BatchPlan::ranks).
Plan parse_run(Method method, const std::vector<std::string>& arguments, std::int64_t ranks = 1);

// The same from YAML text only (a plan.yaml of an earlier run); `file_name` is for messages.
Plan parse_run_text(Method method, const std::string& yaml, const std::string& file_name);

// The same without throwing for the mistakes of single options: settings.mistakes(), in the order in which they were
// found. UserError only for a file that cannot be read. The plan is whole when there is no mistake.
struct ReadRun {
  Plan plan;
  Settings settings;
};
ReadRun read_run(Method method, const std::vector<std::string>& arguments, std::int64_t ranks = 1);

// Settings -> Plan without reading the disk; checks ranges, choices and combinations.
Plan make_plan(Method method, Settings settings);

// Checks that the files and folders in the plan exist; collects what is wrong. Resolves a dataset folder to its
// <split>.jsonl.
void collect_files(Plan& plan, Settings& settings);

// Shared by the commands: UserError unless `path` is a model's folder or a .gguf file.
void require_model_path(const std::string& path, const std::string& option, const std::string& where);
// The same for what may be a name of the hub: `path` becomes its folder in Hugging Face's cache; one that is not there is added to
// `downloads`, and stays as it is (commands/hub/hub_download.h brings it, then the arguments are parsed again).
void find_model(std::string& path, const std::string& revision, const std::string& option,
                const std::string& where, std::vector<HubRequest>& downloads);
// Of the rewards in `words`, models of the hub by their names: they become their folders in its cache, or
// downloads.
void find_reward_models(std::vector<std::string>& words, const std::string& option,
                        std::vector<HubRequest>& downloads);
void require_adapter_path(const std::string& path, const std::string& option, const std::string& where);
// Checks each folder of base_adapters, and that none occurs twice; `adapter` is the one above them, or empty.
void require_base_adapters(const Settings& settings, const std::string& adapter);
void require_file(const std::string& path, const std::string& option, const std::string& where);
// True for "path/to/file.py:function", whose file has to be there; UserError for a file without a function.
bool require_function(const std::string& word, const std::string& option, const std::string& where);

// The same for rows: config/datasets/dataset_files.h looks into what is there.
void require_rows_path(const std::string& path, const std::string& option, const std::string& where);

// dtype and bf16 -> Precision (docs/options.md, Precision).
Precision resolve_precision(const Settings& settings);
// load_in_4bit, load_in_8bit and bnb_4bit_quant_type. UserError when both are set.
QuantizedBase quantized_base(const Settings& settings);
// UserError for quantize_moe_experts without one of them.
void require_quantized_base(const Settings& settings);

}  // namespace hone::config
