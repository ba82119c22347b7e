// Rows of dpo: TRL's DPOConfig, and ours. What it shares with sft comes from the other files, with its own
// defaults.
#include <algorithm>

#include "config/option_table.h"

namespace hone::config {
namespace {

using Rows = std::vector<Option>;

constexpr std::string_view kDpo = "dpo";
constexpr std::string_view kSyncRef = "only read with sync_ref_model, which TRL refuses with PEFT";

Rows model_rows() {
  return {{"disable_dropout", Kind::kBool, "true", "lora_dropout 0"}};
}

Rows data_rows() {
  return {
      Option{"dataset_num_proc", Kind::kInt, "null", "processes that prepare the data"}.answered(
          "preparing pairs takes seconds in one thread"),
      Option{"max_length", Kind::kInt, "1024",
             "tokens that a prompt with its completion is cut to; null: no limit"}
          .null_too()
          .within(at_least(2)),
      Option{"truncation_mode", Kind::kChoice, "\"keep_start\"",
             "which end of a long sequence is kept (keep_end: the two of a pair share no prompt)"}
          .choice("keep_start keep_end"),
      Option{"padding_free", Kind::kBool, "false", "join the rows of a batch without padding"}.answered(
          "always: hone never pads"),
      Option{"pad_to_multiple_of", Kind::kAny, "\"auto\"", "pad rows to a multiple"}.null_too().answered(
          "hone never pads"),
      Option{"pad_token", Kind::kString, "null", "padding token"}.answered("hone never pads"),
      Option{"activation_offloading", Kind::kBool, "false", "keep activations outside the GPU"}.answered(
          "activations already live in the machine's memory"),
  };
}

Rows loss_rows() {
  return {
      {"loss_type", Kind::kList, "[\"sigmoid\"]",
       "one or several of sigmoid, hinge, ipo, exo_pair, nca_pair, robust, bco_pair, sppo_hard, aot, "
       "aot_unpaired, apo_zero, apo_down, discopop, sft, sigmoid_norm"},
      {"loss_weights", Kind::kList, "null", "a weight for each loss_type; null: 1"},
      Option{"beta", Kind::kFloat, "0.1", "how strongly the reference holds; ipo's tau"}.within(above(0)),
      Option{"f_divergence_type", Kind::kChoice, "\"reverse_kl\"", "distance from the reference"}.choice(
          "reverse_kl forward_kl js_divergence alpha_divergence"),
      {"f_alpha_divergence_coef", Kind::kFloat, "0.5", "alpha_divergence: alpha"},
      Option{"label_smoothing", Kind::kFloat, "0.0",
             "robust and aot: share of labels that may be flipped; exo_pair: its epsilon, above 0"}
          .within({.least = 0, .most = 1, .most_open = true}),
      Option{"ld_alpha", Kind::kFloat, "null",
             "LD-DPO: weight of tokens beyond the shorter completion's length; null: 1"}
          .within({.least = 0, .most = 1}),
      {"use_weighting", Kind::kBool, "false",
       "WPO: weigh pairs by how likely the policy itself would write them"},
      Option{"discopop_tau", Kind::kFloat, "0.05", "discopop: temperature"}.within(above(0)),
      {"precompute_ref_log_probs", Kind::kBool, "false",
       "compute the reference of every pair once, before step 1"},
      Option{"precompute_ref_batch_size", Kind::kInt, "null",
             "pairs at a time for that; null: per_device_train_batch_size, and per_device_eval_batch_size"}
          .within(at_least(1)),
      Option{"sync_ref_model", Kind::kBool, "false", "move the reference towards the policy"}.refused(
          "TRL refuses it with PEFT: the reference is the model without its adapter"),
      Option{"ref_model_mixup_alpha", Kind::kFloat, "0.6", "share of the policy"}.answered(kSyncRef),
      Option{"ref_model_sync_steps", Kind::kInt, "512", "steps between moves"}.answered(kSyncRef),
  };
}

Rows shared(Rows rows) {
  std::erase_if(rows, [](const Option& row) { return row.methods != "all"; });
  for (Option& row : rows) {
    if (row.origin == Origin::kSftConfig) row.origin = Origin::kDpoConfig;
    if (row.name == "learning_rate") row.default_text = "1e-6";
    if (row.name == "per_device_train_batch_size") row.meaning = "pairs of a micro-batch";
    if (row.name == "per_device_eval_batch_size") row.meaning = "pairs of an evaluation batch";
    if (row.name == "average_tokens_across_devices") row.reason = "hone runs in one process";
    if (row.name == "dataset_name") {
      row.meaning = "a .jsonl file with chosen, rejected and (or within them) prompt, or a folder of such";
    }
  }
  return rows;
}

Rows own(Rows rows, std::string_view heading, Origin origin) {
  for (Option& row : rows) row = row.from(origin).under(heading).only(kDpo);
  return rows;
}

}  // namespace

const Schema& dpo_schema() {
  static const Schema schema = [] {
    Schema made{.command = "dpo", .options = {}};
    const Rows share = {{"share_prompt", Kind::kBool, "true", "compute the prompt of a pair once"}};
    for (const Rows& rows :
         {shared(model_options()), own(model_rows(), "model", Origin::kDpoConfig), shared(adapter_options()),
          shared(data_options()), own(data_rows(), "data", Origin::kDpoConfig),
          own(loss_rows(), "loss", Origin::kDpoConfig), own(share, "loss", Origin::kHone),
          shared(training_options()), shared(optimizer_options()), shared(reporting_options()),
          shared(saving_options()), shared(machine_options()), shared(doctor_options())}) {
      made.options.insert(made.options.end(), rows.begin(), rows.end());
    }
    return made;
  }();
  return schema;
}

}  // namespace hone::config
