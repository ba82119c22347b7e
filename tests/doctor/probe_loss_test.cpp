// Probe P3 on tiny runs, and passes over the model that are wrong.
#include <ATen/ATen.h>

#include <limits>

#include "doctor/probes/loss_identities.h"
#include "probe_runs.h"
#include "train/opening/memory_inputs.h"

namespace hone::doctor {
namespace probe_loss_test {

using base::Level;

class LossProbeTest : public ProbeTest {
 protected:
  // The pass of a healthy run, over a batch and a denominator that `fault` may change.
  Verdicts with_pass(const std::function<void(data::Batch&, double&)>& fault) {
    const auto run = open(sft("run", {"--bf16", "false"}));
    const train::PassForm form = train::pass_form(run->start.memory);
    return examine_loss(*run, [&](const data::Batch& batch, double denominator) {
      data::Batch changed = batch;
      fault(changed, denominator);
      return train::score_and_backward(*run->model, changed, {}, denominator, form);
    });
  }
  Verdicts with_loss(const std::function<double(double)>& fault) {
    const auto run = open(sft("run"));
    break_method(*run,
                 [&](const train::RehearsalRequest&, train::Rehearsal& out) { out.nll = fault(out.nll); });
    return probe_loss(*run);
  }
};

TEST_F(LossProbeTest, HealthyRunsHoldTheIdentities) {
  for (const Words& more :
       {Words{"--bf16", "false"}, Words{"--bf16", "true"}, Words{"--layer_form", "plain"}}) {
    for (const bool samples : {false, true}) {
      const std::string name = more.front() + more.back() + (samples ? "grpo" : "sft");
      const auto run = open(samples ? grpo(name, more) : sft(name, more));
      const at::Tensor parameters = run->adapter->flat().clone();
      const Verdicts found = probe_loss(*run);
      EXPECT_LE(worst(found), Level::kNote) << describe(found);
      EXPECT_VERDICT(found, "NUM-02", Level::kNote, "untrained");  // random weights
      EXPECT_VERDICT(found, "NUM-04", Level::kOk, "alone and packed");
      EXPECT_VERDICT(found, "NUM-05", Level::kOk, "cosine");
      if (!samples) EXPECT_VERDICT(found, "GRAD-07", Level::kOk, "sees the adapter");
      EXPECT_TRUE(run->adapter->flat().equal(parameters));
    }
  }
}

TEST_F(LossProbeTest, AHealthyDpoRunHoldsThemToo) {
  const Verdicts found = probe_loss(*open(dpo("run")));
  EXPECT_VERDICT(found, "NUM-02", Level::kNote, "base is untrained");  // the fixture's weights are random
  for (const std::string code : {"NUM-04", "NUM-05", "GRAD-07"}) EXPECT_VERDICT(found, code, Level::kOk, "");
}

TEST_F(LossProbeTest, RowsThatSeeEachOther) {
  const Verdicts found = with_pass([](data::Batch& batch, double&) {
    batch.segments.front().end = batch.segments.back().end;
    batch.segments.resize(1);
  });
  EXPECT_VERDICT(found, "NUM-04", Level::kFail, "packed with");
}

TEST_F(LossProbeTest, ALossThatIsNormalizedByTheMicroBatch) {
  const Verdicts found = with_pass([](data::Batch& batch, double& denominator) {
    denominator = static_cast<double>(train::scored_tokens(batch));
  });
  EXPECT_VERDICT(found, "NUM-05", Level::kFail, "norm ratio");
  EXPECT_VERDICT(found, "NUM-04", Level::kOk, "");
}

TEST_F(LossProbeTest, FirstLosses) {
  EXPECT_VERDICT(with_loss([](double) { return 1.25; }), "NUM-02", Level::kOk, "1.25");
  EXPECT_VERDICT(with_loss([](double nll) { return 0.8 * nll; }), "NUM-02", Level::kNote,
                 "base is untrained");
  EXPECT_VERDICT(with_loss([](double nll) { return 3 * nll; }), "NUM-02", Level::kWarn,
                 "survive decoding and encoding");
  EXPECT_VERDICT(with_loss([](double) { return std::numeric_limits<double>::quiet_NaN(); }), "NUM-02",
                 Level::kFail, "not finite");
}

TEST_F(LossProbeTest, ALossThatDoesNotSeeTheAdapter) {
  EXPECT_VERDICT(with_loss([](double) { return 2.0; }), "GRAD-07", Level::kFail, "stayed 2");
}

}  // namespace probe_loss_test
}  // namespace hone::doctor
