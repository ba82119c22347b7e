// Rows of generate, chat, convert, merge, export, reward-test, doctor, faults, bisect and lr-find.
#include <algorithm>

#include "base/error.h"
#include "config/doctor_plan.h"
#include "config/option_table.h"
#include "config/tool_plans.h"

namespace hone::config {
namespace {

using Rows = std::vector<Option>;

constexpr std::string_view kFloat16 = "NUM-03: float16 overflows; use bfloat16";
constexpr Choices<StorageType, 3> kStorageWords = {{{"bfloat16", StorageType::kBFloat16},
                                                  {"float32", StorageType::kFloat32},
                                                  {"float16", StorageType::kFloat16}}};
constexpr Choices<GgufOutType, 5> kOutTypeWords = {{{"f16", GgufOutType::kF16},
                                                  {"q8_0", GgufOutType::kQ8_0},
                                                  {"q4_k_m", GgufOutType::kQ4_K_M},
                                                  {"bf16", GgufOutType::kBF16},
                                                  {"f32", GgufOutType::kF32}}};
constexpr Choices<bool, 2> kSignWords = {{{"total", false}, {"frequency", true}}};

Schema grouped(std::string command, const std::vector<Rows>& parts) {
  Schema schema{.command = std::move(command), .options = {}};
  for (const Rows& rows : parts) {
    for (const Option& row : rows) {
      schema.options.push_back(row.group.empty() ? row.under("options") : row);
      schema.options.back().methods = schema.command == "reward-test" ? "reward-test" : kAll;
    }
  }
  return schema;
}

Rows headed(std::string_view heading, Rows rows) {
  for (Option& row : rows) row = row.under(heading);
  return rows;
}

// The row of the training methods, for a command that has the same option.
Option as_in_training(std::string_view name) {
  const std::vector<Option>& all = method_options();
  const auto row = std::find_if(all.begin(), all.end(), [&](const Option& one) { return one.name == name; });
  base::require(row != all.end(), "config::as_in_training", "the name of a row");
  Option own = row->under("");
  own.origin = kHone;
  own.changes.clear();
  return own;
}

// Names of transformers' GenerationConfig. The defaults are hone's own: nothing is drawn at random, or
// filtered, unless it is asked for.
Rows sampling_rows(std::string_view max_new_tokens, std::string_view temperature) {
  return headed(
      "sampling",
      {
          Option{"max_new_tokens", "longest completion"}
              .into(&SamplingPlan::max_new_tokens)
              .defaults(max_new_tokens)
              .within(at_least(1)),
          Option{"min_new_tokens", "before these no end of sequence can be drawn"}
              .into(&SamplingPlan::min_new_tokens)
              .within(at_least(0)),
          Option{"temperature", "0: always the most likely token"}
              .into(&SamplingPlan::temperature)
              .defaults(temperature)
              .within(at_least(0)),
          Option{"top_k", "sample from the k most likely tokens; 0: all"}
              .into(&SamplingPlan::top_k)
              .within(at_least(0)),
          Option{"top_p", "sample from the most likely tokens that hold this share"}
              .into(&SamplingPlan::top_p)
              .within({.least = 0, .most = 1, .least_open = true}),
          Option{"min_p", "sample from tokens at least min_p times as likely as the best"}
              .into(&SamplingPlan::min_p)
              .within({.least = 0, .most = 1}),
          Option{"repetition_penalty", "above 1: tokens of prompt and completion become less likely"}
              .into(&SamplingPlan::repetition_penalty)
              .within(above(0)),
          Option{"stop_strings", "texts that end a completion, of which they are part; may be repeated"}
              .into(&SamplingPlan::stop_strings)
              .repeats(),
          Option{"seed", "seed of the sampling"}.into(&SamplingPlan::seed).within(at_least(0)),
      });
}

// Part has `threads`. The precision follows from dtype and bf16.
template <typename Part>
Rows machine_rows(std::string_view bf16) {
  return {
      Option{"dtype", "how the weights are kept", Kind::kChoice, "\"float32\""}.choice(
          "float32 bfloat16 auto", "", "float16", kFloat16),
      Option{"bf16", bf16, Kind::kBool, "null"},
      Option{"threads", "threads; 0: as many as the processors this process may use"}
          .into(&Part::threads)
          .within({.least = 0, .most = kMaxThreads}),
  };
}
constexpr std::string_view kBf16 = "bfloat16 matrix products; null: true";

// How the base's linears are held: TRL's names.
Rows quantized_rows(std::string_view four, std::string_view eight) {
  return {
      Option{"load_in_4bit", four, Kind::kBool, "false"},
      Option{"load_in_8bit", eight, Kind::kBool, "false"},
      Option{"bnb_4bit_quant_type", "4-bit format", Kind::kChoice, "\"nf4\""}.choice("nf4 fp4"),
      Option{"use_bnb_nested_quant", "quantize the 4-bit scales again", Kind::kBool, "false"},
  };
}

// What was written, beside the model with its adapter.
Rows compare_rows() {
  Rows rows = {
      Option{"compare", "prompts whose greedy completions are compared; 0: none"}
          .into(&ComparePlan::count)
          .within(at_least(0)),
      Option{"prompts", "a .jsonl file with a prompt column; null: built-in questions"}.into(
          &ComparePlan::prompts),
      Option{"max_new_tokens", "longest completion"}.into(&ComparePlan::max_new_tokens).within(at_least(1)),
  };
  for (const Option& row :
       machine_rows<ComparePlan>("bfloat16 products; null: float32 ones, so that what differs is the file"))
    rows.push_back(row);
  return headed("comparison with the adapter beside its base", rows);
}

constexpr std::string_view kBelow = "frozen adapters that the adapter was trained above, in their order";
constexpr std::string_view kSwitched =
    "several to switch between, one on at a time: NAME=FOLDER, or folders, named by their last part";
constexpr std::string_view kFourBits = "hold the layers' linears in 4 bits, as the adapter was trained";
constexpr std::string_view kEightBits = "hold them in 8 bits";
constexpr std::string_view kTrainedOnFour =
    "the adapter was trained on this base in 4 bits: merge onto what they stand for";
constexpr std::string_view kTrainedOnEight = "the same of 8 bits";

// generate's and chat's model, and what is on it.
Rows decoding_rows(std::string_view model) {
  return {
      Option{"model_name_or_path", model}.into(&DecodingPlan::model_name_or_path),
      Option{"adapter_name_or_path", "LoRA adapter on it"}.into(&DecodingPlan::adapter_name_or_path),
      Option{"base_adapters", kBelow}.into(&DecodingPlan::base_adapters),
      Option{"adapters", kSwitched, Kind::kList, "null"},
  };
}

}  // namespace

const Schema& generate_schema() {
  static const Schema schema =
      grouped("generate",
              {decoding_rows("model folder in Hugging Face format, or a .gguf file"),
               {
                   Option{"prompt", "a prompt; may be repeated"}.into(&GeneratePlan::prompts).repeats(),
                   Option{"prompts", "a .jsonl file with a prompt column"}.into(&GeneratePlan::prompts_file),
                   Option{"chat", "apply the chat template; null: when the tokenizer has one"}.into(
                       &GeneratePlan::chat),
                   Option{"num_return_sequences", "completions of each prompt"}
                       .into(&GeneratePlan::num_return_sequences)
                       .within({.least = 1, .most = 65535}),
                   Option{"output", "a .jsonl file for the completions; null: the terminal"}.into(
                       &GeneratePlan::output),
                   Option{"logprobs", "write the log-probability of each token to output"}.into(
                       &GeneratePlan::logprobs),
               },
               sampling_rows("64", "0"),
               {
                   Option{"max_batch_size", "most sequences that decode together"}
                       .into(&GeneratePlan::max_batch_size)
                       .within({.least = 1, .most = 65536}),
                   Option{"kv_memory", "memory for keys and values, such as 2GB; null: half of what is free"}
                       .into_bytes(&GeneratePlan::kv_memory),
               },
               machine_rows<DecodingPlan>(kBf16),
               quantized_rows(kFourBits, kEightBits)});
  return schema;
}

const Schema& chat_schema() {
  static const Schema schema = grouped(
      "chat",
      {decoding_rows("model folder in Hugging Face format, or a .gguf file; may stand first without its "
                     "name"),
       {
           Option{"system_prompt", "the system's message; null: none, or the template's own"}.into(
               &ChatPlan::system_prompt),
           Option{"chat_template_path", "a .jinja file; null: the tokenizer's chat template"}.into(
               &ChatPlan::chat_template_path),
       },
       sampling_rows("512", "0.7"),
       machine_rows<DecodingPlan>(kBf16),
       quantized_rows(kFourBits, kEightBits)});
  return schema;
}

const Schema& convert_schema() {
  static const Schema schema = grouped(
      "convert",
      {{
           Option{"input", "a .gguf file, or a model folder"}.into(&ConvertPlan::input),
           Option{"output", "the new model folder"}.into(&ConvertPlan::output),
           Option{"dtype", "type of the written weights"}.into(&ConvertPlan::dtype, kStorageWords),
       },
       quantized_rows("write the layers' linears in 4 bits a number, as bitsandbytes and transformers do",
                      "write them in 8 bits a number")});
  return schema;
}

const Schema& merge_schema() {
  static const Schema schema = grouped(
      "merge",
      {{
           Option{"adapter_name_or_path", "the LoRA adapter"}.into(&MergePlan::adapter_name_or_path),
           Option{"base_adapters", "frozen adapters that it was trained above: they are merged too"}.into(
               &MergePlan::base_adapters),
           Option{"model_name_or_path", "its base; null: the one that adapter_config.json names"}.into(
               &MergePlan::model_name_or_path),
           Option{"output", "the new model folder; with adapters the new adapter"}.into(&MergePlan::output),
           Option{"adapters", "two adapters or more to combine into one, instead of merging one"}.into(
               &MergePlan::adapters),
           Option{"weights", "a number for each of adapters; null: 1", Kind::kList, "null"},
           Option{"combination",
                  "PEFT's add_weighted_adapter: linear adds A and B, cat is exact, svd the best of its rank"}
               .into(&MergePlan::combination)
               .choice(
                   "linear cat svd ties ties_svd magnitude_prune magnitude_prune_svd", "",
                   "dare_linear dare_ties dare_linear_svd dare_ties_svd",
                   "it drops values at random, so that two merges are two adapters; magnitude_prune keeps "
                   "the largest"),
           Option{"density", "the share of values that ties and magnitude_prune keep, the largest",
                  Kind::kFloat, "null"}
               .within({.least = 0, .most = 1, .least_open = true}),
           Option{"majority_sign_method",
                  "what ties elects a sign by: the sum of the values, or how many have it"}
               .into(&MergePlan::elects_by_frequency, kSignWords),
           Option{"svd_rank", "rank of what the svd forms make; null: the largest of adapters"}
               .into(&MergePlan::svd_rank)
               .or_null()
               .within(at_least(1)),
       },
       quantized_rows(kTrainedOnFour, kTrainedOnEight),
       compare_rows()});
  return schema;
}

const Schema& export_schema() {
  static const Schema schema = grouped(
      "export",
      {{
           Option{"model_name_or_path", "model folder, or a .gguf file; null: the adapter's base"}.into(
               &ExportPlan::model_name_or_path),
           Option{"adapter_name_or_path", "LoRA adapter to merge into it"}.into(
               &ExportPlan::adapter_name_or_path),
           Option{"base_adapters", "frozen adapters that it was trained above: merged too"}.into(
               &ExportPlan::base_adapters),
           Option{"output", "the new .gguf file"}.into(&ExportPlan::output),
           Option{"to", "the format: llama.cpp's", Kind::kChoice, "\"gguf\""}.choice("gguf"),
           Option{"outtype", "type of the matrices, by llama.cpp's names"}.into(&ExportPlan::outtype,
                                                                                kOutTypeWords),
       },
       quantized_rows(kTrainedOnFour, kTrainedOnEight),
       compare_rows()});
  return schema;
}

const Schema& reward_test_schema() {
  static const Schema schema = grouped(
      "reward-test",
      {{
          as_in_training("reward_model_name_or_path"),
          as_in_training("reward_funcs"),
          Option{"python", as_in_training("python").meaning}.into(&RewardTestPlan::python),
          as_in_training("reward_workers").into(&RewardTestPlan::reward_workers),
          as_in_training("reward_timeout").into(&RewardTestPlan::reward_timeout),
          Option{"dataset_name", "a .jsonl file with a prompt column, or a folder that holds train.jsonl"}
              .into(&RewardTestPlan::dataset_name),
          Option{"max_completion_length", "where completions are cut"}
              .into(&RewardTestPlan::max_completion_length)
              .within({.least = 1, .most = 1e9}),
          Option{"limit", "rows of the data to try"}.into(&RewardTestPlan::limit).within(at_least(1)),
      }});
  return schema;
}

const Schema& doctor_schema() {
  static const Schema schema = grouped(
      "doctor",
      {{
          Option{"deep", "sample, overfit a batch, save and load, resume; the time that takes is told first"}
              .into(&DoctorPlan::deep),
          Option{"strict", "warnings end with 1"}.into(&DoctorPlan::strict),
          Option{"json", "one JSON object"}.into(&DoctorPlan::json),
          Option{"fix", "write repairs that lose nothing into the YAML file"}.into(&DoctorPlan::fix),
          Option{"verbose", "every verdict, and what cannot happen by construction; also -v"}.into(
              &DoctorPlan::verbose),
      }});
  return schema;
}

const Schema& bisect_schema() {
  static const Schema schema = grouped(
      "bisect",
      {{
          Option{"good", "the configuration that works; may stand first without its name"}.into(
              &BisectPlan::good),
          Option{"bad", "the one that fails; may stand second without its name"}.into(&BisectPlan::bad),
          Option{"method", "the command that they are for; null: the one that has their options",
                 Kind::kString, "null"},
          Option{"steps", "steps of each try"}
              .into(&BisectPlan::steps)
              .within({.least = 1, .most = kMaxSteps}),
          Option{"timeout", "seconds after which a try counts as failed"}
              .into(&BisectPlan::timeout)
              .whole()
              .within(above(0)),
          Option{"json", "one JSON object instead of text"}.into(&BisectPlan::json),
      }});
  return schema;
}

const Schema& faults_schema() {
  static const Schema schema =
      grouped("faults",
              {{
                  Option{"code", "a class, such as GRAD-02; may stand first without its name"}.into(
                      &FaultsPlan::code),
                  Option{"json", "JSON"}.into(&FaultsPlan::json),
                  Option{"markdown", "docs/faults.md"}.into(&FaultsPlan::markdown),
                  Option{"shown", "with markdown: a file of what tests have shown"}.into(&FaultsPlan::shown),
              }});
  return schema;
}

const Schema& lr_find_schema() {
  static const Schema schema = grouped(
      "lr-find",
      {{
          Option{"run", "the configuration of the run; may stand first without its name"}.into(
              &LrFindPlan::run),
          Option{"steps", "steps of the range test"}
              .into(&LrFindPlan::steps)
              .within({.least = 10, .most = 1000}),
          Option{"lowest", "learning rate of the first step"}.into(&LrFindPlan::lowest).within(above(0)),
          Option{"highest", "of the last one"}.into(&LrFindPlan::highest).within(above(0)),
          Option{"output", "where the curve goes: .json and .svg are added"}.into(&LrFindPlan::output),
          Option{"json", "the JSON on the terminal too, instead of text"}.into(&LrFindPlan::json),
      }});
  return schema;
}

}  // namespace hone::config
