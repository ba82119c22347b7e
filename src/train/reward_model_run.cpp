// open_reward_model: the order of events before the first step of a reward model's run, as prose.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/open_model.h"
#include "train/open_run.h"
#include "train/opening.h"
#include "train/reward_model.h"
#include "train/run_setup.h"
#include "train/score_source.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

using Pairs = std::vector<data::PreferencePair>;

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

struct RewardInput {
  data::RewardPairs data;
  fs::path file;
  std::int64_t file_rows = 0;
};

RewardInput read_pairs(const fs::path& path, const config::Plan& plan, const OpenedText& opened,
                       std::int64_t vocab_size) {
  const data::PreferenceRows rows = data::read_preference_rows(path, data::ImplicitPrompts::kLeft);
  return {.data = data::tokenise_reward_pairs(rows, opened.tokenizer, opened.chat_template.get(),
                                              {.max_length = plan.max_length,
                                               .pad_id = pad_id(plan, opened.tokenizer),
                                               .vocab_size = vocab_size,
                                               .threads = static_cast<int>(plan.threads)}),
          .file = rows.path,
          .file_rows = static_cast<std::int64_t>(rows.rows.size())};
}

LongestBatch longest_pairs(const Pairs& pairs, std::int64_t batch_size, bool share) {
  std::vector<RowSize> rows;
  for (const data::PreferencePair& pair : pairs) {
    rows.push_back({.tokens = pair.tokens(share),
                    .scored = 2,
                    .segment = std::max(pair.chosen.tokens(), pair.rejected.tokens())});
  }
  return largest_batch(rows, batch_size);
}

MemoryInputs reward_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                           const data::RewardPairs& train, const data::RewardPairs* eval) {
  const bool share = plan.reward.share_prompt && plan.layer_form != config::LayerForm::kPlain;
  MemoryInputs out = memory_inputs(
      model, plan, program_bytes, longest_pairs(train.pairs, plan.per_device_train_batch_size, share),
      eval == nullptr ? LongestBatch() : longest_pairs(eval->pairs, plan.per_device_eval_batch_size, share));
  out.adapter_parameters += model.config().hidden_size;  // the head
  if (share) count_shared_prompts(out, model, train.facts.longest_prompt, out.train.tokens);
  return out;
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

struct OpenedRewardModel final : OpenedRun {
  using OpenedRun::OpenedRun;
  const Pairs* pairs() const override {
    return method == nullptr ? nullptr : &static_cast<const RewardModelMethod&>(*method).train_pairs();
  }
};

}  // namespace

std::unique_ptr<OpenedRun> open_reward_model(const config::Plan& asked, RunListener& /*listener*/) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedRewardModel>(asked);
  const config::Plan& plan = run->plan;

  // Data before weights: a wrong row is found in seconds.
  auto decoder = std::make_unique<DecoderSource>(model::open_weights(plan.model_name_or_path));
  const DecoderSource& source = *decoder;
  run->source = std::move(decoder);
  const OpenedText& opened = run->text.emplace(open_text(plan));
  const std::int64_t vocab_size = source.config().vocab_size;
  RewardInput train = read_pairs(plan.dataset_name, plan, opened, vocab_size);
  std::optional<data::RewardPairs> eval;
  if (!plan.dataset_test.empty()) eval = read_pairs(plan.dataset_test, plan, opened, vocab_size).data;

  const std::int64_t program_bytes = base::process_memory().resident;
  model::CausalLm& model = read_base(*run);
  adapters::Adapter& adapter = run->adapter.emplace(open_adapter(model, plan, run->place));
  if (plan.reward.disable_dropout) adapter.set_dropout(0);
  const bool continues = run->place.resuming() || !plan.adapter_name_or_path.empty();
  const std::string head = begin_head(adapter, source, plan, continues);
  require_room_for_checkpoint(run->place, adapter);
  run->standing.emplace(find_standing(plan, run->place, adapter, data_print(train.file, train.file_rows)));

  StartFacts& start = run->start;
  const data::PreferenceFacts& facts = train.data.facts;
  begin_start_page(*run, facts.longest);
  start.preference =
      PreferenceStartFacts{.data = facts,
                           .eval_pairs = eval ? static_cast<std::int64_t>(eval->pairs.size()) : 0,
                           .loss = loss_line(plan.reward, !train.data.margins.empty()),
                           .reference = {},
                           .head = head};
  start.train_rows = facts.kept;
  start.example = example_of(train.data.pairs.front(), opened.tokenizer);
  start.memory = plan_memory(reward_inputs(model, plan, program_bytes, train.data, eval ? &*eval : nullptr),
                             plan.layer_form, plan.recompute, memory_limit(plan));
  run->method = std::make_unique<RewardModelMethod>(RewardModelParts{.plan = plan,
                                                                     .model = model,
                                                                     .train = std::move(train.data),
                                                                     .eval = std::move(eval),
                                                                     .form = pass_form(start.memory)});
  end_start_page(*run);
  return run;
}

LoopResult run_reward_model(const config::Plan& plan, RunListener& listener,
                            const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_reward_model(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
