// Rows: the model and the adapter (TRL's ModelConfig, PEFT's words for the rest).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kModel = "model";
constexpr std::string_view kAdapter = "adapter";
}  // namespace

std::vector<Option> model_options() {
  std::vector<Option> rows = {
      {"model_name_or_path", Kind::kString, "null", "model folder in Hugging Face format, or a .gguf file"},
      {"model_revision", Kind::kString, "\"main\"", "version on the hub"},
      {"dtype", Kind::kChoice, "\"float32\"",
       "how the frozen weights are kept; with bf16 it sets the precision"},
      {"attn_implementation", Kind::kString, "null", "attention kernel"},
      {"load_in_8bit", Kind::kBool, "false",
       "hold the layers' linears in 8 bits a number, as bitsandbytes does; the adapter stays float32"},
      {"load_in_4bit", Kind::kBool, "false",
       "hold the layers' linears in 4 bits a number (QLoRA), as bitsandbytes does; the adapter stays "
       "float32"},
      {"bnb_4bit_quant_type", Kind::kChoice, "\"nf4\"", "4-bit format"},
      {"use_bnb_nested_quant", Kind::kBool, "false",
       "quantise the 4-bit scales again: 4.13 bits a number, not 4.5"},
      {"bnb_4bit_quant_storage", Kind::kString, "null", "container type of 4-bit weights"},
  };
  rows[1] = rows[1].refused("hone reads local files, which have no revision");
  rows[2] = rows[2].choice("float32 bfloat16 auto", "", "float16",
                           "NUM-03: float16 overflows in training and needs loss scaling; use bfloat16");
  rows[3] = rows[3].answered("hone has one attention of its own");
  rows[6] = rows[6].choice("nf4 fp4");
  rows[8] = rows[8].answered("hone holds codes as bytes, and reads files with any container");
  for (Option& row : rows) row = row.from(Origin::kModelConfig).under(kModel);

  const std::vector<Option> own = {
      Option{"model_init_kwargs", Kind::kMap, "null", "keyword arguments of from_pretrained"}.refused(
          "not yet; dtype has an option of its own"),
      Option{"trust_remote_code", Kind::kBool, "false", "run Python code that ships with a model"}.answered(
          "hone never runs code from a model's folder"),
      Option{"router_aux_loss_coef", Kind::kFloat, "null", "load-balancing loss of mixture-of-experts models"}
          .refused("not yet: no mixture-of-experts models"),
      Option{"chat_template_path", Kind::kString, "null",
             "a .jinja file: the template to use instead of the model's own"}
          .only("sft"),
  };
  for (const Option& row : own) rows.push_back(row.from(Origin::kSftConfig).under(kModel));
  return rows;
}

std::vector<Option> adapter_options() {
  std::vector<Option> rows = {
      {"use_peft", Kind::kBool, "false", "train a LoRA adapter; the base stays frozen"},
      Option{"lora_r", Kind::kInt, "16", "rank of the adapter"}.within(at_least(1)),
      Option{"lora_alpha", Kind::kInt, "32", "the adapter's output is scaled by lora_alpha / lora_r"}.within(
          above(0)),
      Option{"lora_dropout", Kind::kFloat, "0.05",
             "dropout before the adapter; a continued adapter keeps its own unless this is set"}
          .within(share()),
      {"lora_target_modules", Kind::kList, "null",
       "names to adapt; one value: a regular expression or all-linear; null: PEFT's choice for the model"},
      Option{"lora_target_parameters", Kind::kList, "null", "bare parameters to adapt"}.refused(
          "not yet: adapters sit on linear layers"),
      Option{"lora_modules_to_save", Kind::kList, "null", "modules trained whole beside the adapter"}.refused(
          "not yet: only LoRA tensors are trained"),
      Option{"lora_task_type", Kind::kChoice, "\"CAUSAL_LM\"", "PEFT task type"}.choice(
          "CAUSAL_LM", "", "SEQ_CLS TOKEN_CLS SEQ_2_SEQ_LM QUESTION_ANS FEATURE_EXTRACTION",
          "hone trains causal language models; reward models are not yet there"),
      {"use_rslora", Kind::kBool, "false", "scale by lora_alpha / sqrt(lora_r)"},
      {"use_dora", Kind::kBool, "false",
       "weight-decomposed adapters (DoRA): a magnitude of its own for each output"},
  };
  for (Option& row : rows) row = row.from(Origin::kModelConfig).under(kAdapter);

  const std::vector<Option> own = {
      Option{"init_lora_weights", Kind::kChoice, "\"true\"", "how A and B begin, as PEFT's init_lora_weights"}
          .choice("true gaussian false pissa pissa_niter_N", "",
                  "olora loftq eva corda lora_ga orthogonal mica", "not yet"),
      {"lora_exclude_modules", Kind::kList, "null", "names not to adapt, as PEFT's exclude_modules"},
      {"trainable_token_indices", Kind::kIds, "null",
       "token ids whose rows of the embedding are trained too (and of a head that is tied to it), as PEFT's"},
      {"adapter_name_or_path", Kind::kString, "null", "continue this adapter instead of a new one"},
      {"base_adapters", Kind::kList, "null",
       "frozen LoRA adapters below the trained one, as part of the base; the reference has them too"},
      {"base_model_name_for_adapter", Kind::kString, "null",
       "base_model_name_or_path in adapter_config.json; null: the model's folder"},
  };
  for (const Option& row : own) rows.push_back(row.under(kAdapter));
  return rows;
}

}  // namespace hone::config
