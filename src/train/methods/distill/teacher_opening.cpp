#include "train/methods/distill/teacher_opening.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings/plural.h"
#include "config/teacher_refusals.h"
#include "train/batches/mixed_rollouts.h"
#include "train/opening/reward_opening.h"
#include "train/opening/tool_opening.h"
#include "train/references/open_reference.h"
#include "train/references/remote_teacher.h"
#include "train/references/same_vocabulary.h"

namespace hone::train::distill {

namespace {

[[noreturn]] void refuse(const config::TeacherRefusal& why) {
  throw base::UserError({.where = std::string("option ") + why.option,
                         .expected = why.expected,
                         .found = why.found,
                         .cause = why.cause,
                         .fix = why.fix});
}

}  // namespace

std::shared_ptr<RemoteTeacher> open_teacher(const OpenedRun& run) {
  const std::string& url = run.plan.distill.teacher_model_server_url;
  if (url.empty()) {
    if (teacher_samples(run.plan) && reference_is_model(run.plan)) refuse(config::sampling_of_own_teacher());
    require_teachers_vocabulary(run);
    return nullptr;
  }
  auto out = std::make_shared<RemoteTeacher>(url, run.source->config().vocab_size, run.plan.policy.python);
  out->require_vocabulary(run.text->tokenizer, run.plan.model_name_or_path);
  return out;
}

void require_plain_head(const OpenedRun& run) {
  if (run.model->head_linear().lora) refuse(config::lora_on_head());
  const bool is_here = run.plan.distill.teacher_model_server_url.empty();
  if (is_here && reference_is_model(run.plan) && run.plan.init_lora_weights == config::LoraInit::kPissa)
    refuse(config::pissa_of_own_teacher());
}

bool takes_given(const config::Plan& plan) {
  return mixes(plan) && !plan.distill.seq_kd;
}

bool teacher_samples(const config::Plan& plan) {
  return mixes(plan) && plan.distill.seq_kd;
}

std::vector<data::GivenCompletion> given_completions(const PolicyPrompts& prompts, const OpenedRun& run) {
  std::vector<data::GivenCompletion> out =
      data::tokenize_completions(prompts.rows, run.text->tokenizer, run.text->chat_template.get(),
                                 template_kwargs(run.plan), run.source->config().vocab_size);
  const PromptLimits limits = prompt_limits(run);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::vector<std::int32_t>& prompt = out[i].prompt;
    if (limits.most_tokens > 0 && std::ssize(prompt) > limits.most_tokens)
      prompt.erase(prompt.begin(), prompt.end() - limits.most_tokens);
    const std::int64_t length = std::ssize(prompt) + std::ssize(out[i].ids);
    if (length <= limits.positions) continue;
    throw base::UserError({.where = prompts.rows[i].where,
                           .expected = "prompt and completion within the model's " +
                                       base::counted(limits.positions, "position"),
                           .found = base::counted(length, "token") + ", " + std::to_string(prompt.size()) +
                                    " of them of the prompt",
                           .cause = "the completion is the row's own, and is not cut",
                           .fix = "shorten the completion, or remove the row"});
  }
  return out;
}

void require_recorded(const config::Plan& plan, const RolloutBatch& batch) {
  if (plan.method != config::Method::kDistill || plan.distill.loss_type != "sampled") return;
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const RolloutSample& one = batch.samples[i];
    if (one.old_logprobs.size() == one.drawn()) continue;
    throw base::UserError(
        {.where = "option replay, generation batch " + std::to_string(batch.generation),
         .expected = "old_logprobs of every sample with loss_type: sampled",
         .found = "sample " + std::to_string(i) + " has none",
         .cause = "the completion is of the data, or another program wrote the file",
         .fix = "replay a file that `hone distill --dump_rollouts` wrote with lmbda: 1, or set loss_type: "
                "divergence"});
  }
}

std::unique_ptr<RolloutSource> with_others(const OpenedRun& run, const SampledData& data,
                                           const rollout::GenerateOptions& sampling,
                                           std::unique_ptr<RolloutSource> source) {
  const config::Plan& plan = run.plan;
  if (!mixes(plan)) return source;
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  std::unique_ptr<RolloutSource> others;
  if (plan.distill.seq_kd) {
    const std::shared_ptr<const model::CausalLm> teacher = run.second_model.lock();
    base::require(teacher != nullptr, "distill::with_others", "a teacher that is another model");
    others = std::make_unique<LiveRollouts>(sampling, *teacher, data.train_prompts, tokenizer, data.rewards);
  } else {
    others = std::make_unique<GivenRollouts>(data.train_prompts, data.train_given, tokenizer);
  }
  return std::make_unique<MixedRollouts>(std::move(source), std::move(others), mix_options(plan));
}

}  // namespace hone::train::distill
