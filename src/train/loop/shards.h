// Full fine-tuning divided among ranks: DeepSpeed's ZeRO stages (Rajbhandari et al. 2020, arXiv 1910.02054) on the CPU.
//
//   stage 1   a rank has the moments of its share of every part, adds up the gradients of that share and steps it; then
//             all get the parameters
//   stage 2   and the gradients of its share alone: a layer's are added up as soon as its backward is done
//   stage 3   and the parameters of its share of the layers: a layer is gathered before its forward and its backward
//
// A part is a layer, or what lies between layers in the flat buffer (flat_parts.h). The buffers keep their full size as
// addresses, so that everybody finds every tensor where it always is; the pages of what others keep do not exist
// (ops/machine/pages.h). What is outside the layers keeps its parameters on every rank.
//
// They are made on a thread of their own: a layer is gathered while the one before it is computed, and its gradients are added
// up while the next one's are.
//
// Collectives lie inside uneven work here: ranks have different numbers of passes. So before each the ranks agree on
// which one is next, the one with the smallest code of those that they ask for; a rank that has no work left, or that
// asks for another one, takes part in it, as soon as its passes wait. All ranks that train have to do so in SharedWork, which calls accompany().
//
// Stage 1 has the gradient of no stage, bit for bit; its norm may differ in the last bit of fp64. Stages 2 and 3 add in the
// order of the passes: to 1e-5.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "adapters/lora.h"
#include "learn/optimizer.h"
#include "model/causal_lm.h"
#include "model/pass_observer.h"
#include "parallel/ranks.h"
#include "train/loop/shared_work.h"
#include "train/loop/step_strategy.h"
#include "train/loop/task_thread.h"
#include "train/passes/flat_parts.h"

namespace hone::train {

class Shards final : public model::PassObserver, public InnerCollectives, public StepStrategy {
 public:
  // `optimizer` holds this rank's share (Optimizer::hold with own_ranges). Gives back the pages of what other ranks
  // keep, and from stage 2 on the adapter's gradient. All must outlive it.
  Shards(parallel::Ranks& ranks, model::CausalLm& model, adapters::Adapter& adapter,
         learn::Optimizer& optimizer, int stage, double max_grad_norm);
  ~Shards() override;
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  // The backwards of all ranks. Collectives.
  StepResult step(const StepPasses& passes, double learning_rate) override;
  StepResult measure(const StepPasses& passes) override;
  bool end_with_gradients() override;
  Shards* shards() override { return this; }

  // Rank 0 reads what other ranks keep, in `read`; on the others, which have to call this too, `read` is not called. An
  // error of read is thrown after the others were let go.
  void reading(const parallel::Ranks& ranks, const std::function<void()>& read) override;
  // In `read`: the tensor's values are whole until the next call.
  void read_parameters(std::string_view tensor);
  // In `read`: every parameter is whole until it ends.
  void read_all_parameters() override;
  bool divides_parameters() const override { return stage_ >= 3; }
  // In `read`: the optimizer's state `index`, in order, a part of it at a time.
  void read_state(std::size_t index, const std::function<void(const at::Tensor&)>& take);

  void before_forward(std::size_t layer) override;
  void after_forward(std::size_t layer) override;
  void before_backward(std::size_t layer) override;
  void after_backward(std::size_t layer) override;
  void after_pass() override;

  void accompany() override;

 private:
  bool divides_gradients() const { return stage_ >= 2; }
  void begin();
  double end_gradient();  // the norm of the whole gradient, before it is clipped
  void apply(double learning_rate);
  enum class Event : std::int64_t { kParameters, kGradients, kState };
  using Ticket = TaskThread::Ticket;
  Ticket ask(Event event, std::size_t part, std::size_t state = 0);
  void ask_for_layer(std::size_t layer);
  void gather_layer(std::size_t layer, std::size_t next);
  void leave_layer(std::size_t layer);
  void let_go();
  void meet(std::int64_t wanted);  // on the thread of collectives, as all below
  void serve(std::int64_t code, bool asked);
  void gather(std::size_t part, bool asked);
  void give_back_state(std::size_t state, std::size_t part);
  void add_up(std::size_t part);
  void drop_parameters(std::size_t part);
  std::size_t part_of_layer(std::size_t layer) const;  // parts_.size(): nothing of it is trained
  learn::FlatRange own(const FlatPart& part) const;
  at::Tensor parameters_of(const FlatPart& part) const;

  parallel::Ranks& ranks_;
  model::CausalLm& model_;
  adapters::Adapter& adapter_;
  learn::Optimizer& optimizer_;
  int stage_;
  double max_grad_norm_;
  std::vector<FlatPart> parts_;
  at::Tensor gradient_;        // [P]; in stage 1 the adapter's
  std::vector<char> held_;     // parts whose parameters are whole here for now
  std::vector<Ticket> asked_;  // for the parameters of a part; 0: not now
  std::deque<Ticket> adding_;  // for gradients of layers of this pass
  TaskThread thread_;          // last: its tasks use the others
};

}  // namespace hone::train
