// Rows: how long, how fast and with what arithmetic (transformers.TrainingArguments, TRL's defaults).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr Choices<Scheduler, 12> kSchedulerWords = {
    {{"linear", Scheduler::kLinear},
     {"cosine", Scheduler::kCosine},
     {"cosine_with_restarts", Scheduler::kCosineWithRestarts},
     {"polynomial", Scheduler::kPolynomial},
     {"constant", Scheduler::kConstant},
     {"constant_with_warmup", Scheduler::kConstantWithWarmup},
     {"inverse_sqrt", Scheduler::kInverseSqrt},
     {"reduce_lr_on_plateau", Scheduler::kReduceLrOnPlateau},
     {"cosine_with_min_lr", Scheduler::kCosineWithMinLr},
     {"cosine_warmup_with_min_lr", Scheduler::kCosineWarmupWithMinLr},
     {"warmup_stable_decay", Scheduler::kWarmupStableDecay},
     {"greedy", Scheduler::kGreedy}}};
constexpr Change kNoLengths = {
    .meaning = "order of the rows",
    .reason =
        "transformers groups rows by their input_ids, which this method's rows do not have; "
        "batch_rebalance is for several processes",
    .values = "random sequential",
    .not_yet = "group_by_length batch_rebalance"};
using learn::OptimizerKind;
constexpr Choices<OptimizerKind, 14> kOptimizerWords = {{{"adamw_torch_fused", OptimizerKind::kAdamW},
                                                         {"adamw_torch", OptimizerKind::kAdamW},
                                                         {"adamw_bnb_8bit", OptimizerKind::kAdamW8bit},
                                                         {"adamw_8bit", OptimizerKind::kAdamW8bit},
                                                         {"paged_adamw_32bit", OptimizerKind::kAdamW},
                                                         {"paged_adamw_8bit", OptimizerKind::kAdamW8bit},
                                                         {"adafactor", OptimizerKind::kAdafactor},
                                                         {"rmsprop", OptimizerKind::kRmsprop},
                                                         {"sgd", OptimizerKind::kSgd},
                                                         {"adagrad", OptimizerKind::kAdagrad},
                                                         {"lion_32bit", OptimizerKind::kLion},
                                                         {"lion_8bit", OptimizerKind::kLion8bit},
                                                         {"paged_lion_32bit", OptimizerKind::kLion},
                                                         {"paged_lion_8bit", OptimizerKind::kLion8bit}}};
constexpr std::string_view kOtherOptimizers =
    "adamw_torch_xla adamw_torch_npu_fused adamw_anyprecision adamw_torch_4bit adamw_torch_8bit ademamix "
    "ademamix_8bit paged_ademamix_32bit paged_ademamix_8bit rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit "
    "galore_adamw galore_adamw_8bit galore_adafactor galore_adamw_layerwise galore_adamw_8bit_layerwise "
    "galore_adafactor_layerwise lomo adalomo grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd "
    "apollo_adamw apollo_adamw_layerwise stable_adamw";
constexpr Choices<RowOrder, 3> kOrderWords = {{{"random", RowOrder::kRandom},
                                               {"sequential", RowOrder::kSequential},
                                               {"group_by_length", RowOrder::kByLength}}};
constexpr std::string_view kRecompute =
    "gradient_checkpointing and recompute decide; the results do not depend on it";
constexpr std::string_view kOtherThanSft = "dpo, grpo, rloo, kto, reward, cpo, orpo, online-dpo, distill";
constexpr std::string_view kEvalPrecision =
    "as in transformers, an evaluation during training has the precision of training";
constexpr std::string_view kCompiled = "hone is compiled already";
constexpr std::string_view kOwnKernels = "hone has its own kernels";

// Precision, recomputation, kernels, and the rest that concerns a whole run.
void add_arithmetic(std::vector<Option>& rows) {
  add(rows, {"training", kTrainingArguments, kAll},
      {{"bf16", "bfloat16 matrix products; null: true", Kind::kBool, "null"},
       {"fp16", "float16 mixed precision", Kind::kBool, "false",
        refused("NUM-03: float16 overflows in training and needs loss scaling; use bf16")},
       {"tf32", "TF32 matrix products", Kind::kBool, "null",
        ignored("precision is set only by dtype and bf16; hone never uses TF32")},
       {"bf16_full_eval", "evaluate in bfloat16", Kind::kBool, "false", ignored(kEvalPrecision)},
       {"fp16_full_eval", "evaluate in float16", Kind::kBool, "false", ignored(kEvalPrecision)},
       {"average_tokens_across_devices", "count tokens over all devices", Kind::kBool, "true",
        ignored("always: the loss is a mean over the step's tokens"),
        in("dpo, grpo, rloo, kto, reward, cpo, orpo, online-dpo",
           {.reason = "always: sums are over all ranks"})},
       {"label_smoothing_factor", "loss_type nll: weight of the mean over the whole vocabulary",
        &SftPlan::label_smoothing_factor, fraction(), with("loss_type", "nll chunked_nll"),
        in(kOtherThanSft, {.meaning = "label smoothing of a language model's loss",
                           .option_class = OptionClass::kIgnored,
                           .reason = "TRL's losses of this method do not read it"})},
       {"neftune_noise_alpha",
        "NEFTune: noise on the embeddings of at most neftune_noise_alpha / sqrt(length * hidden size)",
        &SftPlan::neftune_noise_alpha, "null", at_least(0),
        in(kOtherThanSft,
           {.meaning = "noise on the embeddings",
            .option_class = OptionClass::kRefused,
            .reason = "NEFTune is a method of supervised fine-tuning; here the noise would also be in the "
                      "difference from the reference or the sampler"})},
       {"activation_checkpointing", "recompute activations in the backward", Kind::kBool, "null",
        ignored(kRecompute)},
       {"activation_checkpointing_kwargs", "how to recompute", Kind::kMap, "null", ignored(kRecompute)},
       {"gradient_checkpointing",
        "recompute in the backward what does not fit in memory; false: recompute none", Kind::kBool, "true",
        kNullToo},
       {"gradient_checkpointing_kwargs", "how to recompute", Kind::kMap, "null", ignored(kRecompute)},
       {"torch_compile", "compile the model", Kind::kBool, "false", ignored(kCompiled)},
       {"torch_compile_backend", "compiler", ignored(kCompiled)},
       {"torch_compile_mode", "compiler mode", ignored(kCompiled)},
       {"use_liger_kernel", "Liger's fused kernels", Kind::kBool, "false", ignored(kOwnKernels),
        formerly("use_liger")},
       {"liger_kernel_config", "which Liger kernels", Kind::kMap, "null", ignored(kOwnKernels)},
       {"use_cache", "key-value cache in training", Kind::kBool, "false",
        ignored("training never keeps a key-value cache")},
       {"auto_find_batch_size", "halve the batch when memory is short", Kind::kBool, "false",
        ignored("hone keeps the batch size that you set")},
       {"full_determinism", "deterministic kernels", Kind::kBool, "false",
        ignored("always: the same machine, threads and seed give the same bits")},
       {"resume_from_checkpoint", "a checkpoint folder, or true: the newest in output_dir",
        &SavingPlan::resume_from_checkpoint},
       {"ignore_data_skip",
        "of streamed rows: a resumed run begins at the first row again, not at the row after its last",
        &DataPlan::ignore_data_skip, with("dataset_streaming")},
       {"restore_callback_states_from_checkpoint", "callbacks", Kind::kBool, "false",
        ignored("hone has no callbacks")},
       {"do_train", "for scripts", Kind::kBool, "false", ignored("hone always trains")},
       {"do_eval", "for scripts", Kind::kBool, "false", ignored("eval_strategy says whether to evaluate")},
       {"do_predict", "for scripts", Kind::kBool, "false", ignored("hone generate writes completions")}});
}
}  // namespace

std::vector<Option> training_options() {
  std::vector<Option> rows;
  add(rows, {"training", kTrainingArguments, kAll},
      {{"output_dir", "the run's folder; null: trainer_output", &SavingPlan::output_dir},
       {"per_device_train_batch_size", "rows of a micro-batch", &BatchPlan::per_device_train_batch_size,
        at_least(1), formerly("per_gpu_train_batch_size"),
        in("dpo, reward, cpo, orpo", {.meaning = "pairs of a micro-batch"}),
        in(kPolicies, {.meaning = "completions of a micro-batch"}),
        in("kto",
           {.meaning =
                "rows of a micro-batch; loss_type kto pairs each prompt with its neighbor's completion"}),
        in("online-dpo, distill", {.meaning = "prompts of a micro-batch"})},
       {"gradient_accumulation_steps", "micro-batches of an optimizer step",
        &BatchPlan::gradient_accumulation_steps, at_least(1)},
       {"num_train_epochs", "passes over the data", &BatchPlan::num_train_epochs,
        Range{.least = 0, .most = 1e9, .least_open = true}, formerly("epochs num_epochs")},
       {"max_steps", "optimizer steps; above 0 it overrides num_train_epochs", &BatchPlan::max_steps,
        at_least(-1)},
       {"seed", "seed of every random choice", &BatchPlan::seed},
       {"data_seed", "seed of the data's order; null: seed", &BatchPlan::data_seed,
        in(kPoliciesAndDistillation,
           {.option_class = OptionClass::kIgnored,
            .reason = "shuffle_dataset and seed decide the prompts' order, as in TRL"})},
       {"train_sampling_strategy", "order of the rows; group_by_length: rows of similar length together",
        into(&BatchPlan::train_sampling_strategy, kOrderWords),
        refusing("batch_rebalance", "it balances the work of several processes, and hone is one"),
        in(kPoliciesAndDistillation,
           {.option_class = OptionClass::kIgnored,
            .reason = "shuffle_dataset and seed decide the prompts' order, as in TRL"}),
        in("dpo, reward, cpo, orpo, online-dpo", kNoLengths),
        in("kto", {.default_text = "\"sequential\"",
                   .meaning = "order of the rows; loss_type kto needs sequential",
                   .reason = kNoLengths.reason,
                   .values = kNoLengths.values,
                   .not_yet = kNoLengths.not_yet})},
       {"length_column_name", "column of row lengths", Kind::kString, "\"length\"",
        ignored("hone counts the tokens of a row itself")},
       {"dataloader_drop_last", "leave out an incomplete last batch", &BatchPlan::dataloader_drop_last,
        in(kPoliciesAndDistillation,
           {.option_class = OptionClass::kIgnored,
            .reason = "always: prompts that do not fill a generation batch are left out"})}});
  add_arithmetic(rows);
  return rows;
}

std::vector<Option> optimizer_options() {
  std::vector<Option> rows;
  add(rows, {"optimizer", kTrainingArguments, kAll},
      {{"learning_rate", "peak learning rate", &OptimizerPlan::learning_rate, at_least(0), formerly("lr"),
        in("dpo, grpo, rloo, kto, cpo, orpo, distill", {.default_text = "1e-6"}),
        in("reward", {.default_text = "1e-4"}), in("online-dpo", {.default_text = "5e-7"})},
       {"lr_scheduler_type", "learning-rate schedule",
        into(&OptimizerPlan::lr_scheduler_type, kSchedulerWords)},
       {"lr_scheduler_kwargs", "arguments of the schedule, such as {min_lr_rate: 0.1}", Kind::kMap, "null"},
       {"warmup_steps", "steps from 0 to the peak; below 1: a fraction of all steps",
        &OptimizerPlan::warmup_steps, kWhole, count_from_zero()},
       {"optim", "the optimizer", into(&OptimizerPlan::optim, kOptimizerWords), same_as_first("adamw_torch"),
        refusing(
            kOtherOptimizers,
            "it needs a package, a device or a form of training that hone does not have; for AdamW's variants "
            "there is adamw_torch, for other 4-bit and 8-bit states adamw_bnb_8bit, for rmsprop_bnb rmsprop"),
        formerly("optimizer")},
       {"optim_args", "key=value pairs of sgd, rmsprop or adagrad: \"momentum=0.9,nesterov=True\""},
       {"optim_target_modules", "modules for GaLore and APOLLO", Kind::kAny, "null",
        ignored("read only by GaLore and APOLLO, which optim does not have")},
       {"weight_decay", "decoupled weight decay", &OptimizerPlan::weight_decay, at_least(0)},
       {"adam_beta1", "decay of the first moment", &OptimizerPlan::adam_beta1, fraction()},
       {"adam_beta2", "decay of the second moment", &OptimizerPlan::adam_beta2, fraction()},
       {"adam_epsilon", "added to the square root of the second moment", &OptimizerPlan::adam_epsilon,
        at_least(0)},
       {"max_grad_norm", "clip the gradient to this norm; 0: no clipping", &OptimizerPlan::max_grad_norm,
        at_least(0)}});
  return rows;
}

}  // namespace hone::config
