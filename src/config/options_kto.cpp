// Rows of kto: TRL's KTOConfig. What it shares with sft comes from the other files, with its own defaults.
#include <algorithm>

#include "config/option_table.h"

namespace hone::config {
namespace {

using Rows = std::vector<Option>;

constexpr std::string_view kKto = "kto";
constexpr std::string_view kSyncRef = "only read with sync_ref_model, which TRL refuses with PEFT";

Rows model_rows() {
  return {{"disable_dropout", Kind::kBool, "true", "lora_dropout 0"}};
}

Rows data_rows() {
  return {
      Option{"dataset_num_proc", Kind::kInt, "null", "processes that prepare the data"}.answered(
          "hone prepares rows in its own threads; see threads"),
      Option{"max_length", Kind::kInt, "1024",
             "tokens that a prompt with its completion is cut to; null: no limit"}
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
      Option{"loss_type", Kind::kChoice, "\"kto\"", "the loss; apo_zero_unpaired estimates no KL"}.choice(
          "kto apo_zero_unpaired"),
      Option{"beta", Kind::kFloat, "0.1", "how strongly the reference holds"}.within(above(0)),
      Option{"desirable_weight", Kind::kFloat, "1.0", "weight of the losses of desirable completions"}.within(
          at_least(0)),
      Option{"undesirable_weight", Kind::kFloat, "1.0", "weight of the losses of undesirable completions"}
          .within(at_least(0)),
      {"precompute_ref_log_probs", Kind::kBool, "false",
       "compute the reference of every row once, before step 1"},
      Option{"precompute_ref_batch_size", Kind::kInt, "null",
             "rows at a time for that; null: per_device_train_batch_size, and per_device_eval_batch_size"}
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
    if (row.origin == Origin::kSftConfig) row.origin = Origin::kKtoConfig;
    if (row.name == "learning_rate") row.default_text = "1e-6";
    if (row.name == "per_device_train_batch_size") {
      row.meaning = "rows of a micro-batch; loss_type kto pairs each prompt with its neighbour's completion";
    }
    if (row.name == "average_tokens_across_devices") row.reason = "hone runs in one process";
    if (row.name == "train_sampling_strategy") {
      row.default_text = "\"sequential\"";
      row.meaning = "order of the rows; loss_type kto needs sequential";
    }
    if (row.name == "dataset_name") {
      row.meaning =
          "a .jsonl file with prompt, completion, label, or with chosen and rejected, or a folder of such";
    }
  }
  return rows;
}

Rows own(Rows rows, std::string_view heading) {
  for (Option& row : rows) row = row.from(Origin::kKtoConfig).under(heading).only(kKto);
  return rows;
}

}  // namespace

const Schema& kto_schema() {
  static const Schema schema = [] {
    Schema made{.command = "kto", .options = {}};
    for (const Rows& rows :
         {shared(model_options()), own(model_rows(), "model"), shared(adapter_options()),
          shared(data_options()), own(data_rows(), "data"), own(loss_rows(), "loss"),
          shared(training_options()), shared(optimizer_options()), shared(reporting_options()),
          shared(saving_options()), shared(machine_options()), shared(doctor_options())}) {
      made.options.insert(made.options.end(), rows.begin(), rows.end());
    }
    return made;
  }();
  return schema;
}

}  // namespace hone::config
