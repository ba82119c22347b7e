// The losses of the Tinker API: functions of the log-probabilities l of a datum's target tokens, computed in
// fp64.
//
//   cross_entropy         -sum w l                              d/dl = -w
//   importance_sampling   -sum r A,  r = exp(l - q)             d/dl = -r A
//   ppo                   -sum min(r A, clip(r, low, high) A)   d/dl = -r A where the first is not above the second, else 0
//   cispo                 -sum sg(clip(r, low, high)) A l       d/dl = -clip(r, low, high) A
//   dro                   -sum (A l - beta/2 (l - q)^2)         d/dl = -(A - beta (l - q))
//
// w are `weights`, A `advantages`, q `logprobs` of the inputs; sg() has no gradient. Each is a plain sum over
// tokens and datums, divided by nothing. low and high bound r itself.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hone::serve {

enum class LossKind : std::uint8_t { kCrossEntropy, kImportanceSampling, kPpo, kCispo, kDro };

struct LossSpec {
  LossKind kind = LossKind::kCrossEntropy;
  double low = 0, high = 0;  // of ppo and cispo
  double beta = 0;           // of dro
};

// UserError for a name that hone does not have (the sentence names those that it has), for a key of `config`
// that the loss does not read, for a value that is no number or out of range, and for dro without beta.
LossSpec read_loss(const std::string& name,
                   const std::map<std::string, std::variant<double, std::string>>& config);

// One datum: position i of `tokens` predicts the `columns` targets of row i.
struct Datum {
  std::vector<std::int32_t> tokens;   // [N]
  std::vector<std::int32_t> targets;  // [N columns], row by row
  std::int64_t columns = 1;
  bool is_flat = true;          // the targets came as [N], not [N, K]
  std::vector<float> weights;   // [N columns], of cross_entropy
  std::vector<float> logprobs;  // [N] q, of the other losses
  std::vector<float> advantages;

  std::int64_t size() const { return static_cast<std::int64_t>(targets.size()); }
};

// False: d loss / d l of this target is 0 whatever l is.
bool may_have_gradient(const LossSpec& spec, const Datum& datum, std::size_t target);

struct LossOfDatum {
  double loss = 0;
  std::vector<float> d_logprob;  // [N columns]
};
// `logprobs` [N columns]: l. UserError where the loss or a derivative is not finite.
LossOfDatum loss_of(const LossSpec& spec, const Datum& datum, std::span<const float> logprobs);

}  // namespace hone::serve
