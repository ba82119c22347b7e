// AdamW and clipping are element by element, or sums over blocks of a fixed size added in order (ops/adamw.h).
#include "learn/adamw.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/adamw.h"

namespace hone::learn {
namespace {

constexpr std::int64_t kBlock = ops::kSumBlock;

void require_flat(const at::Tensor& tensor, std::int64_t size, const char* name) {
  base::require(tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.dim() == 1 &&
                    tensor.is_contiguous() && tensor.numel() == size,
                "learn::adamw",
                std::string(name) + " to be a flat contiguous fp32 tensor of the parameters' size");
}

// The constants of one step, rounded to fp32 where torch rounds them.
ops::AdamwStep step_of(const AdamWOptions& options, double learning_rate, std::int64_t step) {
  const auto t = static_cast<double>(step);
  const double correction1 = 1.0 - std::pow(options.beta1, t);
  const double correction2 = 1.0 - std::pow(options.beta2, t);
  return {.decay = static_cast<float>(1.0 - learning_rate * options.weight_decay),
          .lerp = static_cast<float>(1.0 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - options.beta2),
          .root_correction2 = static_cast<float>(std::sqrt(correction2)),
          .epsilon = static_cast<float>(options.epsilon),
          .minus_step_size = static_cast<float>(-(learning_rate / correction1))};
}

std::int64_t block_count(std::int64_t size) {
  return (size + kBlock - 1) / kBlock;
}

double root_of_sum(const at::Tensor& blocks) {
  double sum = 0;
  const auto* const values = blocks.const_data_ptr<double>();
  for (std::int64_t b = 0; b < blocks.numel(); ++b) sum += values[b];
  return std::sqrt(sum);
}

}  // namespace

AdamWState AdamWState::zeros_like(const at::Tensor& parameters) {
  const auto zeros = [&] { return at::zeros({parameters.numel()}, parameters.options().dtype(at::kFloat)); };
  return {.m = zeros(), .v = zeros(), .step = 0};
}

void adamw_step(at::Tensor parameters, const at::Tensor& gradient, AdamWState& state,
                const AdamWOptions& options, double learning_rate) {
  const std::int64_t size = parameters.numel();
  require_flat(parameters, size, "parameters");
  require_flat(gradient, size, "gradient");
  require_flat(state.m, size, "m");
  require_flat(state.v, size, "v");
  state.step += 1;
  ops::AdamwStep one = step_of(options, learning_rate, state.step);
  one.p = parameters;
  one.g = gradient;
  one.m = state.m;
  one.v = state.v;
  ops::adamw(one);
}

double clip_gradient(at::Tensor gradient, double max_norm) {
  const std::int64_t size = gradient.numel();
  require_flat(gradient, size, "gradient");
  const double norm = root_of_sum(ops::block_sums_of_squares(gradient));
  if (const std::optional<float> factor = clip_factor(norm, max_norm)) scale_gradient(gradient, *factor);
  return norm;
}

std::optional<float> clip_factor(double norm, double max_norm) {
  const double scale = max_norm / (norm + 1e-6);
  if (max_norm > 0 && scale < 1.0) return static_cast<float>(scale);
  return std::nullopt;
}

void scale_gradient(at::Tensor gradient, float factor) {
  ops::scale(gradient, factor);
}

GradientNorm::GradientNorm(std::int64_t size, at::Device device)
    : size_(size), blocks_(at::zeros({block_count(size)}, at::TensorOptions(at::kDouble).device(device))) {}

void GradientNorm::add(std::int64_t offset, const at::Tensor& part) {
  require_flat(part, part.numel(), "a part of the gradient");
  base::require(offset >= 0 && offset + part.numel() <= size_, "learn::GradientNorm", "a part within it");
  const std::int64_t end = offset + part.numel();
  const std::int64_t whole = block_count(offset);  // the first block that lies in the part, if one does
  const std::int64_t after = std::max(whole, end == size_ ? block_count(end) : end / kBlock);
  if (after > whole) {
    const std::int64_t first = whole * kBlock, last = std::min(after * kBlock, size_);
    ops::block_sums_of_squares_into(blocks_.narrow(0, whole, after - whole),
                                    part.narrow(0, first - offset, last - first));
  }
  const std::int64_t head = std::min(whole * kBlock, end), tail = std::max(after * kBlock, head);
  if (head > offset) fill_border(offset / kBlock, offset, part.narrow(0, 0, head - offset));
  if (end > tail) fill_border(tail / kBlock, tail, part.narrow(0, tail - offset, end - tail));
}

// Elements of a block of which others come with another part; the last of them makes its sum.
void GradientNorm::fill_border(std::int64_t block, std::int64_t begin, const at::Tensor& values) {
  const std::int64_t length = std::min(kBlock, size_ - block * kBlock);
  Border& border = borders_[block];
  if (!border.values.defined()) border.values = at::empty({length}, values.options());
  border.values.narrow(0, begin - block * kBlock, values.numel()).copy_(values);
  border.filled += values.numel();
  base::require(border.filled <= length, "learn::GradientNorm", "every element once");
  if (border.filled < length) return;
  ops::block_sums_of_squares_into(blocks_.narrow(0, block, 1), border.values);
  borders_.erase(block);
}

bool GradientNorm::is_finite() const {
  return blocks_.isfinite().all().item<bool>();
}

double GradientNorm::value() const {
  base::require(borders_.empty(), "learn::GradientNorm", "every element");
  return root_of_sum(blocks_.cpu());
}

}  // namespace hone::learn
