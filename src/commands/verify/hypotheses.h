// A hypothesis is what a server may have made of an adapter: a set of weights that hone's own model has for a moment.
// The model gives its own log-probabilities under each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "commands/verify/served_model.h"
#include "model/causal_lm.h"

namespace hone::commands {

struct Hypothesis {
  std::string code;   // "mlp_only": stable, for programs
  std::string words;  // "only its MLP half is applied"
  std::string cause, fix;
};

// A hypothesis, its mean |log p of the server - log p of hone| over the tokens that are counted, and hone's numbers.
struct Measured {
  Hypothesis hypothesis;
  double distance = 0;
  std::vector<std::vector<float>> own = {};  // of each text, as own_logprobs has them
};

// Codes that the verdict knows by name.
inline constexpr const char* kApplied = "applied";
inline constexpr const char* kBaseOnly = "base_only";

// The hypotheses about `adapter`, which is on `model` and must outlive the result. Those whose weights are the same as
// another's are left out: without a LoRA on MLPs there is no half of attention.
class Hypotheses {
 public:
  Hypotheses(model::CausalLm& model, const adapters::Adapter& adapter);
  ~Hypotheses();  // the model is as it was
  Hypotheses(const Hypotheses&) = delete;
  Hypotheses& operator=(const Hypotheses&) = delete;

  const std::vector<Hypothesis>& all() const { return all_; }
  // Puts the weights of one onto the model.
  void put(std::size_t index);

 private:
  // The scale of a linear under a hypothesis as a share of its own; 0: without its LoRA.
  using Share = std::function<double(const ops::Linear&)>;
  struct Weights {
    Share share;
    bool with_parts = true;  // with what is trained in full, and rows of the embedding
  };
  void add(Hypothesis hypothesis, Weights weights);
  void add_halves();
  void add_scales(const adapters::LoraConfig& config);
  void restore();

  model::CausalLm& model_;
  std::vector<std::pair<ops::Linear*, ops::LoraWeights>> sides_;
  model::TokenRows rows_;
  model::TrainedParts parts_;
  std::vector<Hypothesis> all_;
  std::vector<Weights> weights_;
};

// log p of the tokens of `scores` under the model as it is, in the order of ServedScores::logprobs. UserError for ids
// outside the vocabulary.
std::vector<float> own_logprobs(const model::CausalLm& model, const ServedScores& scores);

// Tokens that the server finds less likely than e^-10 are not counted: rounding moves them most.
double distance(const std::vector<ServedScores>& served, const std::vector<std::vector<float>>& own);
// Between two hypotheses, over the same tokens.
double distance(const std::vector<ServedScores>& served, const std::vector<std::vector<float>>& own,
                const std::vector<std::vector<float>>& other);
std::int64_t counted_tokens(const std::vector<ServedScores>& served);

// The share says how far the server's answers lie along the way from `from` to `to`: it is 0 where `from` is served and 1
// where `to` is. Rounding has no direction: it moves the share by about `error`.
struct Along {
  double share = 0, error = 0;
};
// The counted tokens are summed. Both numbers are infinite where `from` and `to` are the same or not finite, and for
// fewer than 16 tokens.
Along along(const std::vector<ServedScores>& served, const std::vector<std::vector<float>>& from,
            const std::vector<std::vector<float>>& to);

}  // namespace hone::commands
