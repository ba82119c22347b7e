// Rows of reward: TRL's RewardConfig, and ours. What it shares with sft comes from the other files, with its
// own defaults.
#include <algorithm>

#include "config/option_table.h"

namespace hone::config {
namespace {

using Rows = std::vector<Option>;

constexpr std::string_view kReward = "reward";

Rows model_rows() {
  return {{"chat_template_path", Kind::kString, "null",
           "a .jinja file: the template to use instead of the model's own"},
          {"disable_dropout", Kind::kBool, "true", "lora_dropout 0"}};
}

Rows data_rows() {
  return {
      Option{"dataset_num_proc", Kind::kInt, "null", "processes that prepare the data"}.answered(
          "hone prepares rows in its own threads; see threads"),
      {"eos_token", Kind::kString, "null", "end-of-sequence token; null: the tokenizer's"},
      {"pad_token", Kind::kString, "null",
       "a score is that of the last token that is another one; null: the tokenizer's, or its end of "
       "sequence"},
      Option{"max_length", Kind::kInt, "1024",
             "a pair is left out when one of the two has more tokens; null: no limit"}
          .null_too()
          .within(at_least(2)),
      Option{"pad_to_multiple_of", Kind::kAny, "\"auto\"", "pad rows to a multiple"}.null_too().answered(
          "hone never pads"),
      Option{"activation_offloading", Kind::kBool, "false", "keep activations outside the GPU"}.answered(
          "activations already live in the machine's memory"),
  };
}

Rows loss_rows() {
  return {
      Option{"center_rewards_coefficient", Kind::kFloat, "null",
             "weight of (chosen + rejected)^2, which holds scores around 0; 0.01 is a common choice"}
          .within(at_least(0)),
  };
}

// What a reward model trains beside its LoRA, whatever these say.
void describe_head(Option& row) {
  if (row.name == "lora_task_type") {
    row = row.choice("CAUSAL_LM SEQ_CLS", "", "TOKEN_CLS SEQ_2_SEQ_LM QUESTION_ANS FEATURE_EXTRACTION",
                     "a reward model is a sequence classifier of one label: SEQ_CLS is written");
    row.meaning = "PEFT task type; SEQ_CLS is written for both, and the score head is trained";
  }
  if (row.name == "lora_modules_to_save") {
    row.answer = Class::kSupported;
    row.reason = {};
    row.meaning = "modules trained whole: the score head always is, and no other can be";
  }
}

Rows shared(Rows rows) {
  std::erase_if(rows,
                [](const Option& row) { return row.methods != "all" || row.name == "router_aux_loss_coef"; });
  for (Option& row : rows) {
    if (row.origin == Origin::kSftConfig) row.origin = Origin::kRewardConfig;
    if (row.name == "learning_rate") row.default_text = "1e-4";
    if (row.name == "per_device_train_batch_size") row.meaning = "pairs of a micro-batch";
    if (row.name == "per_device_eval_batch_size") row.meaning = "pairs of an evaluation batch";
    if (row.name == "average_tokens_across_devices") row.reason = "hone runs in one process";
    if (row.name == "dataset_name") {
      row.meaning =
          "a .jsonl file with chosen, rejected and (or within them) prompt, perhaps margin, or a folder of "
          "such";
    }
    describe_head(row);
  }
  return rows;
}

Rows own(Rows rows, std::string_view heading, Origin origin) {
  for (Option& row : rows) row = row.from(origin).under(heading).only(kReward);
  return rows;
}

}  // namespace

const Schema& reward_schema() {
  static const Schema schema = [] {
    Schema made{.command = "reward", .options = {}};
    const Rows share = {
        {"share_prompt", Kind::kBool, "true", "compute what the two of a pair begin with once"}};
    for (const Rows& rows :
         {shared(model_options()), own(model_rows(), "model", Origin::kRewardConfig),
          shared(adapter_options()), shared(data_options()), own(data_rows(), "data", Origin::kRewardConfig),
          own(loss_rows(), "loss", Origin::kRewardConfig), own(share, "loss", Origin::kHone),
          shared(training_options()), shared(optimizer_options()), shared(reporting_options()),
          shared(saving_options()), shared(machine_options()), shared(doctor_options())}) {
      made.options.insert(made.options.end(), rows.begin(), rows.end());
    }
    return made;
  }();
  return schema;
}

}  // namespace hone::config
