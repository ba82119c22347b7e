// Rows: what recipes ask for beside TRL 1.16's options. Former options of TRL and transformers that have no
// successor, and those of alignment-handbook and open-r1 (github.com/huggingface/open-r1, src/open_r1/configs.py).
#include "config/option_table.h"

namespace hone::config {
namespace {

// Parameters of open-r1's rewards (rewards/open_r1/open_r1_rewards.h), with its defaults.
void add_reward_parameters(std::vector<Option>& rows) {
  add(rows, {"rewards", kHone, kRewarded},
      {{"cosine_min_value_wrong", "cosine: the score of a wrong answer without length", Kind::kFloat, "0.0",
        Range{}},
       {"cosine_max_value_wrong", "cosine: the score of a wrong answer of cosine_max_len", Kind::kFloat,
        "-0.5", Range{}},
       {"cosine_min_value_correct", "cosine: the score of a right answer of cosine_max_len", Kind::kFloat,
        "0.5", Range{}},
       {"cosine_max_value_correct", "cosine: the score of a right answer without length", Kind::kFloat, "1.0",
        Range{}},
       {"cosine_max_len", "cosine: characters from one end of the scale to the other", Kind::kInt, "1000",
        at_least(1)},
       {"repetition_n_grams", "repetition_penalty: words that are compared", Kind::kInt, "3", at_least(1)},
       {"repetition_max_penalty", "repetition_penalty: the score where everything is repeated", Kind::kFloat,
        "-1.0", Range{.most = 0}},
       {"code_language", "code_format: the language of the block of code", Kind::kString, "\"python\""},
       {"parallel_code_exec_per_proc", "code, binary_code: programs that run at once", Kind::kInt, "2",
        at_least(1)},
       {"max_completion_len", "soft_overlong_punishment: tokens from which on the score is -1", Kind::kInt,
        "16384", at_least(1)},
       {"soft_punish_cache", "soft_overlong_punishment: tokens before that in which it falls from 0",
        Kind::kInt, "4096", at_least(0)}});
}

}  // namespace

std::vector<Option> recipe_options() {
  std::vector<Option> rows;
  add(rows, {"model", kHone, kAll},
      {{"tokenizer_name_or_path", "folder of another tokenizer; null: the model's own",
        &RecipePlan::tokenizer_name_or_path, formerly("tokenizer tokenizer_name")},
       {"chat_template", "the chat template to use instead of the model's own: Jinja text, or a .jinja file",
        &RecipePlan::chat_template, for_rows(kConversations)}});
  add(rows, {"data", kHone, kHoneSamplers},
      {{"system_prompt", "a system turn before each prompt, which then is a conversation",
        &RecipePlan::system_prompt, for_rows(kAnyRows)},
       {"dataset_prompt_column", "column whose text becomes the user's turn of a conversation; null: prompt",
        &RecipePlan::dataset_prompt_column, for_rows(kAnyRows)},
       {"rows_without_prompt",
        "a row without prompt: an error; or its problem becomes the user's turn, as in open-r1's script; "
        "problem_r1 puts DeepSeek-R1's system turn before it, unless there is a system_prompt",
        &RecipePlan::rows_without_prompt, choice("refuse problem problem_r1"), for_rows(kAnyRows)}});
  add(rows, {"data", kHone, "sft, dpo, kto, reward, cpo, orpo"},
      {{"auto_insert_empty_system_msg",
        "an empty system turn before a conversation without one, if the template knows system turns",
        &RecipePlan::auto_insert_empty_system_msg, for_rows(kConversations)}});
  add(rows, {"data", kHone, kAll},
      {{"eval_datasets",
        "data sets to evaluate, written as datasets; a mapping of names to them: each is evaluated on its own "
        "(eval_NAME_loss)",
        Kind::kAny, "[]", for_rows(kAnyRows)}});
  add(rows, {"data", kHone, "dpo, kto, cpo, orpo, grpo, rloo"},
      {{"max_prompt_length", "keep only the last tokens of a prompt, at most this many; null: all",
        &RecipePlan::max_prompt_length, "null", at_least(1), for_rows(kAnyRows),
        in("cpo, orpo",
           {.meaning =
                "where a pair exceeds max_length, keep only the last tokens of its prompt, at most this "
                "many; null: as TRL 1.16"})}});
  add(rows, {"training", kHone, kAll},
      {{"overwrite_output_dir",
        "begin again in an output_dir that has an earlier run: its checkpoints are kept aside, its result until the new one",
        &RecipePlan::overwrite_output_dir}});
  add_reward_parameters(rows);
  add(rows, {"machine", kHone, kAll},
      {{"ignore_unknown", "names that are passed over, although hone does not know them", Kind::kList,
        "null"}});
  return rows;
}

}  // namespace hone::config
