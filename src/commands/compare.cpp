#include "commands/compare.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "commands/decoding.h"
#include "data/forms/prompts.h"
#include "doctor/tools/merged_model.h"
#include "model/files/weight_source.h"
#include "ops/machine/cuda.h"
#include "ops/machine/device_memory.h"
#include "report/terminal/terminal.h"
#include "report/terminal/verdict_lines.h"
#include "train/facts/machine.h"
#include "train/opening/model_reward.h"
#include "train/opening/open_model.h"

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
  const std::int64_t free = ops::device_memory(ops::open_device(plan.device)).free;
  if (free == 0 || bytes + bytes / 4 <= free) return "";
  return "it needs about " + report::human_bytes(bytes + bytes / 4) + " of memory, " +
         report::human_bytes(free) + " are free" +
         (plan.precision == config::Precision::kFloat32 ? " (--bf16 needs half)" : "");
}

std::vector<doctor::GreedyPath> right_paths(const config::ComparePlan& plan,
                                            const std::vector<base::Json>& prompts,
                                            const AdapterOnBase& right) {
  config::DecodingPlan opening;
  opening.model_name_or_path = right.base;
  opening.base_adapters = right.base_adapters;
  opening.adapter_name_or_path = right.adapter;
  opening.device = plan.device;
  opening.precision = plan.precision;
  opening.quantized_base = right.trained_on;
  opening.use_bnb_nested_quant = right.nested;
  opening.quantize_moe_experts = right.experts;
  const train::OpenedText text = train::open_text(open_source(opening)->tokenizer_path(), "");
  std::vector<std::vector<std::int32_t>> ids;
  for (const base::Json& prompt : prompts)
    ids.push_back(encode_prompt(prompt, text, text.chat_template != nullptr));
  const OpenedModel model = open_model(opening, /*tells_of_embedding=*/false);
  const auto stop_ids = generate_options({}, model.model->config(), text.tokenizer).stop_ids;
  return doctor::greedy_paths(*model.model, ids, stop_ids, plan.max_new_tokens);
}

constexpr double kMostOfRange =
    0.05;  // a difference of scores that rounding explains, as a share of their range

// Two answers to each prompt; messages become text, since not every tokenizer has a template.
rewards::Request requests_of(const std::vector<base::Json>& prompts) {
  rewards::Request out;
  for (const base::Json& prompt : prompts) {
    const std::string text = prompt.is_string() ? prompt.get<std::string>() : base::dump_json(prompt);
    for (const char* answer : {" Yes, of course: here is how.", " no no no"}) {
      out.prompts.emplace_back(text);
      out.completions.emplace_back(answer);
    }
  }
  out.completion_ids.resize(out.size());
  return out;
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

base::Verdict scores_verdict(const std::vector<double>& adapter, const std::vector<double>& merged) {
  double widest = 0, least = adapter.front(), most = adapter.front();
  for (std::size_t i = 0; i < adapter.size(); ++i) {
    widest = std::max(widest, std::abs(adapter[i] - merged[i]));
    least = std::min(least, adapter[i]);
    most = std::max(most, adapter[i]);
  }
  const bool same = widest <= kMostOfRange * (most - least) || widest <= 1e-3;
  base::Verdict out = {.code = "CKPT-02",
                       .level = same ? base::Level::kNote : base::Level::kWarn,
                       .part = "merge",
                       .what = same ? "the merged model gives the scores of the adapter on its base"
                                    : "the merged model gives other scores than the adapter on its base",
                       .evidence = std::to_string(adapter.size()) + " texts, scores from " +
                                   short_number(least) + " to " + short_number(most) +
                                   ", largest difference " + short_number(widest)};
  if (same) {
    out.what += ": " + out.evidence;
    return out;
  }
  out.cause =
      "the merged weights were rounded to the base's dtype, or the base is not the one of the training";
  out.fix = "keep the adapter, which reward_funcs takes too; or merge into the base that it was trained on";
  out.cost = "another order of answers that are close";
  return out;
}

}  // namespace

int compare_scores(const config::ComparePlan& plan, const std::vector<base::Json>& prompts,
                   const AdapterOnBase& right, const std::string& written) {
  if (plan.count == 0 || prompts.empty()) return 0;
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.threads)));
  std::string why = obstacle(right, plan);
  try {
    if (why.empty()) {
      const rewards::Request request = requests_of(prompts);
      const at::Device device = ops::open_device(plan.device);
      const auto scores = [&](const std::string& folder, const std::string& base) {
        return train::open_model_reward(folder, plan.precision, {}, device, base)->score(request).values;
      };
      const base::Verdict verdict = scores_verdict(scores(right.adapter, right.base), scores(written, ""));
      std::cout << report::run_verdict_lines(verdict, 0, report::terminal_of(STDOUT_FILENO));
      return 0;
    }
  } catch (const base::UserError& error) {
    why = error.text().where + ": " + error.text().found;
  }
  std::cout << "not compared with the unmerged adapter on its base: " << why << '\n';
  return 0;
}

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
                              model::Storage::kPacked, {}, ops::open_device(plan.device));
  base::Verdict verdict =
      doctor::merged_verdict(doctor::compare_models(other, paths), written.words, written.narrow);
  if (verdict.level < base::Level::kWarn) verdict.what += "; " + verdict.evidence;
  std::cout << report::run_verdict_lines(verdict, 0, report::terminal_of(STDOUT_FILENO));
  return verdict.level == base::Level::kFail ? 2 : 0;
}

}  // namespace hone::commands
