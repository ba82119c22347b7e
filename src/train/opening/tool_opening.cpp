#include "train/opening/tool_opening.h"

#include "base/error.h"
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
    const std::size_t equal = word.find('=');
    const bool named = equal != std::string::npos;
    out.environments[named ? word.substr(0, equal) : ""] = named ? word.substr(equal + 1) : word;
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
              .template_kwargs = template_kwargs(plan),
              .vocab_size = model.vocab_size});
  out->pool = std::make_unique<tools::ToolPool>(pool_options(plan));
  for (const auto& [name, word] : pool_options(plan).environments) out->environments.push_back(name);
  for (const std::string& note : out->pool->notes()) run.start.notes.push_back("tools: " + note);
  for (const std::string& note : out->parser.notes()) run.start.notes.push_back("tools: " + note);
  for (const std::string& note : out->suffixes.notes()) run.start.notes.push_back("tools: " + note);
  return out;
}

void require_rewards(const config::Plan& plan, const ToolUse& tools) {
  if (!plan.policy.reward_funcs.empty() || !tools.reward_names().empty()) return;
  throw base::UserError(
      {.where = "reward_funcs",
       .expected = "something that scores: reward_funcs, or a get_reward of the environment",
       .found = "neither",
       .fix = "write reward_funcs, or give the environment a method get_reward(self)"});
}

}  // namespace hone::train
