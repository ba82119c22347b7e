// The order of events before the first step of a reward model's run, as prose.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "data/reward_pairs.h"
#include "train/memory_inputs.h"
#include "train/methods/reward/reward_model.h"
#include "train/opening.h"
#include "train/score_source.h"

namespace hone::train::reward {

namespace {

using Input = PairInput<data::PreferenceFacts>;

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

Input read_pairs(const data::RowSource& source, const OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const data::PreferenceRows rows = data::read_preference_rows(source, data::ImplicitPrompts::kKeep);
  data::RewardPairs data =
      data::tokenize_reward_pairs(rows, run.text->tokenizer, run.text->chat_template.get(),
                                  {.max_length = plan.max_length,
                                   .pad_id = pad_id(plan, run.text->tokenizer),
                                   .vocab_size = run.source->config().vocab_size,
                                   .threads = static_cast<int>(plan.threads)});
  return {.data = {.pairs = std::move(data.pairs), .margins = std::move(data.margins), .desirable = {}},
          .facts = data.facts,
          .file = {.files = source.files().files(), .rows = static_cast<std::int64_t>(rows.rows.size())},
          .seen = rows.names.seen()};
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
  open_pairs<RewardModel>(
      *run, {.wants_reference = false}, [&](const data::RowSource& rows) { return read_pairs(rows, *run); },
      [&](const data::PreferenceFacts& facts, const PairData* eval, std::int64_t program_bytes) {
        const config::Plan& plan = run->plan;
        const bool margins = !std::get<PairData>(run->data).margins.empty();
        const bool continues = run->directory.resuming() || !plan.adapter_name_or_path.empty();
        run->start.method = PreferenceStartFacts{.data = facts,
                                                 .eval_pairs = rows_of(eval),
                                                 .loss = loss_line(plan.reward, margins),
                                                 .reference = {},
                                                 .head = begin_head(*run->adapter, source, plan, continues)};
        return pair_memory(*run, program_bytes, eval, facts.longest_prompt);
      });
  return run;
}

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kReward, .open = &open};
}

}  // namespace hone::train::reward
