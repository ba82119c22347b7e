// The order of events before the first step of a reward model's run, as prose.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "data/forms/reward_pairs.h"
#include "train/methods/reward/reward_model.h"
#include "train/opening/record_opening.h"
#include "train/opening/score_source.h"

namespace hone::train::reward {

namespace {

// The token that no score is read at: pad_token, else the tokenizer's pad or end-of-sequence token.
std::optional<std::int32_t> pad_id(const config::Plan& plan, const text::Tokenizer& tokenizer) {
  const std::string& token = plan.reward.pad_token;
  if (token.empty()) return tokenizer.pad_id();
  if (const auto id = tokenizer.token_to_id(token)) return id;
  throw base::UserError({.where = "option pad_token",
                         .expected = "a token of the tokenizer's vocabulary",
                         .found = "'" + token + "'",
                         .cause = {},
                         .fix = "remove it for the tokenizer's own"});
}

std::string loss_line(const config::RewardModelPlan& plan, bool has_margins) {
  std::string out = "Bradley-Terry: the chosen score above the rejected score";
  if (has_margins) out += " by the row's margin";
  if (plan.center_rewards_coefficient) {
    out += "; scores kept around 0 with weight " + short_number(*plan.center_rewards_coefficient);
  }
  return out;
}

// A new adapter's head: the folder's, or one drawn as transformers draws it. A continued one's is its own.
std::string begin_head(const adapters::Adapter& adapter, const DecoderSource& source,
                       const config::Plan& plan, bool continues) {
  if (continues)
    return adapter.is_full() ? "score.weight, from the checkpoint" : "score.weight, from the adapter";
  const at::NoGradGuard no_grad;
  const std::optional<at::Tensor> stored = source.score();
  adapter.score().copy_(stored ? *stored : new_score_head(source.config(), plan_seed(plan)));
  return stored ? "score.weight, from the model's folder"
                : "score.weight, new: a language model has none (initialized from seed)";
}

RecordMaking making(const RowText& text) {
  return pair_making(text, "reward", data::ImplicitPrompts::kKeep, &data::make_reward_pairs,
                     {.pad_id = pad_id(text.plan, text.tokenizer)});
}

MemoryInputs begin(OpenedRun& run, const OpenedRecords& records) {
  const config::Plan& plan = run.plan;
  const auto& facts = std::get<data::PreferenceFacts>(records.facts);
  const bool margins = records.train.records[0].margin.has_value();
  const bool continues = run.directory.resuming() || !plan.adapter_name_or_path.empty();
  const auto& source = dynamic_cast<const DecoderSource&>(*run.source);
  run.start.method = PreferenceStartFacts{.data = facts,
                                          .eval_pairs = records.eval_rows(),
                                          .loss = loss_line(plan.reward, margins),
                                          .reference = {},
                                          .head = begin_head(*run.adapter, source, plan, continues)};
  return pair_memory(run, records, facts.longest_prompt);
}

constexpr RecordOpening kOpening = {.attach = {.wants_reference = false},
                                    .making = &making,
                                    .begin = &begin,
                                    .method = &new_method<RewardModel>};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kReward, .records = &kOpening, .columns = &data::reward_columns};
}

}  // namespace hone::train::reward
