#include "doctor/watch/tensor_watch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/crc32c.h"
#include "doctor/excluded.h"
#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr std::size_t kNamesShown = 3;

std::uint32_t print_of(const at::Tensor& value) {
  const at::Tensor here = value.detach().cpu().contiguous();
  return base::crc32c({static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()});
}

bool all_zero(const at::Tensor& values) {
  return !values.detach().ne(0).any().item<bool>();
}

// The tensor B of the module whose A this is; null for others.
const adapters::TrainableTensor* partner_of(const adapters::TrainableTensor& one,
                                            const adapters::Adapter& adapter) {
  const std::size_t at = one.name.rfind("lora_A");
  if (at == std::string::npos) return nullptr;
  std::string name = one.name;
  name.replace(at, 6, "lora_B");
  for (const adapters::TrainableTensor& other : adapter.tensors()) {
    if (other.name == name) return &other;
  }
  return nullptr;
}

// While B is 0, dL/dA is 0 whatever the data: a fresh adapter's first step.
bool zero_by_construction(const adapters::TrainableTensor& one, const adapters::Adapter& adapter) {
  const adapters::TrainableTensor* b = partner_of(one, adapter);
  return b != nullptr && all_zero(b->value);
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
  std::vector<std::string> without;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Tensor& one = tensors_[i];
    one.looked_at = false;
    // Rows of an embedding, say, have a gradient only when their tokens come up.
    if (all[i].name.find("lora_") == std::string::npos) continue;
    if (!all_zero(all[i].value.grad())) {
      one.looked_at = true;
      one.before = print_of(all[i].value);
      one.no_gradient = 0;
    } else if (!zero_by_construction(all[i], adapter)) {
      one.no_gradient += 1;
      if (one.no_gradient >= limits::kChecksToFail) without.push_back(all[i].name);
    }
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
  std::vector<std::string> still;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Tensor& one = tensors_[i];
    if (!one.looked_at) continue;
    one.not_moved = print_of(all[i].value) == one.before ? one.not_moved + 1 : 0;
    if (one.not_moved >= limits::kChecksToFail) still.push_back(all[i].name);
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
