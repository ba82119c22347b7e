// Rows: the data (TRL's ScriptArguments, DatasetMixtureConfig and the preparation options of its Config
// classes).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr Choices<PackingStrategy, 5> kPackingStrategyWords = {{{"bfd", PackingStrategy::kBfd},
                                                                {"bfd_split", PackingStrategy::kBfdSplit},
                                                                {"wrapped", PackingStrategy::kWrapped},
                                                                {"bfd-requeue", PackingStrategy::kBfdSplit},
                                                                {"ffd", PackingStrategy::kBfd}}};
constexpr std::string_view kNeverPads = "hone never pads";

// Columns, tokens and the length of a row.
void add_rows(std::vector<Option>& rows) {
  add(rows, {"data", kMethodConfig, "sft"},
      {{"dataset_text_field", "column that holds plain text", &DataPlan::dataset_text_field,
        for_rows("text")},
       {"dataset_kwargs", "skip_prepare_dataset: true, for rows that are tokenized, cut and labeled",
        Kind::kMap, "null", for_rows("tokens")},
       {"dataset_num_proc", "processes that prepare the data", Kind::kInt, "null",
        of("sft, dpo, kto, reward, cpo, orpo"), for_rows(kAnyRows),
        ignored("hone prepares rows in its own threads; see threads"),
        in("dpo, cpo, orpo", {.reason = "preparing pairs takes seconds in one thread"})},
       {"eos_token", "end-of-sequence token; null: the tokenizer's", &DataPlan::eos_token, of("sft, reward"),
        for_rows(kAnyRows)},
       {"pad_token", "padding token", &RewardModelPlan::pad_token, of("sft, dpo, reward"), for_rows(kAnyRows),
        ignored(kNeverPads),
        in("reward",
           {.meaning =
                "padding token; the score is that of the last other token; null: the tokenizer's, or its end "
                "of sequence",
            .option_class = OptionClass::kSupported}),
        in("dpo", {.after = "pad_to_multiple_of"})},
       {"max_length", "length limit of a row, and length of a packed row, in tokens; null: no limit",
        &DataPlan::max_length, of("sft, dpo, kto, reward, cpo, orpo, online-dpo"), kNullToo, at_least(2),
        for_rows(kAnyRows),
        in("dpo, kto",
           {.meaning = "length limit of a prompt with its completion, in tokens; null: no limit"}),
        in("cpo, orpo",
           {.meaning = "length limit of a prompt with its completion, in tokens; null: 512, as in TRL"}),
        in("reward", {.meaning = "a pair is left out when one of the two has more tokens; null: no limit"}),
        in("online-dpo",
           {.default_text = "512",
            .meaning =
                "tokens of a prompt with its completion in training; a longer prompt is cut at its beginning",
            .null_too = false,
            .group = "sampling",
            .after = "max_new_tokens"})},
       {"truncation_mode",
        "which end of a long sequence is kept (keep_end: the two of a pair share no prompt; drop: the pair is left out)",
        &DataPlan::truncation_mode, of("sft, dpo"), choice("keep_start keep_end drop"), for_rows(kAnyRows),
        in("sft",
           {.meaning =
                "which end of a long row is kept, or drop: it is left out; packing reads only drop"})}});
}

// How rows become batches.
void add_batching(std::vector<Option>& rows) {
  add(rows, {"data", kMethodConfig, "sft"},
      {{"shuffle_dataset", "shuffle the rows once, before packing", &DataPlan::shuffle_dataset,
        of("sft, grpo, rloo, distill"), kNullToo, for_rows(kAnyRows),
        in(kPolicies, {.default_text = "true",
                       .meaning = "draw the prompts in random order",
                       .group = "sampling",
                       .after = "num_iterations"}),
        in("distill",
           {.default_text = "true", .meaning = "draw the prompts in random order", .group = "sampling"})},
       {"packing", "fill rows of max_length tokens with several examples", &DataPlan::packing,
        for_rows(kAnyRows)},
       {"packing_strategy",
        "how examples are packed: bfd cuts long ones, bfd_split packs the rest of them too, wrapped concatenates "
        "all and cuts every max_length tokens; bfd-requeue is bfd_split, and ffd is bfd",
        into(&DataPlan::packing_strategy, kPackingStrategyWords), for_rows(kAnyRows)},
       {"eval_packing", "pack the evaluation rows; null: as packing", &DataPlan::eval_packing,
        for_rows(kAnyRows)},
       {"padding_free", "concatenate the rows of a batch without padding", Kind::kBool, "false",
        of("sft, dpo"), ignored("always: hone never pads"), for_rows(kAnyRows)},
       {"pad_to_multiple_of", "pad rows to a multiple", Kind::kAny, "\"auto\"",
        of("sft, dpo, grpo, rloo, kto, reward, distill"), ignored(kNeverPads), kNullToo, for_rows(kAnyRows),
        in(kPoliciesAndDistillation, {.group = "sampling", .after = "cache_implementation"})}});
}

// SFTConfig: which tokens are trained, and how.
void add_trained_tokens(std::vector<Option>& rows) {
  add(rows, {"data", kMethodConfig, "sft"},
      {{"completion_only_loss", "train on completions only; null: exactly for prompt-completion data",
        &DataPlan::completion_only_loss, for_rows("strings turns masked labeled")},
       {"assistant_only_loss", "train on the assistant's turns only", &DataPlan::assistant_only_loss,
        for_rows("messages turns tokens")},
       {"loss_type", "the loss; dft weights each token by its probability (Dynamic Fine-Tuning)",
        &SftPlan::loss_type, choice("nll dft", "chunked_nll"), for_rows(kAnyRows)},
       {"activation_offloading", "keep activations outside the GPU", Kind::kBool, "false",
        of("sft, dpo, kto, reward"), ignored("activations already live in the machine's memory"),
        for_rows(kAnyRows)}});
}

// ScriptArguments, and the file to evaluate.
void add_dataset(std::vector<Option>& rows) {
  add(rows, {"data", kScriptArguments, kAll},
      {{"dataset_name", "a file of rows, a folder, or a pattern such as data/*.parquet (docs/data.md)",
        &DataPlan::dataset_name, formerly("dataset dataset_path"), for_rows(kAnyRows),
        in("dpo, cpo, orpo",
           {.meaning =
                "a file or folder of rows with chosen, rejected and (or within them) prompt (docs/data.md)"}),
        in(kHoneSamplers, {.meaning = "a file or folder of rows with a column prompt (docs/data.md)"}),
        in("kto",
           {.meaning =
                "a file or folder of rows with prompt, completion, label, or chosen and rejected (docs/data.md)"}),
        in("reward",
           {.meaning =
                "a file or folder of rows with chosen, rejected and (or within them) prompt, perhaps margin "
                "(docs/data.md)"})},
       {"dataset_config", "configuration that the folder's README.md names, or a sub-folder", Kind::kString,
        "null", for_rows(kAnyRows)},
       {"dataset_train_split", "split to train on, or a part of it: train[:10%]", Kind::kString, "\"train\"",
        for_rows(kAnyRows)},
       {"dataset_test_split", "split to evaluate, or a part of it", Kind::kString, "\"test\"",
        for_rows(kAnyRows)},
       {"dataset_streaming",
        "train on the rows in the order of their files, made as they are needed: step 1 comes at once; needs "
        "max_steps",
        &DataPlan::dataset_streaming, for_rows(kAnyRows)},
       {"ignore_bias_buffers", "workaround for distributed PyTorch", Kind::kBool, "false",
        ignored("the fault it works around cannot occur here"), for_rows(kAnyRows)}});
  add(rows, {"data", kHone, kAll},
      {{"eval_dataset", "file or folder of the rows to evaluate; null: the test split of dataset_name",
        &DataPlan::dataset_test, for_rows(kAnyRows)},
       {"dataset_revision", "branch, tag or commit of the data sets of the hub", Kind::kString, "\"main\"",
        for_rows(kAnyRows)}});
}

// What rows become before a method reads them (data/files/map_row.h, data/files/row_function.h).
void add_row_forms(std::vector<Option>& rows) {
  add(rows, {"data", kHone, kAll},
      {{"dataset_columns",
        "columns and the names that they are read by: {question: prompt, answer: completion}", Kind::kMap,
        "null", for_rows(kAnyRows)},
       {"row_format",
        "form of the rows: trl, unchanged; alpaca (instruction, input, output); alpaca_line, with a line break before the answer; sharegpt (from, value); openai "
        "(content as parts of text)",
        choice("trl alpaca alpaca_line sharegpt openai"), "\"trl\"", for_rows(kMappedRows)},
       {"prompt_template", "text of each prompt, with columns in braces: \"Question: {question}\\nAnswer:\"",
        Kind::kString, "null", for_rows(kAnyRows)},
       {"text_template", "text of each row, with columns in braces", Kind::kString, "null", of("sft"),
        for_rows(kAnyRows)},
       {"make_conversation", "texts of prompts and completions become turns of user and assistant",
        Kind::kBool, "false", for_rows(kMappedRows)},
       {"dataset_system_prompt", "a system turn before each conversation that has none", Kind::kString,
        "null", for_rows(kMappedRows)},
       {"row_function",
        "a Python function that makes a row of each row, several, or None: path/to/file.py:function or "
        "package.module.function",
        Kind::kString, "null", for_rows(kAnyRows)},
       {"cache_tokens",
        "keep the tokens of many rows for the next run with the same rows, tokenizer and options",
        &DataPlan::cache_tokens, of("sft, dpo, kto, reward, cpo, orpo"), for_rows(kAnyRows)},
       {"row_timeout", "seconds that row_function may take for one row", Kind::kFloat, "60",
        for_rows(kAnyRows), Range{.least = 0, .most = 1e9, .least_open = true}}});
}

void add_mixture(std::vector<Option>& rows) {
  add(rows, {"data", kDatasetMixture, kAll},
      {{"datasets",
        "data sets whose rows are concatenated: path, name, data_dir, data_files, split, columns, fraction",
        Kind::kAny, "[]", for_rows(kAnyRows)},
       {"streaming", "dataset_streaming, of a mixture", Kind::kBool, "false", for_rows(kAnyRows)},
       {"test_split_size", "share of the mixture (1 or more: its rows) that is evaluated, not trained on",
        Kind::kFloat, "null", for_rows(kAnyRows)}});
}
}  // namespace

std::vector<Option> data_options() {
  std::vector<Option> rows;
  add_dataset(rows);
  add_mixture(rows);
  add_row_forms(rows);
  add_rows(rows);
  add_batching(rows);
  add_trained_tokens(rows);
  return rows;
}

}  // namespace hone::config
