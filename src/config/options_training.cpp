// Rows: how long, how fast and with what arithmetic (transformers.TrainingArguments, TRL's defaults).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kRecompute =
    "gradient_checkpointing and recompute decide; the results do not depend on it";
constexpr std::string_view kCompiled = "hone is compiled already";

std::vector<Option> grouped(std::vector<Option> rows, std::string_view group) {
  for (Option& row : rows) row = row.from(Origin::kTrainingArguments).under(group);
  return rows;
}
}  // namespace

std::vector<Option> training_options() {
  std::vector<Option> rows = grouped(
      {
          {"output_dir", Kind::kString, "null", "the run's folder; null: trainer_output"},
          Option{"per_device_train_batch_size", Kind::kInt, "8", "rows of a micro-batch"}.within(at_least(1)),
          Option{"gradient_accumulation_steps", Kind::kInt, "1", "micro-batches of an optimizer step"}.within(
              at_least(1)),
          Option{"num_train_epochs", Kind::kFloat, "3.0", "times through the data"}.within(
              {.least = 0, .most = kMostSteps, .least_open = true}),
          Option{"max_steps", Kind::kInt, "-1", "optimizer steps; above 0 it wins over num_train_epochs"}
              .within(at_least(-1)),
          {"seed", Kind::kInt, "42", "seed of every random choice"},
          {"data_seed", Kind::kInt, "null", "seed of the data's order; null: seed"},
          Option{"train_sampling_strategy", Kind::kChoice, "\"random\"", "order of the rows"}.choice(
              "random sequential", "", "group_by_length batch_rebalance", "not yet"),
          Option{"length_column_name", Kind::kString, "\"length\"", "column of row lengths"}.answered(
              "only read by group_by_length, which hone does not have yet"),
          {"dataloader_drop_last", Kind::kBool, "false", "leave out an incomplete last batch"},
          {"bf16", Kind::kBool, "null", "bfloat16 matrix products; null: true"},
          Option{"fp16", Kind::kBool, "false", "float16 mixed precision"}.refused(
              "NUM-03: float16 overflows in training and needs loss scaling; use bf16"),
          Option{"tf32", Kind::kBool, "null", "TF32 matrix products"}.answered(
              "precision is set by dtype and bf16 alone; hone never uses TF32"),
          Option{"bf16_full_eval", Kind::kBool, "false", "evaluate in bfloat16"}.refused(
              "evaluation uses the precision of training; set dtype: bfloat16 for both"),
          Option{"fp16_full_eval", Kind::kBool, "false", "evaluate in float16"}.refused(
              "NUM-03: evaluation uses the precision of training"),
          Option{"average_tokens_across_devices", Kind::kBool, "true", "count tokens over all devices"}
              .answered("always: the loss is a mean over the step's tokens"),
          Option{"label_smoothing_factor", Kind::kFloat, "0.0", "label smoothing"}.refused("not yet"),
          Option{"neftune_noise_alpha", Kind::kFloat, "null", "noise on the embeddings"}.refused("not yet"),
          Option{"activation_checkpointing", Kind::kBool, "null", "recompute activations in the backward"}
              .answered(kRecompute),
          Option{"activation_checkpointing_kwargs", Kind::kMap, "null", "how to recompute"}.answered(
              kRecompute),
          Option{"gradient_checkpointing", Kind::kBool, "true",
                 "recompute in the backward what does not fit in memory; false: recompute none"}
              .null_too(),
          Option{"gradient_checkpointing_kwargs", Kind::kMap, "null", "how to recompute"}.answered(
              kRecompute),
          Option{"torch_compile", Kind::kBool, "false", "compile the model"}.answered(kCompiled),
          Option{"torch_compile_backend", Kind::kString, "null", "compiler"}.answered(kCompiled),
          Option{"torch_compile_mode", Kind::kString, "null", "compiler mode"}.answered(kCompiled),
          Option{"use_liger_kernel", Kind::kBool, "false", "Liger's fused kernels"}.answered(
              "hone has its own kernels"),
          Option{"liger_kernel_config", Kind::kMap, "null", "which Liger kernels"}.answered(
              "hone has its own kernels"),
          Option{"use_cache", Kind::kBool, "false", "key-value cache in training"}.answered(
              "training never keeps a key-value cache"),
          Option{"auto_find_batch_size", Kind::kBool, "false", "halve the batch when memory is short"}
              .answered("hone keeps the batch size that you set"),
          Option{"full_determinism", Kind::kBool, "false", "deterministic kernels"}.answered(
              "always: the same machine, threads and seed give the same bits"),
          {"resume_from_checkpoint", Kind::kString, "null",
           "a checkpoint folder, or true: the newest in output_dir"},
          Option{"ignore_data_skip", Kind::kBool, "false", "begin the data again after a resume"}.refused(
              "hone resumes at the next row, so that the end is bit-equal to an uninterrupted run"),
          Option{"restore_callback_states_from_checkpoint", Kind::kBool, "false", "callbacks"}.answered(
              "hone has no callbacks"),
          Option{"do_train", Kind::kBool, "false", "for scripts"}.answered("hone always trains"),
          Option{"do_eval", Kind::kBool, "false", "for scripts"}.answered(
              "eval_strategy says whether to evaluate"),
          Option{"do_predict", Kind::kBool, "false", "for scripts"}.answered(
              "hone generate writes completions"),
      },
      "training");
  return rows;
}

std::vector<Option> optimizer_options() {
  return grouped(
      {
          Option{"learning_rate", Kind::kFloat, "2e-5", "peak learning rate"}.within(at_least(0)),
          Option{"lr_scheduler_type", Kind::kChoice, "\"linear\"", "learning-rate schedule"}.choice(
              "linear cosine constant constant_with_warmup", "",
              "cosine_with_restarts polynomial inverse_sqrt reduce_lr_on_plateau cosine_with_min_lr "
              "cosine_warmup_with_min_lr warmup_stable_decay greedy",
              "not yet"),
          {"lr_scheduler_kwargs", Kind::kMap, "null", "num_cycles for cosine: 0.5 ends at 0"},
          Option{"warmup_steps", Kind::kFloat, "0", "steps from 0 to the peak; below 1: a share of all steps"}
              .within(count_from_zero()),
          Option{"optim", Kind::kChoice, "\"adamw_torch_fused\"", "the optimizer"}.choice(
              "adamw_torch_fused", "adamw_torch",
              "adamw_torch_xla adamw_torch_npu_fused adafactor adamw_anyprecision adamw_torch_4bit "
              "adamw_torch_8bit "
              "ademamix sgd adagrad adamw_bnb_8bit adamw_8bit ademamix_8bit lion_8bit lion_32bit "
              "paged_adamw_32bit "
              "paged_adamw_8bit paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit paged_lion_8bit "
              "rmsprop "
              "rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw galore_adamw_8bit "
              "galore_adafactor "
              "galore_adamw_layerwise galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo adalomo "
              "grokadamw "
              "schedule_free_radam schedule_free_adamw schedule_free_sgd apollo_adamw apollo_adamw_layerwise "
              "stable_adamw",
              "hone has AdamW alone"),
          Option{"optim_args", Kind::kString, "null", "extra arguments of other optimizers"}.refused(
              "AdamW takes none"),
          Option{"optim_target_modules", Kind::kAny, "null", "modules for GaLore and APOLLO"}.refused(
              "not yet: hone has AdamW alone"),
          Option{"weight_decay", Kind::kFloat, "0.0", "decoupled weight decay"}.within(at_least(0)),
          Option{"adam_beta1", Kind::kFloat, "0.9", "decay of the first moment"}.within(share()),
          Option{"adam_beta2", Kind::kFloat, "0.999", "decay of the second moment"}.within(share()),
          Option{"adam_epsilon", Kind::kFloat, "1e-8", "added to the square root of the second moment"}
              .within(at_least(0)),
          Option{"max_grad_norm", Kind::kFloat, "1.0", "clip the gradient's length; 0: no clipping"}.within(
              at_least(0)),
      },
      "optimizer");
}

}  // namespace hone::config
