// Rows of generate, convert and merge.
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kFloat16 = "NUM-03: float16 overflows; use bfloat16";

Schema grouped(std::string command, std::vector<Option> rows) {
  for (Option& row : rows) row = row.under("options");
  return {.command = std::move(command), .options = std::move(rows)};
}
}  // namespace

const Schema& generate_schema() {
  static const Schema schema = grouped(
      "generate",
      {
          {"model_name_or_path", Kind::kString, "null",
           "model folder in Hugging Face format, or a .gguf file"},
          {"adapter_name_or_path", Kind::kString, "null", "LoRA adapter on it"},
          Option{"prompt", Kind::kList, "[]", "a prompt; may be repeated"}.repeats(),
          {"prompts", Kind::kString, "null", "a .jsonl file with a prompt column"},
          {"chat", Kind::kBool, "null", "apply the chat template; null: when the tokenizer has one"},
          Option{"max_new_tokens", Kind::kInt, "64", "longest completion"}.within(at_least(1)),
          Option{"temperature", Kind::kFloat, "0", "0: always the likeliest token"}.within(at_least(0)),
          Option{"top_k", Kind::kInt, "0", "sample from the k likeliest tokens; 0: all"}.within(at_least(0)),
          Option{"top_p", Kind::kFloat, "1.0", "sample from the likeliest tokens that hold this share"}
              .within({.least = 0, .most = 1, .least_open = true}),
          Option{"seed", Kind::kInt, "42", "seed of the sampling"}.within(at_least(0)),
          Option{"dtype", Kind::kChoice, "\"float32\"", "how the weights are kept"}.choice(
              "float32 bfloat16 auto", "", "float16", kFloat16),
          {"bf16", Kind::kBool, "null", "bfloat16 matrix products; null: true"},
          Option{"threads", Kind::kInt, "0", "threads; 0: as many as the processors this process may use"}
              .within(at_least(0)),
          {"output", Kind::kString, "null", "a .jsonl file for the completions; null: the terminal"},
      });
  return schema;
}

const Schema& convert_schema() {
  static const Schema schema = grouped(
      "convert", {
                     {"input", Kind::kString, "null", "a .gguf file, or a model folder"},
                     {"output", Kind::kString, "null", "the new model folder"},
                     Option{"dtype", Kind::kChoice, "\"bfloat16\"", "type of the written weights"}.choice(
                         "bfloat16 float32 float16"),
                 });
  return schema;
}

const Schema& merge_schema() {
  static const Schema schema =
      grouped("merge", {
                           {"adapter_name_or_path", Kind::kString, "null", "the LoRA adapter"},
                           {"model_name_or_path", Kind::kString, "null",
                            "its base; null: the one that adapter_config.json names"},
                           {"output", Kind::kString, "null", "the new model folder"},
                       });
  return schema;
}

}  // namespace hone::config
