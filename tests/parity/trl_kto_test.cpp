// Whole KTO runs against TRL 1.16, step by step: every metric that TRL logs, the first step's gradients, the
// final adapter (fp32). Goldens: record_trl_kto.py; those of real pairs need HONE_DATA and SmolLM2's GGUF.
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <atomic>

#include "config/parse.h"
#include "parity/form_name.h"
#include "parity/recorded_run.h"
#include "train/opening/open_run.h"

namespace hone::parity {
namespace trl_kto_test {

namespace fs = base::fs;
using base::Json;

constexpr const char* kFolder = "trl_kto";
constexpr double kSmall = 0.1, kRealSmall = 1;

// TRL logs in its order; what a record lacks, ours must lack too.
void expect_same_names(const Json& theirs, const std::vector<LogKeeper::Record>& ours) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    for (const auto& [name, value] : ours[i]) {
      if (!name.starts_with("rewards/") && !name.starts_with("logps/")) continue;
      EXPECT_TRUE(theirs.at(i).contains(name)) << name << " of record " << i + 1;
    }
  }
}

class TrlKto : public testing::TestWithParam<RecordedCase> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove_all(out_.string() + ".start");
    for (const char* ending : {".yaml", ".jsonl"}) fs::remove(out_.string() + ending);
  }

  // The first pairs, as they are or one completion a row.
  void write_real_rows(const Json& data) const {
    std::ofstream file(out_.string() + ".jsonl");
    for (const std::string& line : first_real_pairs(data.at("rows").get<std::int64_t>())) {
      if (!data.at("mixed").get<bool>()) {
        file << line << "\n";
        continue;
      }
      const Json pair = Json::parse(line);
      for (const char* side : {"chosen", "rejected"}) {
        file << Json({{"prompt", pair.at("prompt")},
                      {"completion", pair.at(side)},
                      {"label", std::string_view(side) == "chosen"}})
                    .dump()
             << "\n";
      }
    }
  }

  void set_start(Json& options, const Json& golden) const {
    const fs::path root = HONE_SOURCE_DIR;
    if (GetParam().is_real()) {
      model::CausalLm model(*model::open_weights(smollm2_gguf()), {});
      attach_rule_adapter(model).save(out_.string() + ".start");
      write_real_rows(golden.at("data"));
      options["model_name_or_path"] = smollm2_gguf().string();
      options["adapter_name_or_path"] = out_.string() + ".start";
      options["dataset_name"] = out_.string() + ".jsonl";
      return;
    }
    options["model_name_or_path"] = (root / golden.at("model").get<std::string>()).string();
    options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
    if (golden.contains("ref_model"))
      options["ref_model"] = (root / golden.at("ref_model").get<std::string>()).string();
    if (!golden.at("adapter").is_null()) {
      options["adapter_name_or_path"] = (root / golden.at("adapter").get<std::string>()).string();
      return;
    }
    options["lora_r"] = 4;
    options["lora_alpha"] = 8;
    options["lora_target_modules"] = "all-linear";
  }

  config::Plan make_plan(const Json& golden) const {
    Json options = golden.at("options");
    set_start(options, golden);
    options["use_peft"] = true;
    options["output_dir"] = out_.string();
    options["logging_steps"] = 1;
    options["save_strategy"] = "steps";
    options["save_steps"] = 1;
    if (options.contains("eval_strategy")) {
      options["eval_dataset"] = recorded_file(kFolder, "eval", ".jsonl").string();
    }
    const fs::path file = out_.string() + ".yaml";
    std::ofstream(file) << base::dump_json(options);
    config::Plan plan = config::parse_run(config::Method::kKto, {"--config", file.string()});
    const bool plain = GetParam().form == "plain";
    plan.layer_form = plain ? config::LayerForm::kAutograd : config::LayerForm::kFused;
    return plan;
  }

  fs::path out_ = fs::temp_directory_path() /
                  ("hone_kto_" + GetParam().name + "_" + GetParam().form + "_" + std::to_string(getpid()));
};

TEST_P(TrlKto, EveryStepEqualsTrl) {
  const auto& [name, form] = GetParam();
  const bool real = GetParam().is_real();
  const Json golden = recorded_json(kFolder, name);
  if (real && real_inputs_absent()) GTEST_SKIP() << "needs HONE_DATA and SmolLM2";
  LogKeeper ours;
  const std::atomic<bool> stop = false;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(make_plan(golden), ours);
  const fs::path tensors = recorded_file(kFolder, name, ".safetensors");  // none of those with a ref_model
  if (golden.at("adapter").is_null()) {  // a new adapter, whose reference is the base
    const Golden theirs(tensors);
    const at::NoGradGuard no_grad;
    for (const auto& tensor : run->adapter->tensors())
      at::Tensor(tensor.value).copy_(theirs.tensor("before." + tensor.name));
  }
  train::begin_run(*run, ours, stop);
  Margin first(name + ", " + form + ", step 1", real ? kRealModelBound : kFirstStepBound);
  Margin later(name + ", " + form + ", later", real ? kRealModelBound : kLaterStepBound);
  const double small = real ? kRealSmall : kSmall;
  compare_logs(golden.at("steps"), ours.steps, small, first, later);
  compare_logs(golden.at("evals"), ours.evals, small, later, later);
  ASSERT_FALSE(ours.steps.empty());
  expect_same_names(golden.at("steps"), ours.steps);
  if (golden.contains("ref_model")) return;
  compare_recorded_tensors(Golden(tensors), *run, out_, ours.steps.front().at("grad_norm"), first, later);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlKto, testing::ValuesIn(recorded_cases(kFolder, {"explicit", "plain"})),
                         [](const auto& one) {
                           return form_name(one.param.name, one.param.form, "explicit");
                         });

}  // namespace trl_kto_test
}  // namespace hone::parity
