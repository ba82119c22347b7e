// hone generate: prompts -> completions, to the terminal or a JSONL file.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/files/apart.h"
#include "base/files/file.h"
#include "base/json.h"
#include "commands/commands.h"
#include "commands/decoding.h"
#include "commands/hub/hub_download.h"
#include "commands/process/own_output.h"
#include "commands/ranks/placement.h"
#include "config/commands/tool_plans.h"
#include "data/forms/prompts.h"
#include "ops/machine/step_graphs.h"
#include "report/terminal/terminal.h"
#include "rollout/generate.h"
#include "train/facts/machine.h"
#include "train/opening/open_model.h"

namespace hone::commands {

namespace {

using base::Json;

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

// The completions of all prompts, by one adapter of several or by the model as it is.
struct Answers {
  std::string adapter;  // empty: it is not one of several
  std::vector<rollout::Completion> completions;
};

// By each adapter: all in one engine where they are LoRA or DoRA alone, otherwise one adapter after another.
std::vector<Answers> all_answers(const config::GeneratePlan& plan, OpenedModel& model,
                                 const std::vector<std::vector<std::int32_t>>& ids,
                                 rollout::GenerateOptions options, const rollout::OnDone& on_done) {
  if (!model.adapters) return {{"", rollout::generate(*model.model, ids, options, on_done)}};
  std::vector<Answers> answers;
  std::vector<std::shared_ptr<const ops::AdapterSides>> sides;
  for (const config::NamedAdapter& adapter : plan.adapters) {
    answers.push_back({adapter.name, {}});
    sides.push_back(model.adapters->sides(adapter.name));
  }
  if (std::find(sides.begin(), sides.end(), nullptr) != sides.end()) {
    for (Answers& one : answers) {
      model.adapters->activate(one.adapter);
      one.completions = rollout::generate(*model.model, ids, options, on_done);
    }
    return answers;
  }
  model.adapters->deactivate();
  std::vector<std::vector<std::int32_t>> prompts;
  for (const auto& one : sides) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      prompts.push_back(ids[i]);
      options.prompt_keys.push_back(i);
      options.adapters.push_back(one);
    }
  }
  std::vector<rollout::Completion> all = rollout::generate(*model.model, prompts, options, on_done);
  const std::size_t each = all.size() / answers.size();
  for (std::size_t i = 0; i < all.size(); ++i) answers[i / each].completions.push_back(std::move(all[i]));
  return answers;
}

// A line of --output: one completion.
Json json_line(const Json& prompt, const std::string& adapter, const rollout::Completion& completion,
               const std::string& text) {
  Json out = {{"prompt", prompt},
              {"completion", text},
              {"completion_ids", completion.ids},
              {"tokens", completion.ids.size()},
              {"stopped", completion.finish_reason != rollout::FinishReason::kLength},
              {"ended", finish_reason_name(completion.finish_reason)}};
  if (!adapter.empty()) out["adapter"] = adapter;
  return out;
}

// To stdout (printable, whatever it is), or as lines for --output: a prompt's completions by each adapter in
// turn.
std::string write(const std::vector<Answers>& answers, const std::vector<Json>& sources,
                  const config::GeneratePlan& plan, const text::Tokenizer& tokenizer) {
  const auto samples = static_cast<std::size_t>(plan.num_return_sequences);
  std::string lines;
  const auto one = [&](const Json& source, const std::string& adapter,
                       const rollout::Completion& completion) {
    const std::string text = tokenizer.decode(completion.ids, true);
    if (plan.output.empty()) {
      if (!adapter.empty()) std::cout << report::visible_controls(adapter) << ": ";
      std::cout << report::visible_controls(text) << '\n';  // --output has it as it is
      return;
    }
    Json line = json_line(source, adapter, completion, text);
    if (plan.logprobs) {
      line["logprobs"] = completion.logprobs;
      line["sampled_logprobs"] = completion.sampled_logprobs;
    }
    lines += base::dump_json(line) + "\n";
  };
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (const auto& [adapter, completions] : answers) {
      for (std::size_t k = i * samples; k < (i + 1) * samples; ++k) one(sources[i], adapter, completions[k]);
    }
  }
  return lines;
}

// The file of --output is written in the end: that it is nothing that is read is told before.
void require_apart_output(const config::GeneratePlan& plan) {
  if (plan.output.empty()) return;
  std::vector<base::ReadPlace> read = {{.option = "model_name_or_path", .path = plan.model_name_or_path},
                                       {.option = "adapter_name_or_path", .path = plan.adapter_name_or_path},
                                       {.option = "prompts", .path = plan.prompts_file}};
  for (const config::NamedAdapter& one : plan.adapters)
    read.push_back({.option = "adapters", .path = one.folder});
  for (const std::string& below : plan.base_adapters)
    read.push_back({.option = "base_adapters", .path = below});
  const auto is_completions = [](const std::string& text) {
    return is_object_with(text, "completion", "completion_ids");
  };
  const bool own = is_own_output(plan.output, is_completions);
  base::require_apart({{.option = "output", .path = plan.output, .own = own}}, read);
  require_own_output(plan.output, "one of completions", "completions.jsonl", is_completions);
}

}  // namespace

int generate(const std::vector<std::string>& arguments) {
  config::GeneratePlan plan = with_downloads([&] { return config::parse_generate(arguments); });
  place_and_tell(plan.device, plan.notes);
  print_notes(plan.notes);
  require_apart_output(plan);
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.threads)));
  const train::OpenedText opened = train::open_text(open_source(plan)->tokenizer_path(), "");
  print_notes(opened.tokenizer.notes());
  const bool chat = use_chat(plan, opened);
  std::vector<std::vector<std::int32_t>> ids;
  const std::vector<Json> sources = prompt_sources(plan);
  for (const Json& source : sources)
    ids.push_back(encode_prompt(source, opened, chat, template_variables(plan)));

  OpenedModel model = open_model(plan);
  rollout::GenerateOptions options = generate_options(plan, model.model->config(), opened.tokenizer);
  if (chat) stop_at_turn_end(options, opened, model.model->config());
  options.samples = plan.num_return_sequences;
  options.batch_size = plan.max_batch_size;
  options.kv_memory = plan.kv_memory;
  options.logprobs = plan.logprobs;
  const std::size_t turns = std::max<std::size_t>(1, plan.adapters.size());
  const std::size_t total = ids.size() * static_cast<std::size_t>(options.samples) * turns;
  const bool progress = isatty(STDERR_FILENO) == 1 && total > 1;
  std::size_t finished = 0;
  const auto on_done = [&](std::size_t, const rollout::Completion&) {
    if (progress) std::cerr << "\r\x1b[K" << ++finished << '/' << total << std::flush;
  };
  const std::vector<Answers> answers = all_answers(plan, model, ids, options, on_done);
  if (progress) std::cerr << '\n';
  if (const std::string note = ops::step_graphs_note(); !note.empty()) print_notes({note});

  const std::string lines = write(answers, sources, plan, opened.tokenizer);
  if (!plan.output.empty()) base::write_file_atomic(plan.output, lines);
  return 0;
}

}  // namespace hone::commands
