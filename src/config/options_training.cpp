// Rows: how long, how fast and with what arithmetic (transformers.TrainingArguments, TRL's defaults).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr Choices<Scheduler, 4> kSchedulerWords = {{{"linear", Scheduler::kLinear},
                                                  {"cosine", Scheduler::kCosine},
                                                  {"constant", Scheduler::kConstant},
                                                  {"constant_with_warmup", Scheduler::kConstantWithWarmup}}};
constexpr Choices<bool, 2> kShuffleWords = {{{"random", true}, {"sequential", false}}};
constexpr std::string_view kRecompute =
    "gradient_checkpointing and recompute decide; the results do not depend on it";
constexpr std::string_view kCompiled = "hone is compiled already";
constexpr std::string_view kOwnKernels = "hone has its own kernels";
}  // namespace

std::vector<Option> training_options() {
  std::vector<Option> rows;
  add(rows, {"training", kTrainingArguments, kAll},
      {
          Option{"output_dir", "the run's folder; null: trainer_output"}.into(&SavingPlan::output_dir),
          Option{"per_device_train_batch_size", "rows of a micro-batch"}
              .into(&BatchPlan::per_device_train_batch_size)
              .within(at_least(1))
              .formerly("per_gpu_train_batch_size train_batch_size batch_size")
              .in("dpo, reward", {.meaning = "pairs of a micro-batch"})
              .in(kPolicies, {.meaning = "completions of a micro-batch"})
              .in("kto", {.meaning = "rows of a micro-batch; loss_type kto pairs each prompt with its "
                                     "neighbor's completion"})
              .in("online-dpo", {.meaning = "prompts of a micro-batch"}),
          Option{"gradient_accumulation_steps", "micro-batches of an optimizer step"}
              .into(&BatchPlan::gradient_accumulation_steps)
              .within(at_least(1)),
          Option{"num_train_epochs", "times through the data"}
              .into(&BatchPlan::num_train_epochs)
              .within({.least = 0, .most = 1e9, .least_open = true})
              .formerly("epochs num_epochs"),
          Option{"max_steps", "optimizer steps; above 0 it wins over num_train_epochs"}
              .into(&BatchPlan::max_steps)
              .within(at_least(-1)),
          Option{"seed", "seed of every random choice"}.into(&BatchPlan::seed),
          Option{"data_seed", "seed of the data's order; null: seed"}
              .into(&BatchPlan::data_seed)
              .in(kPolicies, {.option_class = OptionClass::kIgnored,
                              .reason = "shuffle_dataset and seed decide the prompts' order, as in TRL"}),
          Option{"train_sampling_strategy", "order of the rows"}
              .into(&BatchPlan::shuffle_rows, kShuffleWords)
              .refusing("group_by_length batch_rebalance", "not yet")
              .in(kPolicies, {.option_class = OptionClass::kIgnored,
                              .reason = "shuffle_dataset and seed decide the prompts' order, as in TRL"})
              .in("kto", {.default_text = "\"sequential\"",
                          .meaning = "order of the rows; loss_type kto needs sequential"}),
          Option{"length_column_name", "column of row lengths", Kind::kString, "\"length\""}.ignored(
              "only read by group_by_length, which hone does not have yet"),
          Option{"dataloader_drop_last", "leave out an incomplete last batch"}
              .into(&BatchPlan::dataloader_drop_last)
              .in(kPolicies, {.option_class = OptionClass::kIgnored,
                              .reason = "always: prompts that do not fill a generation batch are left out"}),
          Option{"bf16", "bfloat16 matrix products; null: true", Kind::kBool, "null"},
          Option{"fp16", "float16 mixed precision", Kind::kBool, "false"}.refused(
              "NUM-03: float16 overflows in training and needs loss scaling; use bf16"),
          Option{"tf32", "TF32 matrix products", Kind::kBool, "null"}.ignored(
              "precision is set by dtype and bf16 alone; hone never uses TF32"),
          Option{"bf16_full_eval", "evaluate in bfloat16", Kind::kBool, "false"}.refused(
              "evaluation uses the precision of training; set dtype: bfloat16 for both"),
          Option{"fp16_full_eval", "evaluate in float16", Kind::kBool, "false"}.refused(
              "NUM-03: evaluation uses the precision of training"),
          Option{"average_tokens_across_devices", "count tokens over all devices", Kind::kBool, "true"}
              .ignored("always: the loss is a mean over the step's tokens")
              .in("dpo, grpo, rloo, kto, reward, online-dpo", {.reason = kOneProcess}),
          Option{"label_smoothing_factor", "label smoothing", Kind::kFloat, "0.0"}.refused("not yet"),
          Option{"neftune_noise_alpha", "noise on the embeddings", Kind::kFloat, "null"}.refused("not yet"),
          Option{"activation_checkpointing", "recompute activations in the backward", Kind::kBool, "null"}
              .ignored(kRecompute),
          Option{"activation_checkpointing_kwargs", "how to recompute", Kind::kMap, "null"}.ignored(
              kRecompute),
          Option{"gradient_checkpointing",
                 "recompute in the backward what does not fit in memory; false: recompute none", Kind::kBool,
                 "true"}
              .null_too(),
          Option{"gradient_checkpointing_kwargs", "how to recompute", Kind::kMap, "null"}.ignored(kRecompute),
          Option{"torch_compile", "compile the model", Kind::kBool, "false"}.ignored(kCompiled),
          Option{"torch_compile_backend", "compiler", Kind::kString, "null"}.ignored(kCompiled),
          Option{"torch_compile_mode", "compiler mode", Kind::kString, "null"}.ignored(kCompiled),
          Option{"use_liger_kernel", "Liger's fused kernels", Kind::kBool, "false"}
              .ignored(kOwnKernels)
              .formerly("use_liger"),
          Option{"liger_kernel_config", "which Liger kernels", Kind::kMap, "null"}.ignored(kOwnKernels),
          Option{"use_cache", "key-value cache in training", Kind::kBool, "false"}.ignored(
              "training never keeps a key-value cache"),
          Option{"auto_find_batch_size", "halve the batch when memory is short", Kind::kBool, "false"}
              .ignored("hone keeps the batch size that you set"),
          Option{"full_determinism", "deterministic kernels", Kind::kBool, "false"}.ignored(
              "always: the same machine, threads and seed give the same bits"),
          Option{"resume_from_checkpoint", "a checkpoint folder, or true: the newest in output_dir"}.into(
              &SavingPlan::resume_from_checkpoint),
          Option{"ignore_data_skip", "begin the data again after a resume", Kind::kBool, "false"}.refused(
              "hone resumes at the next row, so that the end is bit-equal to an uninterrupted run"),
          Option{"restore_callback_states_from_checkpoint", "callbacks", Kind::kBool, "false"}.ignored(
              "hone has no callbacks"),
          Option{"do_train", "for scripts", Kind::kBool, "false"}.ignored("hone always trains"),
          Option{"do_eval", "for scripts", Kind::kBool, "false"}.ignored(
              "eval_strategy says whether to evaluate"),
          Option{"do_predict", "for scripts", Kind::kBool, "false"}.ignored(
              "hone generate writes completions"),
      });
  return rows;
}

std::vector<Option> optimizer_options() {
  std::vector<Option> rows;
  add(rows, {"optimizer", kTrainingArguments, kAll},
      {
          Option{"learning_rate", "peak learning rate"}
              .into(&OptimizerPlan::learning_rate)
              .within(at_least(0))
              .formerly("lr")
              .in("dpo, grpo, rloo, kto", {.default_text = "1e-6"})
              .in("reward", {.default_text = "1e-4"})
              .in("online-dpo", {.default_text = "5e-7"}),
          Option{"lr_scheduler_type", "learning-rate schedule"}
              .into(&OptimizerPlan::lr_scheduler_type, kSchedulerWords)
              .refusing("cosine_with_restarts polynomial inverse_sqrt reduce_lr_on_plateau "
                        "cosine_with_min_lr cosine_warmup_with_min_lr warmup_stable_decay greedy",
                        "not yet"),
          Option{"lr_scheduler_kwargs", "num_cycles for cosine: 0.5 ends at 0", Kind::kMap, "null"},
          Option{"warmup_steps", "steps from 0 to the peak; below 1: a share of all steps"}
              .into(&OptimizerPlan::warmup_steps)
              .whole()
              .within(count_from_zero()),
          Option{"optim", "the optimizer", Kind::kChoice, "\"adamw_torch_fused\""}
              .choice("adamw_torch_fused", "adamw_torch",
                      "adamw_torch_xla adamw_torch_npu_fused adafactor adamw_anyprecision adamw_torch_4bit "
                      "adamw_torch_8bit ademamix sgd adagrad adamw_bnb_8bit adamw_8bit ademamix_8bit "
                      "lion_8bit lion_32bit paged_adamw_32bit paged_adamw_8bit paged_ademamix_32bit "
                      "paged_ademamix_8bit paged_lion_32bit paged_lion_8bit rmsprop rmsprop_bnb "
                      "rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw galore_adamw_8bit galore_adafactor "
                      "galore_adamw_layerwise galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo "
                      "adalomo grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd "
                      "apollo_adamw apollo_adamw_layerwise stable_adamw",
                      "hone has AdamW alone")
              .formerly("optimizer"),
          Option{"optim_args", "extra arguments of other optimizers", Kind::kString, "null"}.refused(
              "AdamW takes none"),
          Option{"optim_target_modules", "modules for GaLore and APOLLO", Kind::kAny, "null"}.refused(
              "not yet: hone has AdamW alone"),
          Option{"weight_decay", "decoupled weight decay"}
              .into(&OptimizerPlan::weight_decay)
              .within(at_least(0)),
          Option{"adam_beta1", "decay of the first moment"}
              .into(&OptimizerPlan::adam_beta1)
              .within(fraction()),
          Option{"adam_beta2", "decay of the second moment"}
              .into(&OptimizerPlan::adam_beta2)
              .within(fraction()),
          Option{"adam_epsilon", "added to the square root of the second moment"}
              .into(&OptimizerPlan::adam_epsilon)
              .within(at_least(0)),
          Option{"max_grad_norm", "clip the gradient's length; 0: no clipping"}
              .into(&OptimizerPlan::max_grad_norm)
              .within(at_least(0)),
      });
  return rows;
}

}  // namespace hone::config
