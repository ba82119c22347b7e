// The model card of an adapter: README.md of its repository on the hub, in the spirit of TRL's generate_model_card
// (trl/trainer/utils.py) and with PEFT's metadata (library_name, base_model).
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace hone::report {

struct ModelCard {
  std::string name;        // "owner/name", or the folder's name
  std::string base_model;  // as the hub names it; empty: not on the hub
  std::string dataset;     // the same
  std::string method;      // the command: "sft"; empty: not known
  bool full = false;       // a model, not an adapter
  bool chat = false;       // the tokenizer has a chat template
  base::Json options;      // the resolved options, by name
  base::Json logged;       // the last values of metrics.jsonl, by name: "loss", "eval_loss", ...
};

// Markdown with YAML metadata at its beginning.
std::string model_card(const ModelCard& card);

// The last value of every name in the text of a metrics.jsonl, without times and counts of the run; an object.
base::Json last_metrics(std::string_view metrics);

}  // namespace hone::report
