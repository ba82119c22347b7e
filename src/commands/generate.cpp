// hone generate: prompts -> completions, to the terminal or a JSONL file.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <iostream>
#include <optional>

#include "adapters/lora.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "commands/commands.h"
#include "config/tool_plans.h"
#include "data/prompts.h"
#include "model/causal_lm.h"
#include "report/terminal.h"
#include "rollout/generate.h"
#include "train/machine.h"
#include "train/open_model.h"

namespace hone::commands {

namespace {

using base::Json;

Json as_messages(const Json& prompt) {
  if (prompt.is_array()) return prompt;
  return Json::array({{{"role", "user"}, {"content", prompt}}});
}

// A prompt, text or messages, as tokens.
std::vector<std::int32_t> encode(const Json& source, const train::OpenedText& opened, bool chat) {
  if (!chat) {
    if (source.is_string()) return opened.tokenizer.encode(source.get<std::string>(), true).ids;
    throw base::UserError(
        {.where = "prompt",
         .expected = "a chat template for a prompt made of messages",
         .found = opened.chat_template ? "--chat false" : "a tokenizer without a chat template",
         .fix = opened.chat_template ? "leave out --chat false" : "give the prompts as text"});
  }
  return text::tokenise_chat(opened.tokenizer, *opened.chat_template,
                             {.messages = as_messages(source),
                              .tools = {},
                              .template_kwargs = {},
                              .add_generation_prompt = true})
      .ids;
}

std::vector<Json> prompt_sources(const config::GeneratePlan& plan) {
  std::vector<Json> out(plan.prompts.begin(), plan.prompts.end());
  if (plan.prompts_file.empty()) return out;
  for (const Json& row : data::read_prompts(plan.prompts_file)) out.push_back(row);
  return out;
}

bool use_chat(const config::GeneratePlan& plan, const train::OpenedText& opened) {
  const bool has_template = opened.chat_template != nullptr;
  if (plan.chat.value_or(has_template) && !has_template) {
    throw base::UserError({.where = "--chat",
                           .expected = "a tokenizer with a chat template",
                           .found = plan.model_name_or_path + " has none",
                           .cause = "a base model that was never tuned for conversation",
                           .fix = "leave out --chat and give the whole text as the prompt"});
  }
  return plan.chat.value_or(has_template);
}

std::vector<std::int64_t> stop_ids(const model::ModelConfig& config, const text::Tokenizer& tokenizer) {
  std::vector<std::int64_t> out = config.eos_token_ids;
  if (const auto eos = tokenizer.eos_id()) out.push_back(*eos);
  return out;
}

}  // namespace

int generate(const std::vector<std::string>& arguments) {
  const config::GeneratePlan plan = config::parse_generate(arguments);
  say_notes(plan.notes);
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.threads)));
  const train::OpenedText opened = train::open_text(plan.model_name_or_path, "");
  const bool chat = use_chat(plan, opened);
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<Json> sources = prompt_sources(plan);
  for (const Json& source : sources) ids.push_back(encode(source, opened, chat));

  const auto weights = model::open_weights(plan.model_name_or_path);
  model::CausalLm model(*weights, train::numbers(plan.precision));
  std::optional<adapters::Adapter> adapter;
  if (!plan.adapter_name_or_path.empty()) adapter = adapters::Adapter::load(model, plan.adapter_name_or_path);
  const rollout::GenerateOptions options = {
      .max_new_tokens = plan.max_new_tokens,
      .sampler = {.temperature = plan.temperature, .top_k = plan.top_k, .top_p = plan.top_p},
      .seed = static_cast<std::uint64_t>(plan.seed),
      .stop_ids = stop_ids(model.config(), opened.tokenizer)};
  const bool progress = isatty(STDERR_FILENO) == 1 && ids.size() > 1;
  std::size_t finished = 0;
  const auto completions = rollout::generate(model, ids, options, [&](std::size_t) {
    if (progress) std::cerr << '\r' << ++finished << '/' << ids.size() << std::flush;
  });
  if (progress) std::cerr << '\n';

  // In a file or a pipe the text stays as it is.
  const bool to_terminal = isatty(STDOUT_FILENO) == 1;
  std::string lines;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string text = opened.tokenizer.decode(completions[i].ids, true);
    if (plan.output.empty()) {
      std::cout << (to_terminal ? report::visible_controls(text) : text) << '\n';
      continue;
    }
    const Json line = {{"prompt", sources[i]},
                       {"completion", text},
                       {"completion_ids", completions[i].ids},
                       {"tokens", completions[i].ids.size()},
                       {"stopped", completions[i].stopped}};
    lines += base::dump_json(line) + "\n";
  }
  if (!plan.output.empty()) base::write_file_atomic(plan.output, lines);
  return 0;
}

}  // namespace hone::commands
