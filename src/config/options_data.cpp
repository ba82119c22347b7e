// Rows: the data (TRL's ScriptArguments, DatasetMixtureConfig and SFTConfig's preparation options).
#include "config/option_table.h"

namespace hone::config {

std::vector<Option> data_options() {
  std::vector<Option> rows;
  const auto add = [&rows](Origin origin, std::string_view methods, const std::vector<Option>& more) {
    for (const Option& row : more) rows.push_back(row.from(origin).only(methods).under("data"));
  };
  add(Origin::kScriptArguments, "all",
      {
          {"dataset_name", Kind::kString, "null",
           "a .jsonl file, or a folder that holds train.jsonl (and test.jsonl)"},
          Option{"dataset_config", Kind::kString, "null", "configuration name on the hub"}.refused(
              "hone reads local files, which have no configuration name"),
          {"dataset_train_split", Kind::kString, "\"train\"",
           "in a dataset folder, <split>.jsonl is trained on"},
          {"dataset_test_split", Kind::kString, "\"test\"",
           "in a dataset folder, <split>.jsonl is evaluated"},
          Option{"dataset_streaming", Kind::kBool, "false", "stream the dataset"}.refused(
              "not yet: a streamed dataset is read in another order"),
          Option{"ignore_bias_buffers", Kind::kBool, "false", "workaround for distributed PyTorch"}.answered(
              "the fault it works around cannot occur here"),
      });
  add(Origin::kHone, "all",
      {{"eval_dataset", Kind::kString, "null", "the .jsonl file to evaluate; wins over test.jsonl"}});
  add(Origin::kDatasetMixture, "all",
      {
          Option{"datasets", Kind::kAny, "[]", "a mixture of datasets"}.refused(
              "not yet: one dataset; set dataset_name"),
          Option{"streaming", Kind::kBool, "false", "stream the mixture"}.refused("not yet"),
          Option{"test_split_size", Kind::kFloat, "null", "split a test set off the mixture"}.refused(
              "not yet: give the rows to evaluate as eval_dataset"),
      });
  add(Origin::kSftConfig, "sft",
      {
          {"dataset_text_field", Kind::kString, "\"text\"", "column that holds plain text"},
          Option{"dataset_kwargs", Kind::kMap, "null", "skip_prepare_dataset"}.refused(
              "not yet: hone always prepares the rows itself"),
          Option{"dataset_num_proc", Kind::kInt, "null", "processes that prepare the data"}.answered(
              "hone prepares rows in its own threads; see threads"),
          {"eos_token", Kind::kString, "null", "end-of-sequence token; null: the tokenizer's"},
          Option{"pad_token", Kind::kString, "null", "padding token"}.answered("hone never pads"),
          Option{"max_length", Kind::kInt, "1024",
                 "tokens a row is cut to, and a packed row's length; null: no limit"}
              .null_too()
              .within(at_least(2)),
          Option{"truncation_mode", Kind::kChoice, "\"keep_start\"", "which end of a long row is kept"}
              .choice("keep_start", "", "keep_end", "keep_end is deprecated in TRL"),
          {"shuffle_dataset", Kind::kBool, "false", "shuffle the rows once, before packing"},
          {"packing", Kind::kBool, "false", "fill rows of max_length tokens with several examples"},
          Option{"packing_strategy", Kind::kChoice, "\"bfd\"", "how examples are packed"}.choice(
              "bfd", "", "bfd_split wrapped bfd-requeue",
              "not yet; bfd cuts long examples and never joins two"),
          {"eval_packing", Kind::kBool, "null", "pack the evaluation rows; null: as packing"},
          Option{"padding_free", Kind::kBool, "false", "join the rows of a batch without padding"}.answered(
              "always: hone never pads"),
          Option{"pad_to_multiple_of", Kind::kAny, "\"auto\"", "pad rows to a multiple"}.null_too().answered(
              "hone never pads"),
          {"completion_only_loss", Kind::kBool, "null",
           "train on completions only; null: exactly for prompt-completion data"},
          {"assistant_only_loss", Kind::kBool, "false", "train on the assistant's turns only"},
          Option{"loss_type", Kind::kChoice, "\"nll\"", "the loss"}.choice("nll", "", "dft", "not yet"),
          Option{"activation_offloading", Kind::kBool, "false", "keep activations outside the GPU"}.answered(
              "activations already live in the machine's memory"),
      });
  for (Option& row : rows) {
    if (row.name == "loss_type") row.same_values = "chunked_nll";
  }
  return rows;
}

}  // namespace hone::config
