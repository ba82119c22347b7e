// hone export: a model, with an adapter merged into it, as a GGUF file for llama.cpp.
#include <unistd.h>

#include <iostream>

#include "adapters/gguf_adapter.h"
#include "adapters/merge.h"
#include "adapters/peft_files.h"
#include "adapters/saved_vocabulary.h"
#include "adapters/server_rules.h"
#include "base/error.h"
#include "commands/base_check.h"
#include "commands/base_of_adapter.h"
#include "commands/commands.h"
#include "commands/compare.h"
#include "commands/hub/hub_download.h"
#include "commands/ranks/placement.h"
#include "config/commands/tool_plans.h"
#include "model/files/gguf_write.h"
#include "model/files/weight_source.h"
#include "report/long_work.h"
#include "report/terminal/terminal.h"
#include "train/opening/open_model.h"
#include "train/opening/score_source.h"

namespace hone::commands {

namespace {

model::GgufWeights weights_of(config::GgufOutType type) {
  switch (type) {
    case config::GgufOutType::kF32:
      return model::GgufWeights::kF32;
    case config::GgufOutType::kBF16:
      return model::GgufWeights::kBF16;
    case config::GgufOutType::kF16:
      return model::GgufWeights::kF16;
    case config::GgufOutType::kQ8_0:
      return model::GgufWeights::kQ8_0;
    case config::GgufOutType::kQ4_K_M:
      return model::GgufWeights::kQ4_K_M;
  }
  return model::GgufWeights::kF16;
}

std::string narrow_type(config::GgufOutType type) {
  if (type == config::GgufOutType::kQ8_0) return "Q8_0";
  return type == config::GgufOutType::kQ4_K_M ? "Q4_K_M" : "";
}

[[noreturn]] void refuse_reward_model(const std::string& where) {
  throw base::UserError({where, "a language model, to be written as a GGUF",
                         "a reward model, whose head gives a score", "llama.cpp does not run this head",
                         "hone merge writes a folder that transformers reads, and that reward_funcs takes"});
}

// What to do, where the server takes the file that was written.
std::string adapter_loss(adapters::ServerLoss loss, const config::ExportPlan& plan) {
  using adapters::Server;
  if (loss.server == Server::kLlamaCpp || loss.server == Server::kOllama)
    loss.groups.front().fix =
        "serve " + plan.output + ", whose scale is the true one, and not " + plan.adapter_name_or_path;
  return report::visible_controls(adapters::told_loss(loss));
}

// The adapter alone, for `llama-cli --model BASE.gguf --lora FILE`.
int export_adapter(const config::ExportPlan& plan) {
  if (const auto stack = adapter_stack(plan.base_adapters, plan.adapter_name_or_path); stack.size() > 1) {
    throw base::UserError(
        {plan.adapter_name_or_path, "an adapter that stands on its base directly, with --adapter_only",
         "it was trained above " + stack.front().string(), "llama.cpp adds adapters to the base one by one",
         "combine them first: hone merge --adapters A B --combination cat (exact), or leave out --adapter_only"});
  }
  const std::string base = base_of_adapter(plan.model_name_or_path, plan.adapter_name_or_path);
  const auto source = adapters::open_base(base, {plan.adapter_name_or_path});
  const model::ModelConfig& model = source->config();
  if (!source->replaced().empty()) {
    throw base::UserError(
        {plan.adapter_name_or_path, "an adapter of the base's own embedding, with --adapter_only",
         "one with an embedding of " + std::to_string(model.vocab_size) + " rows in its file",
         "the vocabulary was changed before it was trained; llama.cpp's format of adapters has no place for it",
         "leave out --adapter_only: the adapter is then merged into the model that is written"});
  }
  const adapters::StoredAdapter stored = adapters::read_adapter(plan.adapter_name_or_path, model);
  const base::GgmlType type = plan.outtype == config::GgufOutType::kF16    ? base::GgmlType::kF16
                              : plan.outtype == config::GgufOutType::kBF16 ? base::GgmlType::kBF16
                                                                           : base::GgmlType::kF32;
  const adapters::GgufAdapterFacts facts =
      adapters::write_gguf_adapter(stored, model, plan.adapter_name_or_path, plan.output, type);
  std::cout << report::visible_controls(plan.output) << ": " << plan.adapter_name_or_path << ", "
            << facts.modules << " modules, " << report::human_bytes(facts.bytes)
            << "; llama.cpp loads it with --lora onto a GGUF of " << base << std::endl;
  // What the format lacks was refused above: what is left to lose is the scale, where a server reads the folder.
  for (const adapters::ServerLoss& loss : adapters::silent_losses(plan.adapter_name_or_path, &model)) {
    std::cout << "warn      " << adapter_loss(loss, plan) << '\n';
  }
  return 0;
}

}  // namespace

int export_model(const std::vector<std::string>& arguments) {
  config::ExportPlan plan = with_downloads([&] { return config::parse_export(arguments); });
  if (plan.compare.count > 0 && !plan.adapter_only) place_and_tell(plan.compare.device, plan.notes);
  print_notes(plan.notes);
  if (plan.adapter_only) return export_adapter(plan);
  const std::vector<base::fs::path> folded = adapter_stack(plan.base_adapters, plan.adapter_name_or_path);
  if (adapters::score_of(folded).defined()) refuse_reward_model(plan.adapter_name_or_path);
  const std::string base =
      base_of_adapter(plan.model_name_or_path, folded.empty() ? "" : folded.back().string());
  std::vector<std::string> notes;
  const auto source = adapters::open_to_merge(base, folded, &notes);
  print_notes(notes);
  if (source->has(train::kScoreWeight)) refuse_reward_model(base);
  if (!folded.empty()) check_base_to_merge(*source, base, folded);
  const auto trained_on =
      train::quantize(plan.trained_on, plan.use_bnb_nested_quant, plan.quantize_moe_experts);
  const model::Adjust adjust =
      folded.empty() ? model::Adjust()
                     : adapters::merged_weights(*source, folded, trained_on,
                                                train::dtype_policy(plan.compare.precision).residual);
  const std::vector<base::Json> prompts = prompts_to_compare(plan.compare);
  const model::GgufFacts facts = [&] {
    const report::LongWork progress(std::cout, report::terminal_of(STDOUT_FILENO));
    return model::write_gguf(*source, plan.output, weights_of(plan.outtype), adjust);
  }();
  std::cout << report::visible_controls(plan.output) << ": " << base;
  for (const base::fs::path& adapter : folded)
    std::cout << (adapter == folded.front() ? " with " : " and ") << adapter.string();
  if (adjust) std::cout << " merged into it";
  std::cout << ", " << facts.tensors << " tensors, " << report::human_bytes(facts.bytes)
            << (facts.tokenizer ? ", with its tokenizer\n" : "; the source has no tokenizer to copy\n");
  if (facts.other_type > 0) {
    std::cout
        << facts.other_type
        << " matrices have rows that are not whole blocks of their type, and are stored in a wider type\n";
  }
  print_untied_head(base, folded);
  std::cout << std::flush;
  return compare_with_adapter(plan.compare, prompts,
                              {base, plan.base_adapters, plan.adapter_name_or_path, plan.trained_on,
                               plan.use_bnb_nested_quant, plan.quantize_moe_experts},
                              {plan.output, "the file", narrow_type(plan.outtype)});
}

}  // namespace hone::commands
