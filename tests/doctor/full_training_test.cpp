// The examination of runs that train the whole model: what is frozen, how far gradients and updates reach, the rate,
// embeddings that are 0, memory by segment.
#include "doctor/check_runs.h"

namespace hone::test_tools {
namespace full_training_test {

using base::Level;
using base::Verdict;
using doctor::Verdicts;

class FullTrainingDoctor : public CheckRuns {
 protected:
  std::unique_ptr<train::OpenedRun> open_full(Words more = {}) {
    more.insert(more.begin(), {"--use_peft", "false", "--learning_rate", "1e-5"});
    return open_sft(later_wins(std::move(more)));
  }
  // Two words a setting; the last of a name stays.
  static Words later_wins(const Words& words) {
    Words out;
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
      const auto old = std::find(out.begin(), out.end(), words[i]);
      if (old != out.end()) {
        *(old + 1) = words[i + 1];
      } else {
        out.insert(out.end(), {words[i], words[i + 1]});
      }
    }
    return out;
  }
  Verdict in_plan(const std::string& code, const Words& more) {
    return verdict_of(doctor::check_plan(*open_full(more)), code);
  }
};

TEST_F(FullTrainingDoctor, GradientAndUpdateReachEveryTensor) {
  for (const char* bf16 : {"false", "true"}) {
    const auto run = open_full({"--bf16", bf16});
    const Verdicts found = doctor::probe_gradient(*run);
    EXPECT_EQ(failures(found), "");
    const std::string all = std::to_string(run->adapter->tensors().size());
    EXPECT_SAYS(verdict_of(found, "GRAD-01").what,
                all + " of " + all + " trainable tensors receive a gradient");
    EXPECT_SAYS(verdict_of(found, "GRAD-05").what, all + " of " + all + " tensors changed");
    EXPECT_EQ(verdict_of(found, "GRAD-04").level, Level::kOk);
    EXPECT_EQ(verdict_of(found, "NUM-01").level, Level::kOk);
  }
}

TEST_F(FullTrainingDoctor, WhatIsFrozenIsNamed) {
  EXPECT_EQ(in_plan("GRAD-06", {}).evidence, "no tensor is frozen");
  EXPECT_SAYS(in_plan("GRAD-06", {"--freeze_embeddings", "true"}).evidence,
              "frozen: model.embed_tokens.weight");
  const Verdict some = in_plan("GRAD-06", {"--unfrozen_parameters", "model.layers.1.mlp"});
  EXPECT_SAYS(some.evidence, "frozen: model.embed_tokens.weight, model.layers.0.input_layernorm.weight");
  EXPECT_SAYS(some.evidence, " more");
  EXPECT_SAYS(in_plan("GRAD-06", {"--layers_to_transform", "0"}).evidence,
              "model.layers.1.input_layernorm.weight");
}

TEST_F(FullTrainingDoctor, TheRateIsOneForTheWholeModel) {
  EXPECT_EQ(in_plan("NUM-08", {}).level, Level::kOk);
  const Verdict high = in_plan("NUM-08", {"--learning_rate", "1e-2"});
  EXPECT_EQ(high.level, Level::kWarn);
  EXPECT_SAYS(high.what, "too high");
  EXPECT_SAYS(high.cause, "a rate for an adapter");
  const Verdict low = in_plan("NUM-08", {"--learning_rate", "1e-8"});
  EXPECT_EQ(low.level, Level::kWarn);
  EXPECT_SAYS(low.what, "too low");
}

TEST_F(FullTrainingDoctor, AnEmbeddingOfZerosIsDeadWhereItIsFrozen) {
  const std::string model = changed_model([](base::Json&, std::map<std::string, at::Tensor>* tensors) {
    if (tensors != nullptr) tensors->at("model.embed_tokens.weight")[1].zero_();  // <|im_start|>
  });
  const auto found = [&](const char* freezes) {
    return verdict_of(doctor::check_data(*open_full({"--model_name_or_path", model, "--dataset_name",
                                                     (kParity / "sft" / "messages.jsonl").string(),
                                                     "--freeze_embeddings", freezes})),
                      "DATA-09");
  };
  EXPECT_EQ(found("false").level, Level::kOk) << "its row is trained";
  const Verdict frozen = found("true");
  EXPECT_EQ(frozen.level, Level::kFail);
  EXPECT_SAYS(frozen.evidence, "<|im_start|>");
  EXPECT_SAYS(frozen.fix, "remove freeze_embeddings");
}

TEST_F(FullTrainingDoctor, MemoryIsKnownBySegment) {
  const auto run = open_full();
  std::int64_t trained = 0, sum = 0;
  for (const train::MemorySegment& segment : run->start.memory.segments) {
    sum += segment.bytes;
    if (segment.name == "float32 weights, gradients and optimizer") trained = segment.bytes;
  }
  EXPECT_EQ(sum, run->start.memory.total);
  EXPECT_EQ(trained, run->start.trained.parameters * (4 + 4 + 8 + 2))
      << "masters, gradients, moments, bf16 copy";
  EXPECT_EQ(verdict_of(doctor::probe_budget(*run), "MEM-01").level, Level::kOk);
}

TEST_F(FullTrainingDoctor, ALayerAtATimeIsNotRehearsedAtOnce) {
  const auto run = open_full();
  run->start.memory.layer_steps = true;
  run->adapter->release_gradient();
  const doctor::Examination found = doctor::examine(*run, {});
  bool told = false;
  for (const auto& part : found.parts) {
    if (part.name != "gradient") continue;
    ASSERT_EQ(part.verdicts.size(), 1U);
    told = part.verdicts[0].what == "not rehearsed: gradient";
  }
  EXPECT_TRUE(told);
  EXPECT_FALSE(run->adapter->flat_gradient().defined()) << "the run keeps those of a layer";
}

}  // namespace full_training_test
}  // namespace hone::test_tools
