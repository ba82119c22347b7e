// The order of events before the first step of a reward model's run, as prose.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "data/reward_pairs.h"
#include "train/methods/reward/reward_model.h"
#include "train/opening.h"
#include "train/score_source.h"

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

std::unique_ptr<OpenedRun> open(const config::Plan& asked, RunListener& /*listener*/) {
  auto run = open_source(asked);
  auto decoder = std::make_unique<DecoderSource>(std::move(run->source));
  const DecoderSource& source = *decoder;
  run->source = std::move(decoder);
  const auto begin = [&](const data::RowFacts& of, const RecordData* eval, std::int64_t program_bytes) {
    const config::Plan& plan = run->plan;
    const auto& facts = std::get<data::PreferenceFacts>(of);
    const bool margins = std::get<RecordData>(run->data).records[0].margin.has_value();
    const bool continues = run->directory.resuming() || !plan.adapter_name_or_path.empty();
    run->start.method = PreferenceStartFacts{.data = facts,
                                             .eval_pairs = rows_of(eval),
                                             .loss = loss_line(plan.reward, margins),
                                             .reference = {},
                                             .head = begin_head(*run->adapter, source, plan, continues)};
    return pair_memory(*run, program_bytes, eval, facts.longest_prompt);
  };
  open_pairs(*run,
             {.attach = {.wants_reference = false},
              .making = pair_making(*run, "reward", data::ImplicitPrompts::kKeep, &data::make_reward_pairs,
                                    {.pad_id = pad_id(run->plan, run->text->tokenizer)}),
              .begin = begin,
              .method = &new_method<RewardModel>});
  return run;
}

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kReward, .open = &open};
}

}  // namespace hone::train::reward
