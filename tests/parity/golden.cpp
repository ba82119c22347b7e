#include "parity/golden.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

namespace hone::parity {

namespace {

at::ScalarType scalar_type(base::DType dtype) {
  switch (dtype) {
    case base::DType::kF32:
      return at::kFloat;
    case base::DType::kF64:
      return at::kDouble;
    case base::DType::kI64:
      return at::kLong;
    default:
      throw std::runtime_error("a golden holds F32, F64 and I64 only");
  }
}

}  // namespace

at::Tensor Golden::tensor(const std::string& name) const {
  const auto* stored = file_.find(name);
  if (stored == nullptr) throw std::runtime_error(file_.path().string() + " has no tensor " + name);
  at::Tensor out = at::empty(stored->shape, scalar_type(stored->dtype));
  std::memcpy(out.mutable_data_ptr(), stored->bytes.data(), stored->bytes.size());
  if (!has(name + ".rows")) return out;
  const at::Tensor rows = tensor(name + ".rows");
  const at::Tensor whole = at::zeros({rows[0].item<std::int64_t>(), out.size(1)}, out.options());
  return whole.index_copy_(0, rows.slice(0, 1), out);
}

Margin::~Margin() {
  std::printf("[margin] %s: worst %.2g at %s, %.2g %% of %.0e, over %d comparisons\n", what_.c_str(), worst_,
              worst_name_.c_str(), 100 * worst_ / bound_, bound_, count_);
  EXPECT_GT(count_, 0) << what_ << " compared nothing";
}

void Margin::compare(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << name;
  const double scale = theirs.abs().max().item().toDouble();
  const double difference = (ours.to(at::kDouble) - theirs.to(at::kDouble)).abs().max().item<double>();
  note(name, difference / std::max(scale, 1e-12));
}

void Margin::compare(const std::string& name, double ours, double theirs) {
  constexpr double kAbsoluteBelow = 1e-6;
  note(name, std::abs(ours - theirs) / std::max(std::abs(theirs), kAbsoluteBelow));
}

void Margin::note(const std::string& name, double error) {
  ++count_;
  EXPECT_TRUE(std::isfinite(error)) << name;
  EXPECT_LE(error, bound_) << what_ << ": " << name;
  if (error <= worst_) return;
  worst_ = error;
  worst_name_ = name;
}

adapters::Adapter attach_rule_adapter(model::CausalLm& model) {
  auto adapter = adapters::Adapter::attach(
      model, {.r = 8, .alpha = 16, .target_modules = {"all-linear"}, .target_is_regex = true}, 0);
  const at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < adapter.tensors().size(); ++index) {
    const at::Tensor& value = adapter.tensors()[index].value;
    const at::Tensor i = at::arange(value.size(0), at::kDouble).unsqueeze(1);
    const at::Tensor j = at::arange(value.size(1), at::kDouble).unsqueeze(0);
    const std::size_t linear = index / 2;
    const at::Tensor phase = 0.37 * static_cast<double>(linear) + 0.11 * i + 0.013 * j;
    value.copy_(0.02 * (index % 2 == 0 ? phase.sin() : phase.cos()));
  }
  return adapter;
}

base::fs::path smollm2_gguf() {
  const base::fs::path path =
      base::fs::path(HONE_SOURCE_DIR) / "models/smollm2-gguf/SmolLM2-135M-Instruct.Q4_1.gguf";
  return base::fs::exists(path) ? path : base::fs::path();
}

data::Batch single(const at::Tensor& ids, const at::Tensor& labels) {
  data::Batch out;
  const auto length = ids.size(0);
  for (std::int64_t t = 0; t < length; ++t) {
    out.ids.push_back(ids[t].item<std::int64_t>());
    out.positions.push_back(t);
    out.labels.push_back(t == 0 ? data::kIgnore : labels[t].item<std::int64_t>());
  }
  out.segments.push_back({.begin = 0, .end = length, .row = 0});
  return out;
}

data::Batch concat(const std::vector<data::Batch>& parts) {
  data::Batch out;
  for (const data::Batch& part : parts) {
    const auto begin = static_cast<std::int64_t>(out.ids.size());
    out.ids.insert(out.ids.end(), part.ids.begin(), part.ids.end());
    out.positions.insert(out.positions.end(), part.positions.begin(), part.positions.end());
    out.labels.insert(out.labels.end(), part.labels.begin(), part.labels.end());
    const auto row = static_cast<std::int64_t>(out.segments.size());
    out.segments.push_back({.begin = begin, .end = static_cast<std::int64_t>(out.ids.size()), .row = row});
  }
  return out;
}

}  // namespace hone::parity
