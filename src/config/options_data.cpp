// Rows: the data (TRL's ScriptArguments, DatasetMixtureConfig and the preparation options of its Config
// classes).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr Choices<PackingStrategy, 1> kPackingStrategyWords = {{{"bfd", PackingStrategy::kBfd}}};
constexpr std::string_view kNeverPads = "hone never pads";
}  // namespace

std::vector<Option> data_options() {
  std::vector<Option> rows;
  add(rows, {"data", kScriptArguments, kAll},
      {
          Option{"dataset_name", "a .jsonl file, or a folder that holds train.jsonl (and test.jsonl)"}
              .into(&DataPlan::dataset_name)
              .formerly("dataset dataset_path")
              .in("dpo", {.meaning = "a .jsonl file with chosen, rejected and (or within them) prompt, or a "
                                     "folder of such"})
              .in(kHoneSamplers,
                  {.meaning = "a .jsonl file with a prompt column, or a folder that holds train.jsonl (and "
                              "test.jsonl)"})
              .in("kto",
                  {.meaning =
                       "a .jsonl file with prompt, completion, label, or with chosen and rejected, or a "
                       "folder of such"})
              .in("reward",
                  {.meaning =
                       "a .jsonl file with chosen, rejected and (or within them) prompt, perhaps margin, or "
                       "a folder of such"}),
          Option{"dataset_config", "configuration name on the hub", Kind::kString, "null"}.refused(
              "hone reads local files, which have no configuration name"),
          Option{"dataset_train_split", "in a dataset folder, <split>.jsonl is trained on", Kind::kString,
                 "\"train\""},
          Option{"dataset_test_split", "in a dataset folder, <split>.jsonl is evaluated", Kind::kString,
                 "\"test\""},
          Option{"dataset_streaming", "stream the dataset", Kind::kBool, "false"}.refused(
              "not yet: a streamed dataset is read in another order"),
          Option{"ignore_bias_buffers", "workaround for distributed PyTorch", Kind::kBool, "false"}.ignored(
              "the fault it works around cannot occur here"),
      });
  add(rows, {"data", kHone, kAll},
      {
          Option{"eval_dataset", "the .jsonl file to evaluate; wins over test.jsonl"}.into(
              &DataPlan::dataset_test),
      });
  add(rows, {"data", kDatasetMixture, kAll},
      {
          Option{"datasets", "a mixture of datasets", Kind::kAny, "[]"}.refused(
              "not yet: one dataset; set dataset_name"),
          Option{"streaming", "stream the mixture", Kind::kBool, "false"}.refused("not yet"),
          Option{"test_split_size", "split a test set off the mixture", Kind::kFloat, "null"}.refused(
              "not yet: give the rows to evaluate as eval_dataset"),
      });
  add(rows, {"data", kMethodConfig, "sft"},
      {
          Option{"dataset_text_field", "column that holds plain text"}.into(&DataPlan::dataset_text_field),
          Option{"dataset_kwargs", "skip_prepare_dataset", Kind::kMap, "null"}.refused(
              "not yet: hone always prepares the rows itself"),
          Option{"dataset_num_proc", "processes that prepare the data", Kind::kInt, "null"}
              .of("sft, dpo, kto, reward")
              .ignored("hone prepares rows in its own threads; see threads")
              .in("dpo", {.reason = "preparing pairs takes seconds in one thread"}),
          Option{"eos_token", "end-of-sequence token; null: the tokenizer's"}
              .into(&DataPlan::eos_token)
              .of("sft, reward"),
          Option{"pad_token", "padding token"}
              .into(&RewardModelPlan::pad_token)
              .of("sft, dpo, reward")
              .ignored(kNeverPads)
              .in("reward",
                  {.meaning =
                       "a score is that of the last token that is another one; null: the tokenizer's, or "
                       "its end of sequence",
                   .option_class = OptionClass::kSupported})
              .in("dpo", {.after = "pad_to_multiple_of"}),
          Option{"max_length", "tokens a row is cut to, and a packed row's length; null: no limit"}
              .into(&DataPlan::max_length)
              .of("sft, dpo, kto, reward, online-dpo")
              .null_too()
              .within(at_least(2))
              .in("dpo, kto",
                  {.meaning = "tokens that a prompt with its completion is cut to; null: no limit"})
              .in("reward",
                  {.meaning = "a pair is left out when one of the two has more tokens; null: no limit"})
              .in("online-dpo",
                  {.default_text = "512",
                   .meaning = "tokens of a prompt with its completion in training; a longer prompt loses its "
                              "beginning",
                   .null_too = false,
                   .group = "sampling",
                   .after = "max_new_tokens"}),
          Option{"truncation_mode",
                 "which end of a long sequence is kept (keep_end: the two of a pair share no prompt)"}
              .into(&PreferencePlan::truncation_mode)
              .of("sft, dpo")
              .choice("keep_start keep_end")
              .in("sft", {.meaning = "which end of a long row is kept",
                          .reason = "keep_end is deprecated in TRL",
                          .values = "keep_start",
                          .not_yet = "keep_end"}),
          Option{"shuffle_dataset", "shuffle the rows once, before packing"}
              .into(&DataPlan::shuffle_dataset)
              .of("sft, grpo, rloo")
              .in(kPolicies, {.default_text = "true",
                              .meaning = "draw the prompts in random order",
                              .group = "sampling",
                              .after = "num_iterations"}),
          Option{"packing", "fill rows of max_length tokens with several examples"}.into(&DataPlan::packing),
          Option{"packing_strategy", "how examples are packed"}
              .into(&DataPlan::packing_strategy, kPackingStrategyWords)
              .refusing("bfd_split wrapped bfd-requeue",
                        "not yet; bfd cuts long examples and never joins two"),
          Option{"eval_packing", "pack the evaluation rows; null: as packing"}.into(&DataPlan::eval_packing),
          Option{"padding_free", "join the rows of a batch without padding", Kind::kBool, "false"}
              .of("sft, dpo")
              .ignored("always: hone never pads"),
          Option{"pad_to_multiple_of", "pad rows to a multiple", Kind::kAny, "\"auto\""}
              .of("sft, dpo, grpo, rloo, kto, reward")
              .ignored(kNeverPads)
              .null_too()
              .in(kPolicies, {.group = "sampling", .after = "cache_implementation"}),
          Option{"completion_only_loss",
                 "train on completions only; null: exactly for prompt-completion data"}
              .into(&DataPlan::completion_only_loss),
          Option{"assistant_only_loss", "train on the assistant's turns only"}.into(
              &DataPlan::assistant_only_loss),
          Option{"loss_type", "the loss", Kind::kChoice, "\"nll\""}.choice("nll", "chunked_nll", "dft",
                                                                           "not yet"),
          Option{"activation_offloading", "keep activations outside the GPU", Kind::kBool, "false"}
              .of("sft, dpo, kto, reward")
              .ignored("activations already live in the machine's memory"),
      });
  return rows;
}

}  // namespace hone::config
