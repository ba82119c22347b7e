// hone merge: an adapter folded into a copy of its base.
#include "adapters/merge.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "adapters/combine.h"
#include "adapters/frozen_adapters.h"
#include "adapters/saved_vocabulary.h"
#include "base/files/file.h"
#include "commands/base_check.h"
#include "commands/base_of_adapter.h"
#include "commands/commands.h"
#include "commands/compare.h"
#include "commands/hub/hub_download.h"
#include "commands/ranks/placement.h"
#include "config/commands/tool_plans.h"
#include "model/files/weight_source.h"
#include "report/long_work.h"
#include "report/terminal/terminal.h"
#include "train/facts/machine.h"
#include "train/opening/open_model.h"

namespace hone::commands {

namespace {

adapters::Combination combination_of(const std::string& word) {
  using adapters::Combination;
  if (word == "cat") return Combination::kCat;
  if (word == "svd") return Combination::kSvd;
  if (word == "ties") return Combination::kTies;
  if (word == "ties_svd") return Combination::kTiesSvd;
  if (word == "magnitude_prune") return Combination::kMagnitudePrune;
  if (word == "magnitude_prune_svd") return Combination::kMagnitudePruneSvd;
  return Combination::kLinear;
}

// What one of the adapters was trained above has to be among them, in full: the result says nothing of it.
void print_missing_frozen(const config::MergePlan& plan) {
  std::vector<adapters::FrozenAdapters> whole;  // those that are in the result as they are
  for (std::size_t i = 0; i < plan.adapters.size(); ++i) {
    if (plan.combination == "cat" && plan.weights[i] == 1)
      whole.push_back(adapters::frozen_adapters_of({plan.adapters[i]}));
  }
  for (const std::string& adapter : plan.adapters) {
    const adapters::FrozenAdapters below = adapters::read_frozen_adapters(adapter);
    for (std::size_t i = 0; i < below.folders.size(); ++i) {
      const bool there = std::any_of(whole.begin(), whole.end(), [&](const adapters::FrozenAdapters& one) {
        return one.checksums.front() == below.checksums[i];
      });
      if (there) continue;
      print_notes({adapter + " was trained above " + below.folders[i] +
                   ", which is not in the result in full (by cat, with weight 1): name it in base_adapters "
                   "wherever the result is used"});
    }
  }
}

int combine(const config::MergePlan& plan) {
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.compare.threads)));
  print_missing_frozen(plan);
  const std::string base = base_of_adapter(plan.model_name_or_path, plan.adapters.front());
  const std::vector<base::fs::path> folders(plan.adapters.begin(), plan.adapters.end());
  const auto source = adapters::open_base(base, folders);
  std::vector<adapters::StoredAdapter> stored;
  for (const std::string& adapter : plan.adapters)
    stored.push_back(adapters::read_adapter(adapter, source->config()));
  adapters::StoredAdapter made = adapters::combine(
      stored, plan.adapters, plan.weights,
      {.how = combination_of(plan.combination),
       .density = plan.density,
       .election = plan.elects_by_frequency ? adapters::Election::kFrequency : adapters::Election::kTotal,
       .svd_rank = plan.svd_rank},
      source->config());
  made.config.base_model_name_or_path = base;
  base::StagedFolder staged(plan.output);
  std::map<std::string, at::Tensor> tensors = adapters::tensors_of(made);
  adapters::add_vocabulary(*source, made, tensors);
  adapters::write_adapter(staged.path(), made.config, tensors);
  staged.commit();
  std::cout << report::visible_controls(plan.output) << ": " << plan.adapters.size()
            << " adapters in one of rank " << made.config.r << '\n';
  return 0;
}

}  // namespace

int merge(const std::vector<std::string>& arguments) {
  config::MergePlan plan = with_downloads([&] { return config::parse_merge(arguments); });
  if (plan.compare.count > 0 && plan.adapters.empty()) place_and_tell(plan.compare.device, plan.notes);
  print_notes(plan.notes);
  if (!plan.adapters.empty()) return combine(plan);
  const std::string model = base_of_adapter(plan.model_name_or_path, plan.adapter_name_or_path);
  const std::vector<base::Json> prompts = prompts_to_compare(plan.compare);
  const std::vector<base::fs::path> folded = adapter_stack(plan.base_adapters, plan.adapter_name_or_path);
  std::vector<std::string> notes;
  const std::unique_ptr<model::WeightSource> source = adapters::open_base(model, folded, &notes);
  print_notes(notes);
  {
    const report::LongWork progress(std::cout, report::terminal_of(STDOUT_FILENO));
    check_base_to_merge(*source, model, folded);
    adapters::merge_to_folder(
        model, folded, plan.output,
        train::quantize(plan.trained_on, plan.use_bnb_nested_quant, plan.quantize_moe_experts),
        train::dtype_policy(plan.compare.precision).residual);
  }
  std::cout << report::visible_controls(plan.output) << ": " << model << " with ";
  for (const std::string& below : plan.base_adapters) std::cout << below << " and ";
  std::cout << plan.adapter_name_or_path << " merged into it" << std::endl;
  print_untied_head(model, folded);
  if (adapters::score_of(folded).defined())
    return compare_scores(plan.compare, prompts, {model, {}, plan.adapter_name_or_path}, plan.output);
  return compare_with_adapter(plan.compare, prompts,
                              {model, plan.base_adapters, plan.adapter_name_or_path, plan.trained_on,
                               plan.use_bnb_nested_quant, plan.quantize_moe_experts},
                              {plan.output, "the merged model", ""});
}

}  // namespace hone::commands
