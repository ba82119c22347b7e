#include "train/methods/cpo/cpo.h"

#include "learn/cpo_loss.h"
#include "ops/head/linear_logprob.h"
#include "train/methods/reference_free.h"
#include "train/steps/pair_method.h"

namespace hone::train::cpo {

namespace {

class Cpo final : public PairMethod {
 public:
  explicit Cpo(RecordParts parts);

 private:
  BatchLoss run_pairs(const PairBatch& batch) const override;

  learn::CpoLossOptions options_;
  HeadOptions head_;
};

learn::CpoLossOptions loss_options(const config::CpoPlan& plan) {
  return {plan, learn::cpo_loss_type(plan.loss_type)};
}

std::string loss_line(const config::CpoPlan& plan) {
  std::string out = plan.loss_type + ", beta " + short_number(plan.beta);
  if (plan.loss_type == "simpo") out += ", simpo_gamma " + short_number(plan.simpo_gamma);
  if (plan.alpha != 0) out += ", alpha " + short_number(plan.alpha);
  if (plan.label_smoothing > 0) out += ", label_smoothing " + short_number(plan.label_smoothing);
  if (plan.cpo_alpha == 0) return out;
  return out + ", and " + short_number(plan.cpo_alpha) + " x the NLL of the chosen completions";
}

MemoryInputs begin(OpenedRun& run, const OpenedRecords& records) {
  const config::CpoPlan& plan = run.plan.cpo;
  const bool averages = learn::averages(learn::cpo_loss_type(plan.loss_type));
  return begin_reference_free(
      run, records,
      {.loss = loss_line(plan),
       .length_advice = averages ? "" : "loss_type: simpo, which divides by the length, reduces its effect"});
}

Cpo::Cpo(RecordParts parts)
    : PairMethod(std::move(parts)),
      options_(loss_options(plan_.cpo)),
      head_{.mean_row = ops::mean_row(parts_.model.head())} {}

BatchLoss Cpo::run_pairs(const PairBatch& batch) const {
  const PairPass one = make_pair_pass(
      batch.records, {.share_prompt = shares(), .row_base = batch.row_base, .routers = routers()});
  BatchLoss out = run_tokens(one.pass, batch, head_, [&](const TokenScores& scores) {
    return learn::cpo_gradient(pair_logprobs(one, scores), options_);
  });
  out.tokens = one.tokens;
  return out;
}

constexpr RecordOpening kOpening = {.attach = {.wants_reference = false},
                                    .making = &reference_free_making,
                                    .begin = &begin,
                                    .method = &new_method<Cpo>};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kCpo,
          .records = &kOpening,
          .columns = &data::cpo_columns,
          .experts_balance = ExpertsBalance::kByModel};
}

}  // namespace hone::train::cpo
