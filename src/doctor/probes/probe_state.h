// Shared by the probes that run the model: restoring the run, detecting changes of the base, the size of a
// step, and text for lists of tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "data/records/record.h"
#include "doctor/probes/machine/exam_memory.h"
#include "model/causal_lm.h"
#include "ops/linear.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

// Saves parameters, gradient and the model's LoRA weights; its destructor restores them bit for bit, also
// after an exception. In between, a probe may load another adapter into the model. Clears the gradient.
class StateGuard {
 public:
  explicit StateGuard(const train::RunView& run);
  ~StateGuard();
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;
  void restore_parameters();  // in the middle of a probe

 private:
  const train::RunView run_;
  SavedTensor parameters_, gradient_;
  std::vector<std::optional<ops::LoraWeights>> sides_;
  at::Tensor score_head_;
  model::TokenRows token_rows_;
  model::TrainedParts parts_;
};

// A hash of every part of the frozen base as stored in memory (packed matrices stay packed), and whether all
// values are finite: one pass at memory bandwidth.
struct PartFingerprint {
  std::string name;
  std::uint64_t hash = 0;
  bool finite = true;
  bool operator==(const PartFingerprint&) const = default;
};
std::vector<PartFingerprint> base_fingerprint(const model::CausalLm& model);
// The name of the first part that differs; empty: none.
std::string first_change(const std::vector<PartFingerprint>& before,
                         const std::vector<PartFingerprint>& after);

// The first tensor of the base with a value that is not finite: "model.layers.3.mlp.up_proj.weight[17, 4] is
// nan (2 such values)"; empty: none. Unpacks packed matrices.
std::string first_bad_value(const model::CausalLm& model);

// Returns whether sampler and trainer use kernels that guarantee the same bits (ops/gemm.h).
bool has_exact_kernels(const train::RunView& run);

// lora_B, a lora_A that is all 0, and what is trained in full += size * N(0, 1), the same for equal seeds: an
// adapter with an effect at any stage of training.
void perturb(const adapters::Adapter& adapter, double size, std::uint64_t seed);
constexpr double kPerturbation = 0.02;  // about a tenth of a weight's size at rank 16

bool is_b(const adapters::TrainableTensor& tensor);        // adapters::starts_at_zero
bool is_empty_a(const adapters::TrainableTensor& tensor);  // a lora_A that is all 0
bool is_whole(
    const adapters::TrainableTensor& tensor);  // trained in full: neither of a LoRA nor rows nor a score head

// P5: steps on one batch, and the tokens of that batch.
constexpr std::int64_t kOverfitSteps = 50, kOverfitTokens = 96;

// Tokens of a rehearsal, chosen so that a step takes about a second on two cores: 32 to 256.
std::int64_t rehearsal_tokens(const model::CausalLm& model);

// A few short examples of the run's own data, with at most `tokens` in total; prompts and the chosen side of
// pairs are used as training text.
std::vector<data::Record> short_examples(const train::RunView& run, std::size_t most, std::int64_t tokens);

// All of them concatenated, each a segment.
data::Batch batch_of(const std::vector<data::Record>& examples);

// "layers 0-23 q_proj.lora_A, v_proj.lora_A; layers 3, 5 o_proj.lora_B", of PEFT's keys; cut after a few.
std::string tensor_list(const std::vector<std::string>& names);
std::string number(double value);                             // "%.3g"
std::string count_of(std::int64_t part, std::int64_t whole);  // "3 of 96"
std::string grouped(std::int64_t value);                      // "1,179,648"

}  // namespace hone::doctor
