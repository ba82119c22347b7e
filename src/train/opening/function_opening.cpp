#include "train/opening/function_opening.h"

#include "train/opening/generate_options.h"
#include "train/opening/reward_opening.h"

namespace hone::train {

namespace {

// Every option as plan.yaml has it; values that are no JSON are texts.
base::Json options_of(const config::Plan& plan) {
  base::Json out = base::Json::object();
  for (const auto& [name, text] : plan.resolved) {
    base::Json value = base::Json::parse(text, nullptr, /*allow_exceptions=*/false);
    out[name] = value.is_discarded() ? base::Json(text) : std::move(value);
  }
  return out;
}

}  // namespace

std::shared_ptr<FunctionUse> open_function(const OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  const model::ModelConfig& model = run.source->config();
  const std::string& folder =
      plan.tokenizer_name_or_path.empty() ? plan.model_name_or_path : plan.tokenizer_name_or_path;
  auto out = std::make_shared<FunctionUse>(
      FunctionUse{.host = nullptr,
                  .chat = run.text->chat_template.get(),
                  .template_kwargs = template_kwargs(plan),
                  .options = options_of(plan),
                  .model = folder,
                  .vocab_size = model.vocab_size,
                  .ends = generate_options_of(plan.policy, model, tokenizer).stop_ids});
  if (const auto pad = tokenizer.pad_id()) out->ends.push_back(*pad);
  out->host = std::make_unique<tools::RolloutHost>(
      tools::RolloutHostOptions{.python = plan.policy.python, .word = plan.acting.rollout});
  return out;
}

}  // namespace hone::train
