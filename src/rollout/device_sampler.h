// The sampler of a device that draws tokens itself: rows of a batch, each with options of its own, whose state stays on the device
// between steps. It draws what Decoder draws on the host from the same logits (ops/sampling/sample_tokens.h has the exact rule).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/sampling/lists.h"
#include "rollout/completion.h"
#include "rollout/engine.h"

namespace hone::rollout {

class DeviceSampler {
 public:
  DeviceSampler(std::int64_t rows, std::int64_t vocabulary, at::Device device);

  // `constrain` needs each token's scores on the host. (`stops` is the caller's: it knows a token after it was drawn.)
  static bool takes(const RequestOptions& options) { return !options.constrain; }

  // From the next step on row `row` draws by `options`; ids [n] are its prompt. `drawn` of its tokens came before: they are
  // among ids. InternalError unless takes(options).
  void begin(std::int64_t row, const RequestOptions& options, const DrawKey& key,
             std::span<const std::int32_t> ids, std::int64_t drawn = 0);
  void end(std::int64_t row);  // draws nothing from now on; so does every row at first

  // Sends what begin() has changed, in the place where it was; step() does so too. put_form() appends what a step's work depends on, but
  // for numbers on the device (ops/machine/step_graphs.h).
  void settle();
  void put_form(std::vector<std::int64_t>& out) const;

  // A token of each row that goes on, from logits [rows, vocabulary] fp32 on the device. False: the device has no kernel for
  // it, and no row has a token. Does not wait for the device.
  bool step(const at::Tensor& logits);

  // tokens() returns those of the last step. Waits for the device once.
  struct Token {
    std::int32_t id = 0;
    float sampled_logprob = 0, logprob = 0, entropy = 0;  // as Completion has them
    bool is_finite = true;                                // false: logits were not, and there is no token
    std::optional<FinishReason> ended;                    // kLength or kStopToken
  };
  std::vector<Token> tokens() const;
  // The same without stopping the device: send() has them copied when the last step is done, and sent() waits until those of the
  // oldest send() that was not asked for are there. At most two may be on their way.
  void send();
  std::vector<Token> sent();

  // [rows] int32 on the device: what the next step reads, without the host.
  const at::Tensor& ids() const { return ids_; }

 private:
  std::vector<Token> tokens_of(const at::Tensor& results) const;

  const std::int64_t rows_, vocabulary_;
  std::vector<ops::DrawRule> rules_;
  std::vector<std::vector<std::int32_t>> stop_ids_;  // of each row
  bool changed_ = true;
  at::Tensor sent_rules_, sent_stops_, seen_, masses_, drawn_;
  at::Tensor results_;  // [5, rows] int32, of which these are rows; floats are there as their bits
  at::Tensor ids_, states_, sampled_logprobs_, logprobs_, entropies_;
  // Memory of the host that a device copies to on its own.
  struct Slot {
    at::Tensor results;
    c10::Event arrived;
  };
  std::array<Slot, 2> ring_;
  std::size_t sends_ = 0, reads_ = 0;
};

}  // namespace hone::rollout
