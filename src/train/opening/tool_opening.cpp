#include "train/opening/tool_opening.h"

#include "base/error.h"
#include "config/method_traits.h"
#include "config/named_word.h"
#include "model/config/rotations.h"
#include "tools/tool_spec.h"
#include "train/opening/generate_options.h"
#include "train/opening/reward_opening.h"

namespace hone::train {

namespace {

tools::PoolOptions pool_options(const config::Plan& plan) {
  tools::PoolOptions out{.python = plan.policy.python,
                         .workers = static_cast<int>(plan.acting.tool_workers),
                         .timeout = plan.acting.tool_timeout,
                         .tools = plan.acting.tools};
  for (const std::string& word : plan.acting.environment) {
    const auto [name, factory] = config::split_named(word);
    out.environments[name] = factory;
  }
  return out;
}

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

std::shared_ptr<const text::ChatTemplate> acting_template(const OpenedText& text, const std::string& model,
                                                          std::vector<std::string>& notes) {
  const std::optional<std::string>& source = text.tokenizer.chat_template();
  if (text.chat_template == nullptr || !source) {
    throw base::UserError(
        {.where = model,
         .expected = "a chat template, which shows the model its tools and what they answer",
         .found = "none",
         .fix = "use an instruct model, or name a template with chat_template_path"});
  }
  const std::string where = "the chat template of " + model;
  const std::optional<std::string> other = tools::tool_training_template(text.tokenizer, *source, where);
  if (other) {
    notes.push_back(
        "tools: the chat template changes earlier turns once a result follows, so prompts and results are written with its "
        "training form, as TRL does; files keep its own");
  }
  return std::make_shared<const text::ChatTemplate>(other ? *other : *source, text.tokenizer.special(),
                                                    where);
}

PromptLimits prompt_limits(const OpenedRun& run) {
  const model::ModelConfig& model = run.source->config();
  const std::int64_t positions = model::longest_generated(model);
  return {.most_tokens = run.plan.max_prompt_length,
          .completion = run.plan.policy.max_completion_length,
          .completion_option = std::string(config::method_traits(run.plan.method).completion_limit),
          .positions = positions,
          .positions_by_factors = positions < model.max_position_embeddings};
}

std::shared_ptr<ToolUse> open_tools(OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const std::string where = "the chat template of " + plan.model_name_or_path;
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  const std::shared_ptr<const text::ChatTemplate> chat =
      acting_template(*run.text, plan.model_name_or_path, run.start.notes);
  const model::ModelConfig& model = run.source->config();
  std::vector<std::int32_t> stops;
  for (const std::int64_t id : generate_options_of(plan.policy, model, tokenizer).stop_ids)
    stops.push_back(static_cast<std::int32_t>(id));
  auto out = std::make_shared<ToolUse>(
      ToolUse{.pool = nullptr,
              .chat = chat,
              .parser = tools::ResponseParser::open(tokenizer, *chat, where),
              .suffixes = {tokenizer,
                           *chat,
                           {.plain_control_tokens = plan.acting.tool_text_control_tokens == "plain",
                            .template_kwargs = template_kwargs(plan),
                            .stop_ids = stops},
                           where},
              .most_rounds = plan.acting.max_tool_calling_iterations,
              .most_result_tokens = plan.acting.max_tool_result_tokens,
              .failures_to_stop = plan.acting.tool_failures_to_stop,
              .scores = config::method_traits(plan.method).rewarded,
              .template_kwargs = template_kwargs(plan),
              .vocab_size = model.vocab_size});
  tools::PoolOptions pool = pool_options(plan);
  pool.sessions = plan.policy.generation_batch_size;
  out->pool = std::make_shared<tools::ToolPool>(std::move(pool));
  for (const auto& [name, word] : pool_options(plan).environments) out->environments.push_back(name);
  out->limits = prompt_limits(run);
  for (const std::string& word : plan.acting.tools)
    out->shared_tools += tools::parse_tool_word(word, "tools").names.size();
  for (const std::string& note : out->pool->notes()) run.start.notes.push_back("tools: " + note);
  for (const std::string& note : out->parser.notes()) run.start.notes.push_back("tools: " + note);
  for (const std::string& note : out->suffixes.notes()) run.start.notes.push_back("tools: " + note);
  return out;
}

std::unique_ptr<tools::ToolPool> open_tool_pool(const config::Plan& plan) {
  return std::make_unique<tools::ToolPool>(pool_options(plan));
}

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

void require_rewards(const config::Plan& plan, const ToolUse& tools) {
  if (!tools.scores || !plan.policy.reward_funcs.empty() || !tools.reward_names().empty()) return;
  throw base::UserError(
      {.where = "reward_funcs",
       .expected = "something that scores: reward_funcs, or a get_reward of the environment",
       .found = "neither",
       .fix = "write reward_funcs, or give the environment a method get_reward(self)"});
}

}  // namespace hone::train
