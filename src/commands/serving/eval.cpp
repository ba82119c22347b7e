// hone eval MODEL --tasks arc_easy: a server of the model on a free port, asked by the user's lm-eval.
#include <ctime>
#include <iostream>

#include "base/error.h"
#include "base/strings/printable.h"
#include "commands/commands.h"
#include "commands/hub/hub_download.h"
#include "commands/serving/lm_eval.h"
#include "commands/serving/serve.h"
#include "config/commands/eval_plan.h"
#include "report/page/evaluation.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace fs = base::fs;

namespace {

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::is_regular_file(folder / train::kMetricsFile, none);
}

fs::path output_of(const config::EvalPlan& plan) {
  if (!plan.output.empty()) return plan.output;
  for (const std::string& folder : {plan.serve.adapter_name_or_path, plan.serve.model_name_or_path})
    if (!folder.empty() && is_run(folder)) return folder;
  return "evaluation";
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

std::vector<std::string> words_of(const config::EvalPlan& plan, const Serving& serving) {
  std::vector<std::string> out = {
      "--model",
      "local-completions",
      "--tasks",
      joined(plan.tasks),
      "--batch_size",
      std::to_string(plan.batch_size),
      "--model_args",
      "base_url=" + serving.url +
          "/v1/completions,model=model,tokenizer_backend=remote,num_concurrent=4,max_length=" +
          std::to_string(serving.max_length) + (serving.begins_texts ? ",add_bos_token=True" : "")};
  const auto add = [&](const char* name, const std::string& value) { out.insert(out.end(), {name, value}); };
  if (plan.num_fewshot >= 0) add("--num_fewshot", std::to_string(plan.num_fewshot));
  if (plan.limit > 0) add("--limit", std::to_string(plan.limit));
  if (!plan.include_path.empty()) add("--include_path", plan.include_path);
  if (plan.apply_chat_template) out.emplace_back("--apply_chat_template");
  return out;
}

std::string called(const config::ServePlan& plan) {
  return plan.adapter_name_or_path.empty() ? plan.model_name_or_path
                                           : plan.model_name_or_path + " with " + plan.adapter_name_or_path;
}

}  // namespace

int eval(const std::vector<std::string>& arguments) {
  config::EvalPlan plan = with_downloads([&] { return config::parse_eval(arguments); });
  const LmEval harness = find_lm_eval(plan.python);
  const fs::path folder = output_of(plan);
  fs::create_directories(folder);
  report::Evaluation found{.model = called(plan.serve), .harness = "lm-eval " + harness.version};
  plan.serve.served_model_name = "model";
  const int code = serve_while(plan.serve, [&](const Serving& serving) {
    const base::Json results =
        run_lm_eval(harness, words_of(plan, serving), folder / "lm_eval", serving.stop_signal);
    found.rows = report::rows_of_lm_eval(results, "lm-eval " + harness.version);
  });
  found.time = static_cast<std::int64_t>(std::time(nullptr));
  report::write_evaluation(folder, found);
  std::cout << report::evaluation_table(found.rows) << std::endl;
  std::cerr << "written   " << base::printable((folder / report::kEvaluationFile).string()) << '\n';
  if (is_run(folder)) report_runs({folder.string()});
  return code;
}

}  // namespace hone::commands
