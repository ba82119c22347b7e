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

Input read_pairs(const base::fs::path& path, const OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const data::PreferenceRows rows = data::read_preference_rows(path, data::ImplicitPrompts::kKeep);
  data::RewardPairs data =
      data::tokenize_reward_pairs(rows, run.text->tokenizer, run.text->chat_template.get(),
                                  {.max_length = plan.max_length,
                                   .pad_id = pad_id(plan, run.text->tokenizer),
                                   .vocab_size = run.source->config().vocab_size,
                                   .threads = static_cast<int>(plan.threads)});
  return {.data = {.pairs = std::move(data.pairs), .margins = std::move(data.margins), .desirable = {}},
          .facts = data.facts,
          .file = {.path = rows.path, .rows = static_cast<std::int64_t>(rows.rows.size())}};
}

std::string loss_line(const config::RewardModelPlan& plan, bool has_margins) {
  std::string out = "Bradley-Terry: the chosen one's score above the rejected one's";
  if (has_margins) out += " by the row's margin";
  if (plan.center_rewards_coefficient) {
    out += "; scores held around 0 with weight " + short_number(*plan.center_rewards_coefficient);
  }
  return out;
}

// A new adapter's head: the folder's, or one drawn as transformers draws it. A continued one's is its own.
std::string begin_head(const adapters::Adapter& adapter, const DecoderSource& source,
                       const config::Plan& plan, bool continues) {
  if (continues) return "score.weight, as the adapter has it";
  const at::NoGradGuard no_grad;
  const std::optional<at::Tensor> stored = source.score();
  adapter.score().copy_(stored ? *stored : new_score_head(source.config(), plan_seed(plan)));
  return stored ? "score.weight, as the model's folder has it"
                : "score.weight, new: a language model has none (its seed is seed)";
}

std::unique_ptr<OpenedRun> open(const config::Plan& asked, RunListener& /*listener*/) {
  auto run = open_source(asked);
  const config::Plan& plan = run->plan;
  auto decoder = std::make_unique<DecoderSource>(std::move(run->source));
  const DecoderSource& source = *decoder;
  run->source = std::move(decoder);
  Input input = read_pairs(plan.dataset_name, *run);
  std::optional<PairData> eval;
  if (!plan.dataset_test.empty()) eval = read_pairs(plan.dataset_test, *run).data;
  const Attached attached = attach(*run, input.file, input.facts.longest, {.wants_reference = false});
  const PairData& train = run->data.emplace<PairData>(std::move(input.data));
  const bool continues = run->directory.resuming() || !plan.adapter_name_or_path.empty();

  StartFacts& start = run->start;
  start.preference =
      PreferenceStartFacts{.data = input.facts,
                           .eval_pairs = eval ? static_cast<std::int64_t>(eval->pairs.size()) : 0,
                           .loss = loss_line(plan.reward, !train.margins.empty()),
                           .reference = {},
                           .head = begin_head(*run->adapter, source, plan, continues)};
  start.train_rows = input.facts.kept;
  start.example = example_of(train.pairs.front(), run->text->tokenizer);
  plan_run_memory(
      *run, pair_memory(*run, attached.program_bytes, eval ? &*eval : nullptr, input.facts.longest_prompt));
  run->method = std::make_unique<RewardModel>(pair_parts(*run, std::move(eval), {}));
  end_start_page(*run);
  return run;
}

}  // namespace

MethodRow row() {
  return {.method = config::Method::kReward, .open = &open};
}

}  // namespace hone::train::reward
