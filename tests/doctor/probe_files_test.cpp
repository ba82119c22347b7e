// The deep probes on tiny runs: learning by heart, files and back, resume; and files that lose something.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "adapters/merge.h"
#include "doctor/probes/probe_state.h"
#include "doctor/probes/round_trip.h"
#include "probe_runs.h"

namespace hone::doctor {
namespace probe_files_test {

using base::Level;

class DeepProbeTest : public ProbeTest {
 protected:
  const AdapterFiles right_ = {
      .save = [](const adapters::Adapter& adapter, const fs::path& folder) { adapter.save(folder); },
      .merge =
          [](const fs::path& base, const fs::path& adapter, const fs::path& out,
             const model::Quantize& trained_on) {
            adapters::merge_to_folder(base, {adapter}, out, trained_on);
          }};
  // The state of the run, which no probe may change.
  static at::Tensor state(train::OpenedRun& run) {
    return at::cat({run.adapter->flat(), run.adapter->flat_gradient()}).clone();
  }
};

TEST_F(DeepProbeTest, AFewRowsAreLearnedByHeart) {
  for (const bool samples : {false, true}) {
    const Words all = {"--lora_target_modules", "all-linear"};
    const auto run = open(samples ? grpo("grpo", all) : sft("sft", all));
    const at::Tensor before = state(*run);
    const Verdicts found = probe_overfit(*run);
    EXPECT_EQ(worst(found), Level::kOk) << describe(found);
    EXPECT_TRUE(state(*run).equal(before));
  }
}

TEST_F(DeepProbeTest, ADpoRun) {
  const auto run = open(dpo("dpo", {"--lora_target_modules", "all-linear"}));
  const at::Tensor before = state(*run);
  for (const auto& probe : {probe_overfit, probe_round_trip, probe_resume}) {
    const Verdicts found = probe(*run);
    EXPECT_FALSE(found.empty());
    EXPECT_EQ(worst(found), Level::kOk) << describe(found);
  }
  EXPECT_TRUE(state(*run).equal(before));
}

TEST_F(DeepProbeTest, ARunAboveFrozenAdapters) {
  for (const Words& more : {Words{"--bf16", "false"}, Words{"--bf16", "true"}, Words{"--load_in_4bit"}}) {
    Words words = {"--lora_target_modules", "all-linear", "--base_adapters",
                   (fixtures() / "tiny_llama" / "adapter_second").string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = open(dpo("dpo", words));
    const at::Tensor before = state(*run);
    const std::vector<PartFingerprint> print = base_fingerprint(*run->model);
    for (const auto& probe : {probe_overfit, probe_round_trip, probe_resume}) {
      const Verdicts found = probe(*run);
      // Of a base in 4 bits it may be told that the stored base is another one.
      EXPECT_LE(worst(found), run->model->quantized() ? Level::kWarn : Level::kOk) << describe(found);
    }
    EXPECT_TRUE(state(*run).equal(before));
    EXPECT_EQ(first_change(print, base_fingerprint(*run->model)), "");
    const ops::Weight& b = run->model->linears().front()->frozen_lora->b;
    at::Tensor(b.memory().front().second).mul_(2);
    EXPECT_EQ(first_change(print, base_fingerprint(*run->model)),
              "model.layers.0.self_attn.q_proj below: lora_B");
  }
}

TEST_F(DeepProbeTest, GradientsOfSomethingElseLearnNothing) {
  const auto run = open(sft("run"));
  train::OpenedRun& parts = *run;
  break_method(
      parts, [&parts](const train::RehearsalRequest&, train::Rehearsal&) { parts.adapter->zero_gradient(); });
  EXPECT_VERDICT(probe_overfit(parts), "GRAD-08", Level::kFail, "0 % in");
}

TEST_F(DeepProbeTest, FilesAndBack) {
  for (const Words& more :
       {Words{"--bf16", "false"}, Words{"--bf16", "true"}, Words{"--dtype", "bfloat16"}}) {
    for (const bool samples : {false, true}) {
      const std::string name = more.front() + more.back() + (samples ? "grpo" : "sft");
      const auto run = open(samples ? grpo(name, more) : sft(name, more));
      const at::Tensor before = state(*run);
      const Verdicts found = probe_round_trip(*run);
      EXPECT_EQ(worst(found), Level::kOk) << describe(found);
      for (const std::string code : {"CKPT-01", "CKPT-02", "CKPT-03"})
        EXPECT_VERDICT(found, code, Level::kOk, "");
      EXPECT_TRUE(state(*run).equal(before));
      const Verdicts again = probe_resume(*run);
      EXPECT_VERDICT(again, "CKPT-05", Level::kOk, "bit for bit");
      EXPECT_TRUE(state(*run).equal(before));
    }
  }
}

TEST_F(DeepProbeTest, AnAdapterOfAQuantizedBaseIsMergedOntoWhatItsCodesStandFor) {
  for (const Words& more : {Words{"--load_in_4bit", "true", "--use_bnb_nested_quant", "true"},
                            Words{"--load_in_8bit", "true", "--dtype", "bfloat16"}}) {
    for (const bool samples : {false, true}) {
      const std::string name = more.front() + (samples ? "grpo" : "sft");
      const auto run = open(samples ? grpo(name, more) : sft(name, more));
      const at::Tensor before = state(*run);
      const Verdicts found = probe_round_trip(*run);
      EXPECT_LE(worst(found), Level::kWarn) << describe(found);  // the stored base is another one
      EXPECT_VERDICT(found, "CKPT-01", Level::kOk, "");
      EXPECT_VERDICT(found, "CKPT-03", Level::kOk, "");
      const auto merged = std::count_if(found.begin(), found.end(), [](const base::Verdict& one) {
        return one.code == "CKPT-02" && one.what == "the merged model equals the model with its adapter";
      });
      EXPECT_EQ(merged, 1) << describe(found);
      EXPECT_TRUE(state(*run).equal(before));
    }
  }
}

// Four bits are far from a base of 32 numbers a row; a merge that does not know of them is told.
TEST_F(DeepProbeTest, AMergeThatDoesNotKnowOfTheFourBits) {
  const auto run = open(sft("run", {"--load_in_4bit", "true", "--bnb_4bit_quant_type", "fp4"}));
  AdapterFiles files = right_;
  files.merge = [](const fs::path& base, const fs::path& adapter, const fs::path& out,
                   const model::Quantize&) { adapters::merge_to_folder(base, {adapter}, out); };
  const Verdicts found = examine_round_trip(*run, files);
  const auto merged = std::count_if(found.begin(), found.end(), [](const base::Verdict& one) {
    return one.code == "CKPT-02" && one.what == "the merged model equals the model with its adapter";
  });
  EXPECT_EQ(merged, 0) << describe(found);
}

TEST_F(DeepProbeTest, AFileThatIsNotTheAdapters) {
  const auto run = open(sft("run"));
  AdapterFiles files = right_;
  files.save = [](const adapters::Adapter& adapter, const fs::path& folder) {
    const at::NoGradGuard no_grad;
    const at::Tensor now = adapter.flat().clone();
    adapter.flat().mul_(0.5);
    adapter.save(folder);
    adapter.flat().copy_(now);
  };
  EXPECT_VERDICT(examine_round_trip(*run, files), "CKPT-01", Level::kFail, "differs from the saved one");
}

TEST_F(DeepProbeTest, AFileThatCannotBeLoaded) {
  const auto run = open(sft("run"));
  AdapterFiles files = right_;
  files.save = [](const adapters::Adapter& adapter, const fs::path& folder) {
    adapter.save(folder);
    fs::resize_file(folder / "adapter_model.safetensors", 40);  // as ZeRO-3 leaves it
  };
  EXPECT_VERDICT(examine_round_trip(*run, files), "CKPT-01", Level::kFail, "cannot be loaded");
}

TEST_F(DeepProbeTest, AMergeOfAnotherAdapter) {
  const auto run = open(sft("run"));
  AdapterFiles files = right_;
  files.merge = [](const fs::path& base, const fs::path&, const fs::path& out, const model::Quantize&) {
    adapters::merge_to_folder(base, {fixtures() / "tiny_llama" / "adapter"}, out);
  };
  const Verdicts found = examine_round_trip(*run, files);
  EXPECT_VERDICT(found, "CKPT-01", Level::kOk, "");
  EXPECT_VERDICT(found, "CKPT-02", Level::kFail, "KL");
}

TEST_F(DeepProbeTest, ACheckpointWithoutItsMoments) {
  const auto run = open(sft("run"));
  const at::Tensor before = state(*run);
  const Verdicts found =
      examine_resume(*run, [](const fs::path& folder, learn::Optimizer& optimizer, const config::Plan& plan) {
        train::LoadedCheckpoint out = train::load_checkpoint(folder, optimizer, plan);
        for (const learn::StateTensor& one : optimizer.state()) at::Tensor(one.value).zero_();
        return out;
      });
  EXPECT_VERDICT(found, "CKPT-05", Level::kFail, "elements of exp_avg");
  EXPECT_TRUE(state(*run).equal(before));
}

TEST_F(DeepProbeTest, ACheckpointThatBeginsAgain) {
  const auto run = open(sft("run"));
  const Verdicts found =
      examine_resume(*run, [](const fs::path& folder, learn::Optimizer& optimizer, const config::Plan& plan) {
        train::LoadedCheckpoint out = train::load_checkpoint(folder, optimizer, plan);
        out.state = {};
        return out;
      });
  EXPECT_VERDICT(found, "CKPT-05", Level::kFail, "the position in the data");
}

}  // namespace probe_files_test
}  // namespace hone::doctor
