// Rows of generate, chat, convert, merge, export, doctor, faults, bisect and lr-find.
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kFloat16 = "NUM-03: float16 overflows; use bfloat16";

Schema grouped(std::string command, const std::vector<std::vector<Option>>& parts) {
  Schema schema{.command = std::move(command), .options = {}};
  for (const std::vector<Option>& rows : parts) {
    for (const Option& row : rows) schema.options.push_back(row.group.empty() ? row.under("options") : row);
  }
  return schema;
}

// Names of transformers' GenerationConfig. The defaults are hone's own: nothing is drawn at random, or
// filtered, unless it is asked for.
std::vector<Option> sampling_rows(std::string_view max_new_tokens, std::string_view temperature) {
  std::vector<Option> rows = {
      Option{"max_new_tokens", Kind::kInt, max_new_tokens, "longest completion"}.within(at_least(1)),
      Option{"min_new_tokens", Kind::kInt, "0", "before these no end of sequence can be drawn"}.within(
          at_least(0)),
      Option{"temperature", Kind::kFloat, temperature, "0: always the likeliest token"}.within(at_least(0)),
      Option{"top_k", Kind::kInt, "0", "sample from the k likeliest tokens; 0: all"}.within(at_least(0)),
      Option{"top_p", Kind::kFloat, "1.0", "sample from the likeliest tokens that hold this share"}.within(
          {.least = 0, .most = 1, .least_open = true}),
      Option{"min_p", Kind::kFloat, "0.0", "sample from tokens at least min_p times as likely as the best"}
          .within({.least = 0, .most = 1}),
      Option{"repetition_penalty", Kind::kFloat, "1.0",
             "above 1: tokens of prompt and completion become less likely"}
          .within(above(0)),
      Option{"stop_strings", Kind::kList, "[]",
             "texts that end a completion, of which they are part; may be repeated"}
          .repeats(),
      Option{"seed", Kind::kInt, "42", "seed of the sampling"}.within(at_least(0)),
  };
  for (Option& row : rows) row = row.under("sampling");
  return rows;
}

std::vector<Option> machine_rows() {
  return {
      Option{"dtype", Kind::kChoice, "\"float32\"", "how the weights are kept"}.choice(
          "float32 bfloat16 auto", "", "float16", kFloat16),
      {"bf16", Kind::kBool, "null", "bfloat16 matrix products; null: true"},
      Option{"threads", Kind::kInt, "0", "threads; 0: as many as the processors this process may use"}.within(
          {.least = 0, .most = kMostThreads}),
  };
}

// How the base's linears are held: TRL's names.
std::vector<Option> quantised_rows(std::string_view four, std::string_view eight) {
  return {
      {"load_in_4bit", Kind::kBool, "false", four},
      {"load_in_8bit", Kind::kBool, "false", eight},
      Option{"bnb_4bit_quant_type", Kind::kChoice, "\"nf4\"", "4-bit format"}.choice("nf4 fp4"),
      {"use_bnb_nested_quant", Kind::kBool, "false", "quantise the 4-bit scales again"},
  };
}

// What was written, beside the model with its adapter.
std::vector<Option> compare_rows() {
  std::vector<Option> rows = {
      Option{"compare", Kind::kInt, "10", "prompts whose greedy completions are compared; 0: none"}.within(
          at_least(0)),
      {"prompts", Kind::kString, "null", "a .jsonl file with a prompt column; null: built-in questions"},
      Option{"max_new_tokens", Kind::kInt, "32", "longest completion"}.within(at_least(1)),
  };
  for (const Option& row : machine_rows()) rows.push_back(row);
  for (Option& row : rows) {
    if (row.name == "bf16")
      row.meaning = "bfloat16 products; null: float32 ones, so that what differs is the file";
  }
  for (Option& row : rows) row = row.under("comparison with the adapter beside its base");
  return rows;
}

constexpr std::string_view kBelow = "frozen adapters that the adapter was trained above, in their order";
constexpr std::string_view kSwitched =
    "several to switch between, one on at a time: NAME=FOLDER, or folders, named by their last part";
constexpr std::string_view kFourBits = "hold the layers' linears in 4 bits, as the adapter was trained";
constexpr std::string_view kEightBits = "hold them in 8 bits";
constexpr std::string_view kTrainedOnFour =
    "the adapter was trained on this base in 4 bits: merge onto what they stand for";
constexpr std::string_view kTrainedOnEight = "the same of 8 bits";
}  // namespace

const Schema& generate_schema() {
  static const Schema schema =
      grouped("generate",
              {{
                   {"model_name_or_path", Kind::kString, "null",
                    "model folder in Hugging Face format, or a .gguf file"},
                   {"adapter_name_or_path", Kind::kString, "null", "LoRA adapter on it"},
                   {"base_adapters", Kind::kList, "null", kBelow},
                   {"adapters", Kind::kList, "null", kSwitched},
                   Option{"prompt", Kind::kList, "[]", "a prompt; may be repeated"}.repeats(),
                   {"prompts", Kind::kString, "null", "a .jsonl file with a prompt column"},
                   {"chat", Kind::kBool, "null", "apply the chat template; null: when the tokenizer has one"},
                   Option{"num_return_sequences", Kind::kInt, "1", "completions of each prompt"}.within(
                       {.least = 1, .most = 65535}),
                   {"output", Kind::kString, "null", "a .jsonl file for the completions; null: the terminal"},
                   {"logprobs", Kind::kBool, "false", "write the log-probability of each token to output"},
               },
               sampling_rows("64", "0"),
               {
                   Option{"max_batch_size", Kind::kInt, "16", "most sequences that decode together"}.within(
                       {.least = 1, .most = 65536}),
                   {"kv_memory", Kind::kString, "null",
                    "memory for keys and values, such as 2GB; null: half of what is free"},
               },
               machine_rows(),
               quantised_rows(kFourBits, kEightBits)});
  return schema;
}

const Schema& chat_schema() {
  static const Schema schema = grouped(
      "chat", {{
                   {"model_name_or_path", Kind::kString, "null",
                    "model folder in Hugging Face format, or a .gguf file; may stand first without its name"},
                   {"adapter_name_or_path", Kind::kString, "null", "LoRA adapter on it"},
                   {"base_adapters", Kind::kList, "null", kBelow},
                   {"adapters", Kind::kList, "null", kSwitched},
                   {"system_prompt", Kind::kString, "null",
                    "the system's message; null: none, or the template's own"},
                   {"chat_template_path", Kind::kString, "null",
                    "a .jinja file; null: the tokenizer's chat template"},
               },
               sampling_rows("512", "0.7"),
               machine_rows(),
               quantised_rows(kFourBits, kEightBits)});
  return schema;
}

const Schema& convert_schema() {
  static const Schema schema = grouped(
      "convert", {{
                      {"input", Kind::kString, "null", "a .gguf file, or a model folder"},
                      {"output", Kind::kString, "null", "the new model folder"},
                      Option{"dtype", Kind::kChoice, "\"bfloat16\"", "type of the written weights"}.choice(
                          "bfloat16 float32 float16"),
                  },
                  quantised_rows("write the layers' linears in 4 bits a number, as bitsandbytes and "
                                 "transformers do",
                                 "write them in 8 bits a number")});
  return schema;
}

const Schema& merge_schema() {
  static const Schema schema = grouped(
      "merge", {{
                    {"adapter_name_or_path", Kind::kString, "null", "the LoRA adapter"},
                    {"base_adapters", Kind::kList, "null",
                     "frozen adapters that it was trained above: they are merged too"},
                    {"model_name_or_path", Kind::kString, "null",
                     "its base; null: the one that adapter_config.json names"},
                    {"output", Kind::kString, "null", "the new model folder; with adapters the new adapter"},
                    {"adapters", Kind::kList, "null",
                     "two adapters or more to combine into one, instead of merging one"},
                    {"weights", Kind::kList, "null", "a number for each of adapters; null: 1"},
                    Option{"combination", Kind::kChoice, "\"linear\"",
                           "PEFT's add_weighted_adapter: linear adds A and B, cat is exact, svd the best of "
                           "its rank"}
                        .choice("linear cat svd ties ties_svd magnitude_prune magnitude_prune_svd", "",
                                "dare_linear dare_ties dare_linear_svd dare_ties_svd",
                                "it drops values at random, so that two merges are two adapters; "
                                "magnitude_prune keeps the largest"),
                    Option{"density", Kind::kFloat, "null",
                           "the share of values that ties and magnitude_prune keep, the largest"}
                        .within({.least = 0, .most = 1, .least_open = true}),
                    Option{"majority_sign_method", Kind::kChoice, "\"total\"",
                           "what ties elects a sign by: the sum of the values, or how many have it"}
                        .choice("total frequency"),
                    Option{"svd_rank", Kind::kInt, "null",
                           "rank of what the svd forms make; null: the largest of adapters"}
                        .within(at_least(1)),
                },
                quantised_rows(kTrainedOnFour, kTrainedOnEight),
                compare_rows()});
  return schema;
}

const Schema& export_schema() {
  static const Schema schema = grouped(
      "export",
      {{
           {"model_name_or_path", Kind::kString, "null",
            "model folder, or a .gguf file; null: the adapter's base"},
           {"adapter_name_or_path", Kind::kString, "null", "LoRA adapter to merge into it"},
           {"base_adapters", Kind::kList, "null", "frozen adapters that it was trained above: merged too"},
           {"output", Kind::kString, "null", "the new .gguf file"},
           Option{"to", Kind::kChoice, "\"gguf\"", "the format: llama.cpp's"}.choice("gguf"),
           Option{"outtype", Kind::kChoice, "\"f16\"", "type of the matrices, by llama.cpp's names"}.choice(
               "f16 q8_0 q4_k_m bf16 f32"),
       },
       quantised_rows(kTrainedOnFour, kTrainedOnEight),
       compare_rows()});
  return schema;
}

const Schema& doctor_schema() {
  static const Schema schema = grouped(
      "doctor",
      {{
          {"deep", Kind::kBool, "false",
           "sample, overfit a batch, save and load, resume; the time that takes is told first"},
          {"strict", Kind::kBool, "false", "warnings end with 1"},
          {"json", Kind::kBool, "false", "one JSON object"},
          {"fix", Kind::kBool, "false", "write repairs that lose nothing into the YAML file"},
          {"verbose", Kind::kBool, "false", "every verdict, and what cannot happen by construction; also -v"},
      }});
  return schema;
}

const Schema& bisect_schema() {
  static const Schema schema = grouped(
      "bisect",
      {{
          {"good", Kind::kString, "null", "the configuration that works; may stand first without its name"},
          {"bad", Kind::kString, "null", "the one that fails; may stand second without its name"},
          {"method", Kind::kString, "null",
           "the command that they are for; null: the one that has their options"},
          Option{"steps", Kind::kInt, "3", "steps of each try"}.within({.least = 1, .most = kMostSteps}),
          Option{"timeout", Kind::kFloat, "600", "seconds after which a try counts as failed"}.within(
              above(0)),
          {"json", Kind::kBool, "false", "one JSON object instead of text"},
      }});
  return schema;
}

const Schema& faults_schema() {
  static const Schema schema = grouped(
      "faults",
      {{
          {"code", Kind::kString, "null", "a class, such as GRAD-02; may stand first without its name"},
          {"json", Kind::kBool, "false", "JSON"},
          {"markdown", Kind::kBool, "false", "docs/faults.md"},
          {"shown", Kind::kString, "null", "with markdown: a file of what tests have shown"},
      }});
  return schema;
}

const Schema& lr_find_schema() {
  static const Schema schema = grouped(
      "lr-find",
      {{
          {"run", Kind::kString, "null", "the configuration of the run; may stand first without its name"},
          Option{"steps", Kind::kInt, "40", "steps of the range test"}.within({.least = 10, .most = 1000}),
          Option{"lowest", Kind::kFloat, "1e-6", "learning rate of the first step"}.within(above(0)),
          Option{"highest", Kind::kFloat, "0.1", "of the last one"}.within(above(0)),
          {"output", Kind::kString, "\"lr-find\"", "where the curve goes: .json and .svg are added"},
          {"json", Kind::kBool, "false", "the JSON on the terminal too, instead of text"},
      }});
  return schema;
}

}  // namespace hone::config
