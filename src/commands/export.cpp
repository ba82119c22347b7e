// hone export: a model, with an adapter merged into it, as a GGUF file for llama.cpp.
#include <iostream>

#include "adapters/merge.h"
#include "commands/base_of_adapter.h"
#include "commands/commands.h"
#include "commands/compare.h"
#include "config/tool_plans.h"
#include "model/gguf_write.h"
#include "model/weight_source.h"
#include "report/terminal.h"
#include "train/open_model.h"

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

}  // namespace

int export_model(const std::vector<std::string>& arguments) {
  const config::ExportPlan plan = config::parse_export(arguments);
  print_notes(plan.notes);
  const std::vector<base::fs::path> folded = adapter_stack(plan.base_adapters, plan.adapter_name_or_path);
  const std::string base =
      base_of_adapter(plan.model_name_or_path, folded.empty() ? "" : folded.back().string());
  const auto source = model::open_weights(base);
  const auto trained_on = train::quantize(plan.trained_on, plan.use_bnb_nested_quant);
  const model::Adjust adjust =
      folded.empty() ? model::Adjust()
                     : adapters::merged_weights(*source, folded, trained_on,
                                                train::dtype_policy(plan.compare.precision).residual);
  const std::vector<base::Json> prompts = prompts_to_compare(plan.compare);
  const model::GgufFacts facts = model::write_gguf(*source, plan.output, weights_of(plan.outtype), adjust);
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
  std::cout << std::flush;
  return compare_with_adapter(
      plan.compare, prompts,
      {base, plan.base_adapters, plan.adapter_name_or_path, plan.trained_on, plan.use_bnb_nested_quant},
      {plan.output, "the file", narrow_type(plan.outtype)});
}

}  // namespace hone::commands
