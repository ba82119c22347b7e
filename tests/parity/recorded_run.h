// Tests of whole runs against TRL's recorded ones share these: what a run logged, and how it is compared.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "config/plan.h"
#include "parity/golden.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::parity {

// They bound a step from TRL's own weights, and the steps after it, whose weights have already been moved.
constexpr double kFirstStepBound = 1e-4;
constexpr double kLaterStepBound = 5e-4;
// SmolLM2: TRL against itself with other kernels differs by 3e-4 in rewards.
constexpr double kRealModelBound = 1e-3;

// Keeps what a run logged: steps and evaluations; not the line of its end.
class LogKeeper final : public train::RunListener {
 public:
  using Record = std::map<std::string, double>;
  void on_log(const train::LogRecord& record) override {
    Record values(record.values.begin(), record.values.end());
    values["epoch"] = record.epoch;
    values["step"] = static_cast<double>(record.step);
    if (values.contains("loss")) steps.push_back(values);
    if (values.contains("eval_loss")) evals.push_back(values);
  }
  std::vector<Record> steps, evals;
};

// One recorded run with one form of the pass: "shared", "explicit" or "plain".
struct RecordedCase {
  std::string name, form;
  bool is_real() const { return name.starts_with("smollm2"); }
};
inline std::ostream& operator<<(std::ostream& out, const RecordedCase& one) {
  return out << one.name << ", " << one.form;
}

inline base::fs::path recorded_file(const std::string& folder, const std::string& name, const char* ending) {
  return base::fs::path(HONE_FIXTURES) / "parity" / folder / (name + ending);
}

inline base::Json recorded_json(const std::string& folder, const std::string& name) {
  const base::fs::path path = recorded_file(folder, name, ".json");
  return base::parse_json(base::read_text(path), path.string());
}

// Every recorded run of the folder in each form; of SmolLM2 in the first alone.
inline std::vector<RecordedCase> recorded_cases(const std::string& folder,
                                                const std::vector<std::string>& forms) {
  std::vector<std::string> names;
  for (const auto& entry : base::fs::directory_iterator(base::fs::path(HONE_FIXTURES) / "parity" / folder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<RecordedCase> out;
  for (const std::string& name : names) {
    for (const std::string& form : forms) {
      if (RecordedCase{name, form}.is_real() && form != forms.front()) continue;
      out.push_back({name, form});
    }
  }
  return out;
}

// The first lines of gsm8k-preference ($HONE_DATA).
inline std::vector<std::string> first_real_pairs(std::int64_t count) {
  std::ifstream file(base::fs::path(std::getenv("HONE_DATA")) / "gsm8k-preference" / "train.jsonl");
  std::vector<std::string> out;
  std::string line;
  for (; count > 0 && std::getline(file, line); --count) out.push_back(line);
  return out;
}

inline bool real_inputs_absent() {
  return std::getenv("HONE_DATA") == nullptr || smollm2_gguf().empty();
}

// Every number that TRL logged; relative, absolute below `small`: metrics are of the order of 1, and some are
// differences of larger numbers that cancel.
inline void compare_logs(const base::Json& theirs, const std::vector<LogKeeper::Record>& ours, double small,
                         Margin& first, Margin& later) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    Margin& margin = i == 0 ? first : later;
    for (const auto& [name, recorded] : theirs.at(i).items()) {
      const std::string at = name + " of record " + std::to_string(i + 1);
      ASSERT_TRUE(ours[i].contains(name)) << at;
      const auto value = recorded.get<double>();
      margin.note(at, std::abs(ours[i].at(name) - value) / std::max(std::abs(value), small));
    }
  }
}

// grad.* against the first step's gradient before clipping: AdamW's first moment after one step is
// (1 - beta1) times what was left of it (the run saved checkpoint 1). after.* against the files it left.
inline void compare_recorded_tensors(const Golden& theirs, const train::OpenedRun& run,
                                     const base::fs::path& out, double grad_norm, Margin& first,
                                     Margin& later, std::string_view weights = train::kAdapterWeightsFile) {
  const config::Plan& plan = run.plan;
  const at::Tensor moment =
      Golden(train::checkpoint_path(out, 1) / train::kOptimizerFile).tensor("exp_avg").to(at::kDouble);
  const double kept = plan.max_grad_norm > 0 ? std::min(1.0, plan.max_grad_norm / (grad_norm + 1e-6)) : 1.0;
  const at::Tensor gradient = moment / ((1 - plan.adam_beta1) * kept);
  const Golden after(out / weights);
  std::int64_t begin = 0, compared = 0;
  for (const auto& tensor : run.adapter->tensors()) {
    const std::int64_t size = tensor.value.numel();
    const at::Tensor ours = gradient.narrow(0, begin, size).reshape(tensor.value.sizes());
    begin += size;
    if (theirs.has("grad." + tensor.name)) {
      first.compare("gradient of " + tensor.name, ours, theirs.tensor("grad." + tensor.name));
      compared += 1;
    }
    if (theirs.has("after." + tensor.name)) {
      later.compare("after the last step: " + tensor.name, after.tensor(tensor.name),
                    theirs.tensor("after." + tensor.name));
    }
  }
  EXPECT_EQ(begin, gradient.numel());
  EXPECT_GT(compared, 0);
  for (const auto& stored : theirs.file().tensors()) {
    if (!stored.name.starts_with("grad.") || stored.name.ends_with(".rows")) continue;
    EXPECT_TRUE(after.has(stored.name.substr(5))) << stored.name << " is trained by TRL and not here";
  }
}

}  // namespace hone::parity
