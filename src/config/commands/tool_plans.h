// The plans of the small commands: generate, chat, serve, convert, merge, export, reward-test, bisect and lr-find.
// They use the same option table and errors as a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/gpu_reports.h"
#include "base/row_files.h"
#include "config/hub_names.h"
#include "config/plan.h"

namespace hone::config {

// How completions are sampled; names of transformers' GenerationConfig.
struct SamplingPlan {
  std::int64_t max_new_tokens = 64;
  std::int64_t min_new_tokens = 0;
  double temperature = 0;  // 0: greedy
  std::int64_t top_k = 0;  // 0: off
  double top_p = 1;        // 1: off
  double min_p = 0;        // 0: off
  double repetition_penalty = 1;
  std::vector<std::string> stop_strings;  // none is empty
  std::int64_t seed = 42;
  std::string drafts = "off";  // or auto

  bool operator==(const SamplingPlan&) const = default;
};

// An adapter that can be switched on: --adapters NAME=FOLDER, or FOLDER, whose last part is then the name.
struct NamedAdapter {
  std::string name, folder;
  bool operator==(const NamedAdapter&) const = default;
};

// Shared by generate, chat and serve: the model, its adapters, and its storage.
struct DecodingPlan : SamplingPlan {
  std::string model_name_or_path;          // folder, or .gguf file
  std::string adapter_name_or_path;        // empty: no adapter, or `adapters`
  std::vector<std::string> base_adapters;  // frozen adapters below it
  std::vector<NamedAdapter> adapters;      // several, one of which is on at a time
  std::string chat_template_kwargs;        // JSON object, the template's variables; empty: none
  Precision precision = Precision::kAutocast;
  QuantizedBase quantized_base = QuantizedBase::kNone;
  bool use_bnb_nested_quant = false;
  bool quantize_moe_experts = false;
  std::int64_t threads = 0;                   // 0: as many as the processors this process may use
  std::string device = base::kDefaultDevice;  // as MachinePlan's
  std::vector<std::string> notes;
  std::vector<HubRequest> downloads;  // models that are not on this machine
  bool operator==(const DecodingPlan&) const = default;
};

// hone generate: completions for prompts, one per line in `output` (JSONL) or on the terminal; with
// `adapters`, from each of them.
struct GeneratePlan : DecodingPlan {
  std::vector<std::string> prompts;  // --prompt, repeatable
  std::string prompts_file;          // .jsonl with a `prompt` column; empty: none
  std::optional<bool> chat;          // apply the chat template; empty: when the tokenizer has one
  std::int64_t num_return_sequences = 1;
  std::int64_t max_batch_size = 16;
  std::int64_t kv_memory = 0;  // bytes; 0: half of what is free
  std::string output;          // .jsonl; empty: the terminal
  bool logprobs = false;       // write them to `output`

  bool operator==(const GeneratePlan&) const = default;
};

// hone chat: a conversation on the terminal.
struct ChatPlan : DecodingPlan {
  std::string system_prompt;       // empty: none
  std::string chat_template_path;  // empty: the tokenizer's
  std::vector<std::string> tools;  // tools/tool_spec.h

  bool operator==(const ChatPlan&) const = default;
};

// hone serve: the model and its adapters over HTTP.
struct ServePlan : DecodingPlan {
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;             // 0: any that is free
  std::string served_model_name;        // empty: the last part of model_name_or_path
  std::string api_key_env;              // name of the variable that holds the key; empty: no key
  std::vector<std::string> host_names;  // that a Host header may have, beside `host`
  std::string chat_template_path;       // empty: the tokenizer's
  std::int64_t max_batch_size = 64;     // sequences that decode together
  std::int64_t prefill_tokens = 128;    // of prompts, in one step
  std::int64_t kv_memory = 0;           // bytes; 0: half of what is free
  std::int64_t adapter_memory = 0;  // bytes of weights that clients sample from; 0: an eighth of what is free
  std::int64_t max_waiting = 1024;  // requests that are not answered; more are refused with 429
  std::string logprobs_mode = "raw";      // or "sampled"
  double training_share = 0.5;            // of the time, for other work than decoding while both wait
  std::string gradient_sums = "arrival";  // or "bins": those of a step of the Tinker API
  double drain = 30;                      // seconds for running requests after SIGTERM
  std::string root = "serve";             // folder of what clients train and save

  bool operator==(const ServePlan&) const = default;
};

enum class StorageType { kFloat32, kBFloat16, kFloat16 };

// hone convert: a GGUF file or a folder in, a Hugging Face folder out.
struct ConvertPlan {
  std::string input;
  std::string output;
  StorageType dtype = StorageType::kBFloat16;
  QuantizedBase quantize = QuantizedBase::kNone;
  bool use_bnb_nested_quant = false;
  std::vector<std::string> notes;

  bool operator==(const ConvertPlan&) const = default;
};

// How merge and export compare their result with the model and its adapter: on greedy completions.
struct ComparePlan {
  std::int64_t count = 10;           // prompts; 0: no comparison
  std::string prompts;               // .jsonl with a `prompt` column; empty: built-in questions
  std::int64_t max_new_tokens = 32;  // per completion
  Precision precision = Precision::kFloat32;
  std::int64_t threads = 0;
  std::string device = base::kDefaultDevice;  // as MachinePlan's

  bool operator==(const ComparePlan&) const = default;
};

// hone merge: base + adapter in fp32 into a new folder, stored as the base is; or several adapters into one.
struct MergePlan {
  std::string model_name_or_path;          // empty: the base that adapter_config.json names
  std::string adapter_name_or_path;        // empty: `adapters` are combined, and output is an adapter
  std::vector<std::string> base_adapters;  // merged with it
  std::vector<std::string> adapters;       // two or more
  std::vector<double> weights;             // one per adapter
  std::string combination = "linear";      // as named in PEFT
  double density = 1;                      // of ties and magnitude_prune
  bool elects_by_frequency = false;        // ties
  std::int64_t svd_rank = 0;               // 0: the largest of the adapters
  std::string output;
  QuantizedBase trained_on = QuantizedBase::kNone;  // how the base was stored in training
  bool use_bnb_nested_quant = false;
  bool quantize_moe_experts = false;
  ComparePlan compare;
  std::vector<HubRequest> downloads;  // models that are not on this machine
  std::vector<std::string> notes;

  bool operator==(const MergePlan&) const = default;
};

enum class GgufOutType { kF32, kBF16, kF16, kQ8_0, kQ4_K_M };

// hone export: a model, with an adapter merged into it, as one GGUF file for llama.cpp; or only the adapter.
struct ExportPlan {
  std::string model_name_or_path;    // empty: the base that adapter_config.json names
  std::string adapter_name_or_path;  // empty: only the model
  std::vector<std::string> base_adapters;
  std::string output;         // a new .gguf file
  bool adapter_only = false;  // only the adapter, as llama.cpp's LoRA file; outtype is then f32, f16 or bf16
  GgufOutType outtype = GgufOutType::kF16;
  QuantizedBase trained_on = QuantizedBase::kNone;  // how the base was stored in training
  bool use_bnb_nested_quant = false;
  bool quantize_moe_experts = false;
  ComparePlan compare;
  std::vector<HubRequest> downloads;  // models that are not on this machine
  std::vector<std::string> notes;

  bool operator==(const ExportPlan&) const = default;
};

// hone reward-test: tests a run's rewards on the answers of the data, and on bad ones.
struct RewardTestPlan {
  std::vector<std::string> reward_funcs;  // at least one; as in PolicyPlan
  std::string dataset_name;               // as the user wrote it
  base::RowFiles rows;                    // its files
  std::string python;                     // empty: base/process/active_python.h
  std::int64_t reward_workers = 1;
  double reward_timeout = 60;  // seconds a call
  std::int64_t max_completion_length = 512;
  std::int64_t limit = 32;                    // rows
  std::string device = base::kDefaultDevice;  // of reward models, as MachinePlan's
  std::vector<std::string> notes;
  std::vector<HubRequest> downloads;  // what has to be downloaded first

  bool operator==(const RewardTestPlan&) const = default;
};

// hone bisect: finds the options that make a bad configuration fail, among those that differ from a good one.
struct BisectPlan {
  std::string good, bad;         // YAML files
  Method method = Method::kSft;  // the method of both files
  std::int64_t steps = 3;        // per try
  double timeout = 600;          // seconds per try
  bool json = false;
  std::vector<std::string> notes;

  bool operator==(const BisectPlan&) const = default;
};

// hone lr-find: a learning rate from a short range test.
struct LrFindPlan {
  std::string run;  // the YAML file of the run
  std::int64_t steps = 40;
  double lowest = 1e-6, highest = 0.1;  // learning rates, multiplied by the same factor each step
  std::string output = "lr-find";       // .json and .svg are added
  bool json = false;
  std::vector<std::string> notes;

  bool operator==(const LrFindPlan&) const = default;
};

// `arguments` are those after the command; each also accepts --config FILE. Throw UserError.
GeneratePlan parse_generate(const std::vector<std::string>& arguments);
ChatPlan parse_chat(const std::vector<std::string>& arguments);    // the first argument may be the model
ServePlan parse_serve(const std::vector<std::string>& arguments);  // the first argument may be the model
ConvertPlan parse_convert(const std::vector<std::string>& arguments);
MergePlan parse_merge(const std::vector<std::string>& arguments);
ExportPlan parse_export(const std::vector<std::string>& arguments);
RewardTestPlan parse_reward_test(const std::vector<std::string>& arguments);
// the first two arguments may be the files
BisectPlan parse_bisect(const std::vector<std::string>& arguments);
LrFindPlan parse_lr_find(const std::vector<std::string>& arguments);  // the first argument may be the file

// The options of hone serve.
struct Schema;
class Settings;
const Schema& serve_schema();
// Fills `plan` from the options of a command that serves a model; `wish` says what the model is for. UserError.
Settings read_served(const Schema& schema, const std::vector<std::string>& arguments,
                     const std::string& command, const std::string& wish, ServePlan& plan);

}  // namespace hone::config
