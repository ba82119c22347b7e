#include "train/methods/orpo/orpo.h"

#include "learn/orpo_loss.h"
#include "ops/head/linear_logprob.h"
#include "train/methods/reference_free.h"
#include "train/steps/pair_method.h"

namespace hone::train::orpo {

namespace {

class Orpo final : public PairMethod {
 public:
  explicit Orpo(RecordParts parts);

 private:
  BatchLoss run_pairs(const PairBatch& batch) const override;

  HeadOptions head_;
};

// Adds the tokens of the chosen sequences' prompts, but for each one's first, behind the completions' tokens.
void score_prompts(PairPass& one, const std::vector<data::RecordView>& records) {
  PolicyPass& pass = one.pass;
  std::int64_t scored = 0;  // before the sequence
  for (std::size_t i = 0; i < one.records.size(); i += 2) {
    const auto prompt = records.at(one.records[i]).sequence(data::Part::kChosen).context;
    // The prompt's last token predicts the completion's first.
    std::int64_t token = pass.source.at(static_cast<std::size_t>(scored)) + 1;
    token -= static_cast<std::int64_t>(prompt.size());
    for (std::size_t t = 1; t < prompt.size(); ++t) {
      pass.source.push_back(token++);
      pass.target.push_back(prompt[t]);
      pass.sequence.push_back(static_cast<std::int64_t>(i));
    }
    scored += one.scored[i] + one.scored[i + 1];
  }
}

MemoryInputs begin(OpenedRun& run, const OpenedRecords& records) {
  return begin_reference_free(run, records,
                              {.loss = "NLL of the chosen sequences, and the log odds ratio with beta " +
                                       short_number(run.plan.orpo.beta),
                               .length_advice = {},
                               .head_tokens = HeadTokens::kChosenPromptsToo});
}

Orpo::Orpo(RecordParts parts)
    : PairMethod(std::move(parts)), head_{.mean_row = ops::mean_row(parts_.model.head())} {}

BatchLoss Orpo::run_pairs(const PairBatch& batch) const {
  PairPass one = make_pair_pass(batch.records,
                                {.share_prompt = shares(), .row_base = batch.row_base, .routers = routers()});
  score_prompts(one, batch.records);
  BatchLoss out = run_tokens(one.pass, batch, head_, [&](const TokenScores& scores) {
    return learn::orpo_gradient(pair_logprobs(one, scores), plan_.orpo);
  });
  out.tokens = one.tokens;
  return out;
}

constexpr RecordOpening kOpening = {.attach = {.wants_reference = false},
                                    .making = &reference_free_making,
                                    .begin = &begin,
                                    .method = &new_method<Orpo>};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kOrpo,
          .records = &kOpening,
          .columns = &data::cpo_columns,
          .experts_balance = ExpertsBalance::kByModel};
}

}  // namespace hone::train::orpo
