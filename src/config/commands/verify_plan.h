// hone verify-served: a server, the adapter that it should apply, and the base below it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/gpu_reports.h"
#include "config/hub_names.h"
#include "config/option_table.h"

namespace hone::config {

struct VerifyPlan {
  std::string url;                 // http:// or https://, without a slash at its end
  std::string adapter;             // folder
  std::string base;                // folder or .gguf file; empty: the one that adapter_config.json names
  std::string other_base;          // one that may be served instead; empty: none
  std::string server = "auto";     // or a word of adapters/server_rules.h
  std::string served_model_name;   // empty: the adapter's, by the server's list
  std::string api_key_env;         // name of the variable that holds the key; empty: no key
  std::string chat_template_path;  // empty: the tokenizer's
  std::string prompts;             // .jsonl with a `prompt` column; empty: built-in questions
  std::int64_t count = 24;         // prompts
  std::int64_t tokens = 24;        // of the completion behind each
  double limit = 0.1;              // mean |difference| of log-probabilities that rounding explains
  double timeout = 30;             // seconds of a request
  bool bf16 = false;               // weights in bfloat16; false: float32
  std::int64_t threads = 0;
  std::string device = base::kDefaultDevice;
  std::string python;  // empty: base/process/active_python.h
  bool json = false;
  std::vector<HubRequest> downloads;
  std::vector<std::string> notes;

  bool operator==(const VerifyPlan&) const = default;
};

const Schema& verify_schema();
// `arguments` are the words after the command, of which the first may be the address. UserError.
VerifyPlan parse_verify(const std::vector<std::string>& arguments);

}  // namespace hone::config
