// Probe P7 on tiny runs, and samplers that hold other weights.
#include <ATen/ATen.h>

#include "probe_runs.h"

namespace hone::doctor {
namespace probe_sampler_test {

using base::Level;

class SamplerProbeTest : public ProbeTest {
 protected:
  // Verdicts of a run whose gap is what `gap` makes of the number of the rehearsal (from 0) and of how far
  // the adapter stands from where it was.
  Verdicts with_gap(const std::function<double(int call, double moved)>& gap) {
    // float32: its bound is the same on every processor
    const auto run = open(grpo("run", {"--bf16", "false"}));
    const at::Tensor start = run->adapter->flat().clone();
    int call = 0;
    train::OpenedRun& parts = *run;
    break_method(parts, [&](const train::RehearsalRequest&, train::Rehearsal& out) {
      if (out.sampler_gap) out.sampler_gap = gap(call, (parts.adapter->flat() - start).norm().item<double>());
      ++call;
    });
    return probe_sampler(parts);
  }
};

TEST_F(SamplerProbeTest, TheSamplerOfAHealthyRunIsTheTrainer) {
  for (const Words& more :
       {Words{"--bf16", "false"}, Words{"--bf16", "true"}, Words{"--layer_form", "plain"}}) {
    const auto run = open(grpo(more.front() + more.back(), more));
    const at::Tensor parameters = run->adapter->flat().clone();
    const Verdicts found = probe_sampler(*run);
    EXPECT_EQ(worst(found), Level::kOk) << describe(found);
    for (const std::string code : {"RL-10", "RL-11", "RL-12", "NUM-06"})
      EXPECT_VERDICT(found, code, Level::kOk, "");
    EXPECT_TRUE(run->adapter->flat().equal(parameters));
  }
}

TEST_F(SamplerProbeTest, AMethodThatDoesNotSampleIsNotAsked) {
  EXPECT_TRUE(probe_sampler(*open(sft("run"))).empty());
}

TEST_F(SamplerProbeTest, ASamplerWithOtherNumbers) {
  EXPECT_VERDICT(with_gap([](int, double) { return 0.3; }), "RL-10", Level::kFail, "0.3");
  EXPECT_VERDICT(with_gap([](int, double) { return 0.01; }), "RL-10", Level::kWarn, "0.01");
}

TEST_F(SamplerProbeTest, ASamplerThatKeepsTheOldAdapter) {
  const Verdicts found = with_gap([](int, double moved) { return moved; });
  EXPECT_VERDICT(found, "RL-10", Level::kOk, "");
  EXPECT_VERDICT(found, "RL-11", Level::kFail, "the sampler uses the base, or older weights");
}

TEST_F(SamplerProbeTest, ASamplerThatKeepsAPromptsKeysAcrossAnUpdate) {
  const Verdicts found = with_gap([](int call, double) { return call < 3 ? 0.0 : 0.2; });
  EXPECT_VERDICT(found, "RL-11", Level::kOk, "");
  EXPECT_VERDICT(found, "RL-12", Level::kFail, "kept across an update");
}

TEST_F(SamplerProbeTest, ATrainerWithoutTheAdapter) {
  const auto run = open(grpo("run"));
  break_method(*run, [](const train::RehearsalRequest&, train::Rehearsal& out) { out.nll = 2; });
  EXPECT_VERDICT(probe_sampler(*run), "RL-11", Level::kFail, "the trainer does not use the adapter");
}

}  // namespace probe_sampler_test
}  // namespace hone::doctor
