// A model that a client trains: a LoRA with its gradient and moments, on the base that all of them share and
// that requests sample from. Several may exist at a time. The base's linears hold a LoRA only within a call:
// between calls the model is the base, so that requests of an engine go on between them.
//
// Every function is for the compute thread.
//
// Bits. A datum is a pass of its own, and gradients are added datum by datum: three requests of one datum
// each give the bits of one request of three, in both orders of sums. The log-probabilities of a datum are those
// that an engine records for its tokens with snapshot() at temperature 1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "base/files/file.h"
#include "learn/adamw.h"
#include "model/causal_lm.h"
#include "ops/linear.h"
#include "serve/training/datum_bins.h"
#include "serve/training/losses.h"

namespace hone::serve {

// What the Tinker API says of a LoRA; alpha is always 32.
struct LoraChoice {
  std::int64_t rank = 32;
  std::uint64_t seed = 0;
  bool attention = true, mlp = true, unembed = true;  // which linears have one
};

// Parameters of one step of AdamW; the defaults are the API's.
struct AdamParams {
  double learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-12, weight_decay = 0;
  double grad_clip_norm = 0;  // of the global norm; 0: off
};
// UserError, naming the parameter, for one out of range.
void check(const AdamParams& params);

struct StepReport {
  std::int64_t step = 0;                                // steps done
  double gradient_l2 = 0, update_l2 = 0, param_l2 = 0;  // before clipping; of the step; after it
};

struct ScoredDatum {
  std::vector<float> logprobs;  // [N columns]
  double loss = 0;
};

class TrainedModel {
 public:
  // A new LoRA: A random from the seed, B zero. UserError for a rank that is not positive or above 1024, for
  // no module, and for modules that hone does not train beside requests (a mixture's experts).
  static std::unique_ptr<TrainedModel> create(model::CausalLm& model, const LoraChoice& choice);
  // From what save() wrote. With `moments` the optimizer goes on, else it starts again from zero. UserError for
  // files that are absent, damaged, or of another model.
  static std::unique_ptr<TrainedModel> load(model::CausalLm& model, const base::fs::path& folder,
                                            const LoraChoice& choice, bool moments);

  // Gradients are added in optim_step from now on, by the bins and the tree of a run (datum_bins.h), for one
  // more forward pass of each datum; else each is added when its datum comes. InternalError where one was added
  // already.
  void add_in_bins(std::shared_ptr<DatumRoom> room);

  // Scores the datum; with `trains` its gradient is added to what optim_step() will use. UserError for tokens
  // or targets outside the vocabulary, for a datum longer than the model's context, and for a loss that is
  // not finite.
  ScoredDatum forward_backward(const Datum& datum, const LossSpec& spec, bool trains);
  // Gradients from here on are taken back by undo(), unless done() comes first.
  void begin();
  void undo();
  void done();

  // A part of the next optim_step(): the pass of one datum of which the gradient is still to be added. False:
  // there is none, as always without add_in_bins(). Other work may run between the parts, but none of this
  // model. An error of a pass loses nothing: the step may be asked for again.
  bool add_gradient();
  // A step, after which the gradient is zero; it first does what add_gradient() left. UserError without a
  // gradient, or with one that is not finite (it is dropped).
  StepReport optim_step(const AdamParams& params);

  // A copy of the weights, for requests: later steps do not touch it.
  std::shared_ptr<const ops::AdapterSides> snapshot() const;
  // Writes PEFT's adapter into the existing folder, and with `moments` those of the optimizer as a checkpoint
  // has them.
  void save(const base::fs::path& folder, bool moments) const;

  const LoraChoice& choice() const { return choice_; }
  std::int64_t steps() const { return state_.step; }
  bool has_gradient() const { return has_gradient_; }
  std::int64_t parameters() const { return adapter_.flat().numel(); }

 private:
  TrainedModel(model::CausalLm& model, adapters::Adapter adapter, const LoraChoice& choice);
  class Seat;
  // One pass; with `trains` its gradient is added to the adapter's.
  ScoredDatum pass_of(const Datum& datum, const LossSpec& spec, bool trains);
  struct Side {
    ops::Linear* linear = nullptr;
    std::optional<ops::LoraWeights> weights;  // in the linear while a Seat lives
  };

  model::CausalLm& model_;
  adapters::Adapter adapter_;
  LoraChoice choice_;
  learn::AdamWState state_;
  mutable std::vector<Side> sides_;
  bool trains_layers_ = false;
  bool has_gradient_ = false, had_gradient_ = false;
  at::Tensor before_;                            // the gradient at begin(); undefined: it was zero
  std::optional<DatumBins> bins_;                // after add_in_bins()
  std::int64_t datums_ = 0, datums_before_ = 0;  // of the step, and at begin()
  std::size_t binned_before_ = 0;                // the datums at begin()
};

}  // namespace hone::serve
