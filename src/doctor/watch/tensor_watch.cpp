#include "doctor/watch/tensor_watch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "base/files/crc32c.h"
#include "doctor/excluded.h"
#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"
#include "ops/machine/device_memory.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr std::size_t kNamesShown = 3;

// Scalars of int64 or bool, read in one copy.
std::vector<std::int64_t> read_together(const std::vector<at::Tensor>& scalars) {
  if (scalars.empty()) return {};
  const at::Tensor all = at::stack(scalars).to(at::kCPU, at::kLong).contiguous();
  const auto* const first = all.const_data_ptr<std::int64_t>();
  return {first, first + all.numel()};
}

// The sum of the bits of fp32 numbers as integers, each times an odd number of its own, so that small changes of several
// do not cancel.
at::Tensor sum_of_bits(const at::Tensor& value) {
  constexpr std::int64_t kAtOnce = 1 << 22;  // elements: 32 MB as int64
  const at::Tensor bits = value.detach().contiguous().view(-1).view(at::kInt);
  const at::Tensor odd = at::arange(1, 2 * std::min(kAtOnce, bits.numel()), 2, bits.options());
  at::Tensor out = at::zeros({}, bits.options().dtype(at::kLong));
  for (std::int64_t begin = 0; begin < bits.numel(); begin += kAtOnce) {
    const at::Tensor part = bits.narrow(0, begin, std::min(kAtOnce, bits.numel() - begin));
    out.add_(part.mul(odd.narrow(0, 0, part.numel())).sum(at::kLong));
  }
  return out;
}

// Of the bits of each: the CRC on the host; elsewhere a sum, for which the host waits once.
std::vector<std::int64_t> prints_of(const std::vector<at::Tensor>& values) {
  std::vector<std::int64_t> out;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& value : values) {
    if (!ops::is_host(value.device())) {
      sums.push_back(sum_of_bits(value));
      continue;
    }
    const at::Tensor here = value.detach().contiguous();
    out.push_back(base::crc32c({static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()}));
  }
  return sums.empty() ? out : read_together(sums);
}

// Whether all numbers of each are 0.
std::vector<bool> all_zero(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> any;
  for (const at::Tensor& value : values) any.push_back(value.detach().ne(0).any());
  std::vector<bool> out;
  for (const std::int64_t one : read_together(any)) out.push_back(one == 0);
  return out;
}

// The tensor B of the module whose A this is; undefined for others.
at::Tensor partner_of(const adapters::TrainableTensor& one, const adapters::Adapter& adapter) {
  const std::size_t at = one.name.rfind("lora_A");
  if (at == std::string::npos) return {};
  std::string name = one.name;
  name.replace(at, 6, "lora_B");
  for (const adapters::TrainableTensor& other : adapter.tensors()) {
    if (other.name == name) return other.value;
  }
  return {};
}

// Of those whose gradients are 0, which are so by construction: while B is 0, dL/dA is 0 whatever the data, as in a fresh
// adapter's first step.
std::set<std::size_t> zero_by_construction(const std::vector<std::size_t>& without,
                                           const adapters::Adapter& adapter) {
  std::vector<std::size_t> with_partner;
  std::vector<at::Tensor> partners;
  for (const std::size_t i : without) {
    const at::Tensor b = partner_of(adapter.tensors()[i], adapter);
    if (!b.defined()) continue;
    with_partner.push_back(i);
    partners.push_back(b);
  }
  std::set<std::size_t> out;
  const std::vector<bool> zero = all_zero(partners);
  for (std::size_t k = 0; k < zero.size(); ++k) {
    if (zero[k]) out.insert(with_partner[k]);
  }
  return out;
}

std::string counted(std::size_t some, std::size_t all) {
  return std::to_string(some) + " of " + std::to_string(all) + " trainable tensors";
}

}  // namespace

std::string first_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(kNamesShown, names.size()); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShown) out += " and " + std::to_string(names.size() - kNamesShown) + " more";
  return out;
}

bool TensorWatch::due(std::int64_t step) const {
  const std::int64_t mine = step - first_step_;
  return mine <= limits::kFirstChecks || mine % limits::kCheckEvery == 0;
}

Findings TensorWatch::on_backward(std::int64_t step, const adapters::Adapter& adapter, bool had_samples) {
  Findings out;
  armed_ = due(step) && had_samples;
  if (!armed_) return out;
  const auto& all = adapter.tensors();
  tensors_.resize(all.size());
  // Rows of an embedding, say, have a gradient only when their tokens come up.
  std::vector<std::size_t> watched, zero, moving;
  std::vector<at::Tensor> gradients, values;
  for (std::size_t i = 0; i < all.size(); ++i) {
    tensors_[i].looked_at = false;
    if (all[i].name.find("lora_") == std::string::npos) continue;
    watched.push_back(i);
    gradients.push_back(all[i].value.grad());
  }
  const std::vector<bool> is_zero = all_zero(gradients);
  for (std::size_t k = 0; k < watched.size(); ++k) {
    (is_zero[k] ? zero : moving).push_back(watched[k]);
    if (!is_zero[k]) values.push_back(all[watched[k]].value);
  }
  const std::vector<std::int64_t> prints = prints_of(values);
  for (std::size_t k = 0; k < moving.size(); ++k) {
    Tensor& one = tensors_[moving[k]];
    one.looked_at = true;
    one.before = prints[k];
    one.no_gradient = 0;
  }
  std::vector<std::string> without;
  const std::set<std::size_t> constructed = zero_by_construction(zero, adapter);
  for (const std::size_t i : zero) {
    if (constructed.contains(i)) continue;
    tensors_[i].no_gradient += 1;
    if (tensors_[i].no_gradient >= limits::kChecksToFail) without.push_back(all[i].name);
  }
  if (without.empty()) return out;
  add_finding(out,
              {.code = "GRAD-02",
               .level = Level::kFail,
               .what = counted(without.size(), all.size()) + " receive no gradient",
               .evidence = "exactly 0 in " + std::to_string(limits::kChecksToFail) +
                           " checks, the last at step " + std::to_string(step) + ": " + first_names(without),
               .cause = "the path from the loss to them is cut, or nothing flows through their modules",
               .not_this = "the learning rate: there is no gradient for it to scale",
               .fix = "`hone doctor` probes each tensor; layer_form: plain uses libtorch's autograd instead",
               .cost = "these modules do not change for the rest of the run"});
  return out;
}

Findings TensorWatch::on_step(std::int64_t step, const adapters::Adapter& adapter, double learning_rate) {
  Findings out;
  if (!armed_ || learning_rate == 0) return out;
  const auto& all = adapter.tensors();
  std::vector<std::size_t> watched;
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!tensors_[i].looked_at) continue;
    watched.push_back(i);
    values.push_back(all[i].value);
  }
  std::vector<std::string> still;
  const std::vector<std::int64_t> prints = prints_of(values);
  for (std::size_t k = 0; k < watched.size(); ++k) {
    Tensor& one = tensors_[watched[k]];
    one.not_moved = prints[k] == one.before ? one.not_moved + 1 : 0;
    if (one.not_moved >= limits::kChecksToFail) still.push_back(all[watched[k]].name);
  }
  if (still.empty()) return out;
  base::Verdict found{.code = "GRAD-05",
                      .level = Level::kFail,
                      .what = counted(still.size(), all.size()) + " have a gradient and do not change",
                      .evidence = "the same bits before and after the optimizer in " +
                                  std::to_string(limits::kChecksToFail) + " checks, the last at step " +
                                  std::to_string(step) + ": " + first_names(still)};
  if (learning_rate < limits::kRateOfRounding) {
    found.cause =
        "the update is smaller than half a unit in the last place of fp32 (NUM-01): learning rate " +
        short_number(learning_rate);
    found.fix = "raise learning_rate";
  } else {
    found.cause = "the optimizer holds other parameters than the model";
    ask_to_report(found, Excluded()
                             .add("the data", "they have a gradient")
                             .add("rounding", "learning rate " + short_number(learning_rate)));
  }
  add_finding(out, std::move(found));
  return out;
}

}  // namespace hone::doctor
