// Command line and YAML -> Plan. Everything that can be wrong without reading a model is found here, before
// libtorch is loaded and before anything is written.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// `arguments` are the words after the command: `--config run.yaml --lora_r 8`. The command line wins over the
// file. Throws UserError for whatever the user can mend: names, types, ranges, options that do not go
// together, files that are not there, names of the hub.
Plan parse_run(Method method, const std::vector<std::string>& arguments);

// The same from YAML text alone (a plan.yaml of an earlier run); `file_name` is for messages.
Plan parse_run_text(Method method, const std::string& yaml, const std::string& file_name);

// Settings -> Plan without looking at the disk; checks ranges, choices and combinations.
Plan make_plan(Method method, Settings settings);

// The files and folders that the plan names exist. Resolves a dataset folder to its <split>.jsonl.
void check_files(Plan& plan, const Settings& settings);

// Shared by the commands: UserError unless `path` exists; says how to fetch a name of the hub.
void require_model_path(const std::string& path, const std::string& option, const std::string& where);
void require_adapter_path(const std::string& path, const std::string& option, const std::string& where);
// Each of the option base_adapters, and none of them twice; `adapter` is the one above, or empty.
void require_base_adapters(const Settings& settings, const std::string& adapter);
void require_file(const std::string& path, const std::string& option, const std::string& where);

// A .jsonl file, or of a folder its <split>.jsonl.
std::string rows_file(const std::string& path, const std::string& option, const std::string& split,
                      const std::string& where);

// dtype and bf16 -> Precision (docs/options.md, Precision).
Precision resolve_precision(const Settings& settings);
// load_in_4bit, load_in_8bit and bnb_4bit_quant_type. UserError for both.
QuantizedBase quantized_base(const Settings& settings);

}  // namespace hone::config
