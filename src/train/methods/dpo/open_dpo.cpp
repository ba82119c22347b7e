// The order of events before the first step of a DPO run, as prose.
#include "train/methods/dpo/dpo.h"
#include "train/opening/record_opening.h"

namespace hone::train::dpo {

namespace {

constexpr const char* kLengthAdvice = "ld_alpha, or loss_type: sigmoid_norm, reduce the effect of length";

std::string loss_line(const config::PreferencePlan& plan) {
  std::string out;
  for (std::size_t i = 0; i < plan.loss_type.size(); ++i) {
    if (i > 0) out += " + ";
    if (!plan.loss_weights.empty()) out += short_number(plan.loss_weights[i]) + " x ";
    out += plan.loss_type[i];
  }
  out += ", beta " + short_number(plan.beta);
  if (plan.f_divergence_type != "reverse_kl") out += ", " + plan.f_divergence_type;
  if (plan.label_smoothing > 0) out += ", label_smoothing " + short_number(plan.label_smoothing);
  if (plan.ld_alpha) out += ", ld_alpha " + short_number(*plan.ld_alpha);
  if (plan.use_weighting) out += ", weighted (WPO)";
  return out;
}

// A new policy is its reference: no margin, whatever the pair.
bool begins_at_ln2(const config::Plan& all) {
  const config::PreferencePlan& plan = all.preference;
  return all.ref_model.empty() && plan.loss_type == std::vector<std::string>{"sigmoid"} &&
         plan.loss_weights.empty() && !plan.use_weighting && plan.f_divergence_type == "reverse_kl";
}

RecordMaking making(const RowText& text) {
  return pair_making(text, "dpo", data::ImplicitPrompts::kExtractMixed, &data::make_dpo_pairs,
                     {.max_prompt_length = text.plan.max_prompt_length,
                      .keep_end = text.plan.truncation_mode == "keep_end",
                      .drop_long = text.plan.truncation_mode == "drop"});
}

MemoryInputs begin(OpenedRun& run, const OpenedRecords& records) {
  const auto& facts = std::get<data::PreferenceFacts>(records.facts);
  run.start.method = PreferenceStartFacts{.data = facts,
                                          .eval_pairs = records.eval_rows(),
                                          .loss = loss_line(run.plan.preference),
                                          .reference = reference_line(run.plan),
                                          .length_advice = kLengthAdvice};
  return pair_memory(run, records, facts.longest_prompt);
}

constexpr RecordOpening kOpening = {.making = &making, .begin = &begin, .method = &new_method<Dpo>};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kDpo,
          .records = &kOpening,
          .columns = &data::pair_columns,
          .begins_at_ln2 = &begins_at_ln2,
          .experts_balance = ExpertsBalance::kByOption};
}

}  // namespace hone::train::dpo
