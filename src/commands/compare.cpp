#include "commands/compare.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/process_memory.h"
#include "commands/decoding.h"
#include "data/prompts.h"
#include "doctor/tools/merged_model.h"
#include "model/weight_source.h"
#include "report/terminal.h"
#include "report/verdict_lines.h"
#include "train/machine.h"
#include "train/open_model.h"

namespace hone::commands {

namespace {

// Why it is not compared; empty: it is.
std::string obstacle(const AdapterOnBase& right, const config::ComparePlan& plan) {
  const auto source = model::open_weights(right.base);
  std::int64_t numbers = 0;
  for (const std::string& name : source->names()) {
    std::int64_t count = 1;
    for (const std::int64_t size : source->shape(name)) count *= size;
    numbers += count;
  }
  const std::int64_t bytes = numbers * (plan.precision == config::Precision::kFloat32 ? 4 : 2);
  const std::int64_t free = base::free_memory();
  if (free == 0 || bytes + bytes / 4 <= free) return "";
  return "it needs about " + report::human_bytes(bytes + bytes / 4) + " of memory, " +
         report::human_bytes(free) + " are free" +
         (plan.precision == config::Precision::kFloat32 ? " (--bf16 needs half)" : "");
}

std::vector<doctor::GreedyPath> right_paths(const config::ComparePlan& plan,
                                            const std::vector<base::Json>& prompts,
                                            const AdapterOnBase& right) {
  const train::OpenedText text = train::open_text(right.base, "");
  std::vector<std::vector<std::int32_t>> ids;
  for (const base::Json& prompt : prompts)
    ids.push_back(encode_prompt(prompt, text, text.chat_template != nullptr));
  config::DecodingPlan opening;
  opening.model_name_or_path = right.base;
  opening.base_adapters = right.base_adapters;
  opening.adapter_name_or_path = right.adapter;
  opening.precision = plan.precision;
  opening.quantized_base = right.trained_on;
  opening.use_bnb_nested_quant = right.nested;
  opening.quantize_moe_experts = right.experts;
  const OpenedModel model = open_model(opening);
  const auto stop_ids = generate_options({}, model.model->config(), text.tokenizer).stop_ids;
  return doctor::greedy_paths(*model.model, ids, stop_ids, plan.max_new_tokens);
}

}  // namespace

std::vector<base::Json> prompts_to_compare(const config::ComparePlan& plan) {
  if (plan.count == 0) return {};
  std::vector<base::Json> out(doctor::check_prompts().begin(), doctor::check_prompts().end());
  if (!plan.prompts.empty()) out = data::read_prompts(plan.prompts);
  out.resize(std::min(out.size(), static_cast<std::size_t>(plan.count)));
  return out;
}

int compare_with_adapter(const config::ComparePlan& plan, const std::vector<base::Json>& prompts,
                         const AdapterOnBase& right, const Written& written) {
  if (plan.count == 0) return 0;
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.threads)));
  std::string why = obstacle(right, plan);
  std::vector<doctor::GreedyPath> paths;
  try {
    if (why.empty()) paths = right_paths(plan, prompts, right);
  } catch (const base::UserError& error) {
    why = error.text().where + ": " + error.text().found;
  }
  if (!why.empty()) {
    std::cout << "not compared with "
              << (right.adapter.empty() ? "the model"
                                        : "the unmerged adapter on its "
                                          "base")
              << ": " << why << '\n';
    return 0;
  }
  const model::CausalLm other(*model::open_weights(written.path), train::dtype_policy(plan.precision),
                              model::Storage::kPacked);
  base::Verdict verdict =
      doctor::merged_verdict(doctor::compare_models(other, paths), written.words, written.narrow);
  if (verdict.level < base::Level::kWarn) verdict.what += "; " + verdict.evidence;
  std::cout << report::run_verdict_lines(verdict, 0, report::terminal_of(STDOUT_FILENO));
  return verdict.level == base::Level::kFail ? 2 : 0;
}

}  // namespace hone::commands
