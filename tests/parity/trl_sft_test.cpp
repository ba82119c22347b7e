// Whole SFT runs against TRL 1.16's SFTTrainer, step by step: the same options, data and starting adapter.
// Goldens: record_trl_sft.py, one JSON a case. Loss, gradient norm and learning rate within 1e-3 (fp32).
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>

#include "base/files/file.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "config/parse.h"
#include "model/files/weight_source.h"
#include "parity/form_name.h"
#include "parity/golden.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::parity {
namespace trl_sft_test {

namespace fs = base::fs;
using base::Json;

constexpr double kBound = 1e-3;

// Keeps what a run logged.
class Recorder final : public train::RunListener {
 public:
  void on_log(const train::LogRecord& record) override { records.push_back(record); }
  std::vector<train::LogRecord> records;
};

fs::path source_path(const Json& golden, const char* key) {
  return fs::path(HONE_SOURCE_DIR) / golden.at(key).get<std::string>();
}

bool is_smollm2(const Json& golden) {
  return golden.at("model") == "models/smollm2-f32";
}

// Where a run starts: a fixture, or for SmolLM2 the GGUF (its dequantized weights are models/smollm2-f32,
// byte for byte) and the rule's adapter, written to `folder`.
struct Start {
  fs::path model, adapter;
};
Start start_of(const Json& golden, const fs::path& folder) {
  if (!is_smollm2(golden)) return {source_path(golden, "model"), source_path(golden, "adapter")};
  model::CausalLm model(*model::open_weights(smollm2_gguf()), {});
  attach_rule_adapter(model).save(folder);
  return {smollm2_gguf(), folder};
}

// TRL's options as hone's YAML (JSON is YAML), with the paths and what the recorder set besides.
config::Plan plan_of(const Json& golden, const fs::path& out) {
  Json options = golden.at("options");
  const Start start = start_of(golden, out.string() + ".start");
  options["model_name_or_path"] = start.model.string();
  options["adapter_name_or_path"] = start.adapter.string();
  // as the recorder: Qwen2's class splits text as Qwen2 does, whatever tokenizer.json in its model's folder
  // says
  if (start.model.filename().string().starts_with("tiny_"))
    options["tokenizer_name_or_path"] = std::string(HONE_FIXTURES) + "/parity/tiny_llama";
  options["dataset_name"] = source_path(golden, "data").string();
  options["use_peft"] = true;
  options["output_dir"] = out.string();
  options["logging_steps"] = 1;
  options["save_strategy"] = "no";
  if (golden.contains("eval_data")) options["eval_dataset"] = source_path(golden, "eval_data").string();
  const fs::path file = out.string() + ".yaml";
  std::ofstream(file) << base::dump_json(options);
  return config::parse_run(config::Method::kSft, {"--config", file.string()});
}

std::map<std::string, double> values(const train::LogRecord& record) {
  return {record.values.begin(), record.values.end()};
}

std::vector<std::string> cases() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_FIXTURES) / "parity" / "trl")) {
    if (entry.path().extension() == ".json") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A case and the form of the layer that runs it. SmolLM2's steps take long: in the form that users get.
struct Case {
  std::string name, form;
};
std::vector<Case> cases_and_forms() {
  std::vector<Case> out;
  for (const std::string& name : cases()) {
    out.push_back({name, "explicit"});
    if (name.starts_with("tiny")) out.push_back({name, "plain"});
  }
  return out;
}

class TrlSft : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove(out_.string() + ".yaml");
    fs::remove_all(out_.string() + ".start");
  }
  fs::path out_ =
      fs::temp_directory_path() / ("hone_trl_" + GetParam().name + "_" + std::to_string(getpid()));
};

TEST_P(TrlSft, EveryStepEqualsTrl) {
  const fs::path fixture = fs::path(HONE_FIXTURES) / "parity" / "trl" / (GetParam().name + ".json");
  const Json golden = base::parse_json(base::read_text(fixture), fixture.string());
  if (is_smollm2(golden) && smollm2_gguf().empty()) {
    GTEST_SKIP() << "not run: ./quickstart or ./test fetches SmolLM2";
  }
  Recorder recorder;
  const std::atomic<bool> stop = false;
  config::Plan plan = plan_of(golden, out_);
  plan.layer_form = GetParam().form == "plain" ? config::LayerForm::kAutograd : config::LayerForm::kFused;
  train::begin_run(*train::open_run(plan, recorder), recorder, stop);

  Margin margin(GetParam().name + ", " + GetParam().form, kBound);
  std::size_t step = 0;
  std::size_t eval = 0;
  for (const auto& record : recorder.records) {
    const auto ours = values(record);
    if (ours.contains("eval_loss")) {
      const Json& theirs = golden.at("evals").at(eval++);
      for (const char* name : {"eval_loss", "eval_entropy", "eval_mean_token_accuracy"}) {
        margin.compare(std::string(name), ours.at(name), theirs.at(name).get<double>());
      }
      continue;
    }
    if (!ours.contains("loss")) continue;
    const Json& theirs = golden.at("steps").at(step++);
    const std::string at = " of step " + std::to_string(step);
    for (const char* name : {"loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy"}) {
      margin.compare(name + at, ours.at(name), theirs.at(name).get<double>());
    }
    EXPECT_EQ(ours.at("num_tokens"), theirs.at("num_tokens").get<double>()) << at;
    EXPECT_NEAR(record.epoch, theirs.at("epoch").get<double>(), 1e-9) << at;
  }
  EXPECT_EQ(step, golden.at("steps").size());
  if (golden.contains("evals")) {
    EXPECT_EQ(eval, golden.at("evals").size());
  }

  const fs::path trained = fixture.parent_path() / (GetParam().name + "_adapter.safetensors");
  if (!fs::exists(trained)) return;
  const Golden theirs(trained);
  const Golden ours(out_ / train::kAdapterWeightsFile);
  for (const auto& tensor : theirs.file().tensors()) {
    margin.compare("after the last step: " + tensor.name, ours.tensor(tensor.name),
                   theirs.tensor(tensor.name));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlSft, testing::ValuesIn(cases_and_forms()), [](const auto& one) {
  return form_name(one.param.name, one.param.form, "explicit");
});

}  // namespace trl_sft_test
}  // namespace hone::parity
