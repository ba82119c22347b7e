// Rows: the model and the adapter (TRL's ModelConfig, PEFT's words for the rest).
#include "config/option_table.h"

namespace hone::config {

std::vector<Option> model_options() {
  std::vector<Option> rows;
  add(rows, {"model", kModelConfig, kAll},
      {
          Option{"model_name_or_path", "model folder in Hugging Face format, or a .gguf file"}
              .into(&ModelPlan::model_name_or_path)
              .formerly("model model_name"),
          Option{"model_revision", "version on the hub", Kind::kString, "\"main\""}.refused(
              "hone reads local files, which have no revision"),
          Option{"dtype", "how the frozen weights are kept; with bf16 it sets the precision", Kind::kChoice,
                 "\"float32\""}
              .choice("float32 bfloat16 auto", "", "float16",
                      "NUM-03: float16 overflows in training and needs loss scaling; use bfloat16")
              .formerly("torch_dtype"),
          Option{"attn_implementation", "attention kernel", Kind::kString, "null"}.ignored(
              "hone has one attention of its own"),
          Option{"load_in_8bit",
                 "hold the layers' linears in 8 bits a number, as bitsandbytes does; the adapter "
                 "stays float32",
                 Kind::kBool, "false"},
          Option{"load_in_4bit",
                 "hold the layers' linears in 4 bits a number (QLoRA), as bitsandbytes does; the "
                 "adapter stays float32",
                 Kind::kBool, "false"},
          Option{"bnb_4bit_quant_type", "4-bit format", Kind::kChoice, "\"nf4\""}.choice("nf4 fp4"),
          Option{"use_bnb_nested_quant", "quantize the 4-bit scales again: 4.13 bits a number, not 4.5",
                 Kind::kBool, "false"}
              .formerly("bnb_4bit_use_double_quant"),
          Option{"bnb_4bit_quant_storage", "container type of 4-bit weights", Kind::kString, "null"}.ignored(
              "hone holds codes as bytes, and reads files with any container"),
      });
  add(rows, {"model", kMethodConfig, kAll},
      {
          Option{"model_init_kwargs", "keyword arguments of from_pretrained", Kind::kMap, "null"}.refused(
              "not yet; dtype has an option of its own"),
          Option{"trust_remote_code", "run Python code that ships with a model", Kind::kBool, "false"}
              .ignored("hone never runs code from a model's folder"),
          Option{"router_aux_loss_coef", "load-balancing loss of mixture-of-experts models", Kind::kFloat,
                 "null"}
              .of("sft, dpo, grpo, rloo, kto")
              .refused("not yet: no mixture-of-experts models"),
          Option{"chat_template_path", "a .jinja file: the template to use instead of the model's own"}
              .into(&DataPlan::chat_template_path)
              .of("sft, reward"),
          Option{"disable_dropout", "lora_dropout 0"}
              .into(&AdapterPlan::disable_dropout)
              .of("dpo, grpo, rloo, kto, reward, distillation, online-dpo")
              .in("dpo, kto, reward, online-dpo", {.default_text = "true"}),
          Option{"cast_lm_head_to_fp32", "the head's matrix in float32", Kind::kBool, "false"}
              .of("grpo")
              .refused("not yet; with dtype float32 and bf16: false everything is float32"),
      });
  return rows;
}

std::vector<Option> adapter_options() {
  std::vector<Option> rows;
  add(rows, {"adapter", kModelConfig, kAll},
      {
          Option{"use_peft", "train a LoRA adapter; the base stays frozen"}.into(&AdapterPlan::use_peft),
          Option{"lora_r", "rank of the adapter"}
              .into(&AdapterPlan::lora_r)
              .within(at_least(1))
              .formerly("r lora_rank"),
          Option{"lora_alpha", "the adapter's output is scaled by lora_alpha / lora_r"}
              .into(&AdapterPlan::lora_alpha)
              .whole(Kind::kInt)
              .within(above(0)),
          Option{"lora_dropout",
                 "dropout before the adapter; a continued adapter keeps its own unless this is set"}
              .into(&AdapterPlan::lora_dropout)
              .within(fraction()),
          Option{"lora_target_modules",
                 "names to adapt; one value: a regular expression or all-linear; null: PEFT's choice "
                 "for the model"}
              .into(&AdapterPlan::lora_target_modules)
              .formerly("target_modules"),
          Option{"lora_target_parameters", "bare parameters to adapt", Kind::kList, "null"}.refused(
              "not yet: adapters sit on linear layers"),
          Option{"lora_modules_to_save", "modules trained whole beside the adapter", Kind::kList, "null"}
              .refused("not yet: only LoRA tensors are trained")
              .formerly("modules_to_save")
              .in("reward",
                  {.meaning = "modules trained whole: the score head always is, and no other can be",
                   .option_class = OptionClass::kSupported}),
          Option{"lora_task_type", "PEFT task type", Kind::kChoice, "\"CAUSAL_LM\""}
              .choice("CAUSAL_LM", "", "SEQ_CLS TOKEN_CLS SEQ_2_SEQ_LM QUESTION_ANS FEATURE_EXTRACTION",
                      "hone trains causal language models; reward models are not yet there")
              .in("reward",
                  {.meaning = "PEFT task type; SEQ_CLS is written for both, and the score head is trained",
                   .reason = "a reward model is a sequence classifier of one label: SEQ_CLS is written",
                   .values = "CAUSAL_LM SEQ_CLS",
                   .not_yet = "TOKEN_CLS SEQ_2_SEQ_LM QUESTION_ANS FEATURE_EXTRACTION"}),
          Option{"use_rslora", "scale by lora_alpha / sqrt(lora_r)"}.into(&AdapterPlan::use_rslora),
          Option{"use_dora", "weight-decomposed adapters (DoRA): a magnitude of its own for each output"}
              .into(&AdapterPlan::use_dora),
      });
  add(rows, {"adapter", kHone, kAll},
      {
          Option{"init_lora_weights", "how A and B begin, as PEFT's init_lora_weights", Kind::kChoice,
                 "\"true\""}
              .choice("true gaussian false pissa pissa_niter_N", "",
                      "olora loftq eva corda lora_ga orthogonal mica", "not yet"),
          Option{"lora_exclude_modules", "names not to adapt, as PEFT's exclude_modules"}
              .into(&AdapterPlan::lora_exclude_modules)
              .formerly("exclude_modules"),
          Option{"trainable_token_indices",
                 "token ids whose rows of the embedding are trained too (and of a head that is tied "
                 "to it), as PEFT's",
                 Kind::kIds, "null"},
          Option{"adapter_name_or_path", "continue this adapter instead of a new one"}.into(
              &AdapterPlan::adapter_name_or_path),
          Option{"base_adapters",
                 "frozen LoRA adapters below the trained one, as part of the base; the reference has "
                 "them too"}
              .into(&AdapterPlan::base_adapters)
              .formerly("frozen_adapters"),
          Option{"base_model_name_for_adapter",
                 "base_model_name_or_path in adapter_config.json; null: the model's folder"}
              .into(&AdapterPlan::base_model_name_for_adapter),
      });
  return rows;
}

}  // namespace hone::config
