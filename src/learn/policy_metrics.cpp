// TRL's metrics of a policy loss. All numbers leave the device in one copy.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "learn/policy_parts.h"

namespace hone::learn {
namespace {

// Scalars to be read at once, each with the place where it goes.
class Reader {
 public:
  void read(const at::Tensor& scalar, double& into) {
    values_.push_back(scalar.to(at::kDouble));
    places_.push_back(&into);
  }
  void mean(const at::Tensor& values, const at::Tensor& count_of, Pooled& into) {
    read(values.sum(), into.sum);
    read(count_of.sum(), into.count);
  }
  void finish() {
    if (values_.empty()) return;
    const at::Tensor all = at::stack(values_).cpu();
    const auto* data = all.const_data_ptr<double>();
    for (std::size_t i = 0; i < places_.size(); ++i) *places_[i] = data[i];
  }

 private:
  std::vector<at::Tensor> values_;
  std::vector<double*> places_;
};

double least(double a, double b) {
  return std::fmin(a, b);
}  // NaN only where both are
double most(double a, double b) {
  return std::fmax(a, b);
}

void add(Pooled& into, const Pooled& part) {
  into.sum += part.sum;
  into.count += part.count;
}

}  // namespace

namespace detail {

PolicyMetrics metrics_of(const Parts& parts, const Facts& facts, const PolicyLossOptions& options,
                         const StepTotals& totals) {
  using enum PolicyLossType;
  const at::NoGradGuard no_grad;
  PolicyMetrics out{.loss_type = options.loss_type,
                    .has_kl = facts.kl.defined(),
                    .has_entropy = parts.entropy.defined(),
                    .has_policy_loss = facts.has_policy_loss};
  Reader reader;
  const at::Tensor one_each = at::ones({parts.sequences}, parts.m.options());
  const at::Tensor weight = facts.by_sequence ? one_each : parts.m;  // of a mean over rho's shape
  const double unclipped = options.loss_type == kGmpo ? 0 : 1;       // rho, or its logarithm
  const double low = unclipped - options.epsilon;
  const double cap = options.epsilon_high.value_or(options.epsilon);

  if (facts.kl.defined()) reader.mean(facts.kl * parts.m, parts.m, out.kl);
  if (parts.entropy.defined()) {
    reader.mean(parts.entropy * parts.m, parts.m, out.entropy);
    const at::Tensor effective = facts.high_entropy.defined() ? facts.high_entropy : parts.m;
    if (facts.has_policy_loss) reader.mean(parts.entropy * effective, effective, out.high_entropy);
  }
  if (clips_ratio(options.loss_type)) {
    const at::Tensor is_low = at::logical_and(facts.rho < low, facts.advantages < 0).to(at::kDouble);
    const at::Tensor is_high =
        at::logical_and(facts.rho > unclipped + cap, facts.advantages > 0).to(at::kDouble);
    reader.mean(is_low * weight, weight, out.clip_low);
    reader.mean(is_high * weight, weight, out.clip_high);
    reader.mean((is_low + is_high) * weight, weight, out.clip_region);  // never both
    at::Tensor lows = is_low, highs = is_high;
    if (!facts.by_sequence) {
      const at::Tensor some = parts.length > 0;
      lows = (parts.sum(is_low * parts.m) / parts.length).masked_select(some);
      highs = (parts.sum(is_high * parts.m) / parts.length).masked_select(some);
    }
    if (lows.numel() > 0) {
      reader.read(lows.min(), out.clip_low_min);
      reader.read(highs.max(), out.clip_high_max);
    }
  } else if (options.loss_type == kCispo) {
    const at::Tensor clipped = at::logical_and(facts.rho > cap, facts.advantages > 0).to(at::kDouble);
    reader.mean(clipped * weight, weight, out.cispo_clip);
  } else if (options.loss_type == kVespo) {
    reader.mean(facts.phi, one_each, out.vespo_phi);
  }
  if (facts.has_policy_loss) reader.read(facts.policy_loss, out.policy_loss);
  reader.finish();
  const bool by_items =
      options.loss_type == kDapo || options.loss_type == kCispo || options.loss_type == kVespo;
  if (options.span == Span::kMicroBatch && !by_items) out.policy_loss *= totals.micro_batches;
  return out;
}

}  // namespace detail

void PolicyMetrics::add(const PolicyMetrics& part) {
  loss_type = part.loss_type;
  has_kl = has_kl || part.has_kl;
  has_entropy = has_entropy || part.has_entropy;
  has_policy_loss = has_policy_loss || part.has_policy_loss;
  learn::add(kl, part.kl);
  learn::add(entropy, part.entropy);
  learn::add(clip_low, part.clip_low);
  learn::add(clip_high, part.clip_high);
  learn::add(clip_region, part.clip_region);
  learn::add(cispo_clip, part.cispo_clip);
  learn::add(vespo_phi, part.vespo_phi);
  learn::add(high_entropy, part.high_entropy);
  clip_low_min = least(clip_low_min, part.clip_low_min);
  clip_high_max = most(clip_high_max, part.clip_high_max);
  policy_loss += part.policy_loss;
}

std::vector<std::pair<std::string, double>> PolicyMetrics::named() const {
  std::vector<std::pair<std::string, double>> out;
  if (has_policy_loss) out.emplace_back("policy_loss", policy_loss);
  if (has_kl) out.emplace_back("kl", kl.value());
  if (has_entropy) out.emplace_back("entropy", entropy.value());
  if (detail::clips_ratio(loss_type)) {
    out.emplace_back("clip_ratio/low_mean", clip_low.value());
    out.emplace_back("clip_ratio/low_min", clip_low_min);
    out.emplace_back("clip_ratio/high_mean", clip_high.value());
    out.emplace_back("clip_ratio/high_max", clip_high_max);
    out.emplace_back("clip_ratio/region_mean", clip_region.value());
  } else if (loss_type == PolicyLossType::kCispo) {
    out.emplace_back("cispo_clip_ratio", cispo_clip.value());
  } else if (loss_type == PolicyLossType::kVespo) {
    out.emplace_back("vespo/phi_seq_mean", vespo_phi.value());
  }
  return out;
}

}  // namespace hone::learn
