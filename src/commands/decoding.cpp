#include "commands/decoding.h"

#include <algorithm>
#include <array>

#include "adapters/frozen_adapters.h"
#include "adapters/saved_vocabulary.h"
#include "base/enum_names.h"
#include "base/error.h"
#include "commands/commands.h"
#include "model/files/weight_source.h"
#include "ops/machine/cuda.h"
#include "rollout/drafts.h"
#include "text/turn_end.h"
#include "train/opening/generate_options.h"

namespace hone::commands {

namespace {

base::Json as_messages(const base::Json& prompt) {
  if (prompt.is_array()) return prompt;
  return base::Json::array({{{"role", "user"}, {"content", prompt}}});
}

}  // namespace

std::unique_ptr<model::WeightSource> open_source(const config::DecodingPlan& plan,
                                                 std::vector<std::string>* notes) {
  std::vector<base::fs::path> folders(plan.base_adapters.begin(), plan.base_adapters.end());
  if (!plan.adapter_name_or_path.empty()) folders.emplace_back(plan.adapter_name_or_path);
  for (const config::NamedAdapter& one : plan.adapters) folders.emplace_back(one.folder);
  return adapters::open_base(plan.model_name_or_path, folders, notes);
}

OpenedModel open_model(const config::DecodingPlan& plan, bool tells_of_embedding) {
  OpenedModel out;
  std::vector<std::string> notes;
  const std::unique_ptr<model::WeightSource> source = open_source(plan, &notes);
  if (tells_of_embedding) print_notes(notes);
  out.model = std::make_unique<model::CausalLm>(
      *source, train::dtype_policy(plan.precision), model::Storage::kPacked,
      train::quantize(plan.quantized_base, plan.use_bnb_nested_quant, plan.quantize_moe_experts),
      ops::open_device(plan.device),
      /*keep_blocks=*/true);  // packed: nothing here trains
  if (const auto why = rollout::why_no_drafts(*out.model); why && plan.drafts != "off")
    print_notes({"drafts: nothing is guessed: " + *why});
  adapters::attach_frozen(*out.model, plan.base_adapters);
  const auto print_frozen_note = [&plan](const std::string& adapter) {
    if (const auto note = adapters::frozen_adapters_note(adapter, plan.base_adapters)) print_notes({*note});
  };
  if (const std::string& folder = plan.adapter_name_or_path; !folder.empty()) {
    print_frozen_note(folder);
    out.adapter = adapters::Adapter::load(*out.model, folder);
    adapters::require_kind(out.adapter->config(), /*score_head=*/false, folder);
  }
  if (plan.adapters.empty()) {
    if (!out.adapter) out.model->join_linears();  // an adapter has done so
    return out;
  }
  out.adapters.emplace(*out.model);
  for (const config::NamedAdapter& one : plan.adapters) {
    print_frozen_note(one.folder);
    out.adapters->load(one.name, one.folder);
  }
  out.adapters->activate(plan.adapters.front().name);
  return out;
}

base::Json template_variables(const config::DecodingPlan& plan) {
  const std::string& text = plan.chat_template_kwargs;
  return text.empty() ? base::Json() : base::parse_json(text, "chat_template_kwargs");
}

std::vector<std::int32_t> encode_prompt(const base::Json& source, const train::OpenedText& opened, bool chat,
                                        const base::Json& variables) {
  if (!chat) {
    if (source.is_string()) return opened.tokenizer.encode(source.get<std::string>(), true).ids;
    throw base::UserError(
        {.where = "prompt",
         .expected = "a chat template for a prompt of messages",
         .found = opened.chat_template ? "--chat false" : "a tokenizer without a chat template",
         .fix = opened.chat_template ? "leave out --chat false" : "give the prompts as text"});
  }
  return text::tokenize_chat(opened.tokenizer, *opened.chat_template,
                             {.messages = as_messages(source),
                              .tools = {},
                              .template_kwargs = variables,
                              .add_generation_prompt = true})
      .ids;
}

rollout::GenerateOptions generate_options(const config::SamplingPlan& plan, const model::ModelConfig& config,
                                          const text::Tokenizer& tokenizer) {
  rollout::GenerateOptions out = train::generate_options_of(plan, config, tokenizer);
  out.max_new_tokens = plan.max_new_tokens;
  out.seed = static_cast<std::uint64_t>(plan.seed);
  return out;
}

void stop_at_turn_end(rollout::GenerateOptions& options, const train::OpenedText& opened,
                      const model::ModelConfig& config) {
  std::optional<std::int32_t> end;
  try {
    end = text::turn_end(opened.tokenizer, *opened.chat_template);
  } catch (const base::UserError&) {
    return;  // the template takes no question and answer; the prompt itself will say so, or it does not matter
  }
  if (end && *end < config.vocab_size) options.stop_ids.push_back(*end);
}

std::string_view finish_reason_name(rollout::FinishReason finish_reason) {
  static constexpr std::array<std::string_view, 4> kNames = {"length", "stop_token", "stop_string",
                                                             "cancelled"};
  return base::enum_name(kNames, finish_reason);
}

}  // namespace hone::commands
