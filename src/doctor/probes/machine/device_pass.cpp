#include "doctor/probes/machine/device_pass.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>

#include "model/files/first_layers.h"
#include "ops/cases/without.h"
#include "train/passes/scored_pass.h"

namespace hone::doctor {

namespace {

constexpr std::int64_t kRank = 8;
constexpr double kDropout = 0.1;
constexpr std::int64_t kSmallModel = 256 << 20;  // bytes
// Of the loss, and of a gradient's norm: in bf16 a number is rounded at 2^-9 many times, on both sides.
struct PassBounds {
  double loss, gradient;
};
constexpr PassBounds kOfBf16{2e-2, 1e-1}, kOfFp32{1e-4, 1e-3};

at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed, double size) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat).mul_(size);
}

// Routers choose experts by small differences: sides there would show another choice as another gradient.
bool takes_side(const ops::Linear& linear) {
  return linear.stacked == 1 && linear.weight.has_numbers() &&
         linear.name.find(".experts.") == std::string::npos;
}

void add_sides(model::CausalLm& model, at::Device device) {
  std::uint64_t seed = 1;
  for (ops::Linear* const linear : model.linears()) {
    if (!takes_side(*linear)) continue;
    ops::LoraWeights side;
    const auto in = linear->weight.in(), out = linear->weight.out();
    side.a = noise({kRank, in}, seed, 1 / std::sqrt(static_cast<double>(in))).to(device);
    side.b = noise({out, kRank}, seed + 1, 0.02).to(device);
    for (at::Tensor* leaf : {&side.a, &side.b}) {
      leaf->set_requires_grad(true);
      leaf->mutable_grad() = at::zeros_like(*leaf);
    }
    side.scale = 2;
    side.dropout = kDropout;
    side.dropout_key = seed;
    linear->lora = std::move(side);
    seed += 2;
  }
  model.join_linears();
}

// The largest relative difference that is worth a word, of one pair of tensors.
PassDifference compare(const PassNumbers::Gradient& cpu, const PassNumbers::Gradient& device, double bound) {
  PassDifference out{.error = 0, .bound = bound, .what = "the gradient of " + cpu.name};
  const at::Tensor off = device.values.sub(cpu.values);
  const double size = cpu.values.norm().item<double>();
  out.error = off.norm().item<double>() / std::max(size, 1e-12);
  if (!std::isfinite(out.error)) out.error = std::numeric_limits<double>::infinity();
  const at::Tensor flat = off.abs().nan_to_num(std::numeric_limits<float>::infinity()).reshape({-1});
  const auto place = flat.argmax().item<std::int64_t>();
  out.cpu = cpu.values.reshape({-1})[place].item<double>();
  out.device = device.values.reshape({-1})[place].item<double>();
  return out;
}

}  // namespace

PassDifference difference_of(const PassNumbers& cpu, const PassNumbers& device, bool bf16) {
  const PassBounds bounds = bf16 ? kOfBf16 : kOfFp32;
  PassDifference worst{.error = std::abs(device.loss - cpu.loss) / std::max(1.0, std::abs(cpu.loss)),
                       .bound = bounds.loss,
                       .what = "the loss",
                       .cpu = cpu.loss,
                       .device = device.loss};
  if (!std::isfinite(worst.error)) worst.error = std::numeric_limits<double>::infinity();
  if (!worst.is_right()) return worst;
  for (std::size_t i = 0; i < cpu.gradients.size(); ++i) {
    PassDifference one = compare(cpu.gradients[i], device.gradients.at(i), bounds.gradient);
    if (one.error / one.bound > worst.error / worst.bound) worst = std::move(one);
  }
  return worst;
}

FirstLayers::FirstLayers(const train::RunView& run, std::int64_t layers, at::Device device)
    : form_{.is_fused = run.start.memory.fused_layer, .recompute = model::RecomputeLevel::kNone} {
  const model::FirstLayersSource source(*run.source, layers);
  model_ = std::make_unique<model::CausalLm>(source, run.model->dtypes(), model::Storage::kPlain,
                                             train::quantize(run.plan), device);
  add_sides(*model_, device);
}

PassNumbers FirstLayers::pass(const data::Batch& batch) {
  for (ops::Linear* const linear : model_->linears()) {
    if (!linear->lora) continue;
    linear->lora->a.mutable_grad().zero_();
    linear->lora->b.mutable_grad().zero_();
  }
  const train::RngKey key{.training = true, .seed = 1, .step = 0};
  const auto scored = static_cast<double>(train::scored_tokens(batch));
  PassNumbers out;
  out.loss = train::score_and_backward(*model_, batch, key, scored, form_).nll_sum / std::max(scored, 1.0);
  for (const ops::Linear* const linear : std::as_const(*model_).linears()) {
    if (!linear->lora) continue;
    // to(CPU) of a tensor that is there shares it, and the next pass writes it
    out.gradients.push_back({linear->name + ".lora_A", linear->lora->a.grad().detach().cpu().clone()});
    out.gradients.push_back({linear->name + ".lora_B", linear->lora->b.grad().detach().cpu().clone()});
  }
  return out;
}

std::int64_t looked_at_layers(const model::CausalLm& model) {
  const model::ModelConfig& config = model.config();
  const std::int64_t all = config.num_hidden_layers;
  // The embedding that goes into each layer is one matrix for all of them.
  if (model.parameter_bytes() <= kSmallModel || config.per_layer_width > 0) return all;
  for (std::int64_t i = 1; i < all; ++i) {
    if (&config.mixer(i) != &config.mixer(0)) return std::min<std::int64_t>(all, 4);
  }
  return std::min<std::int64_t>(all, 2);
}

std::vector<std::string> guilty_operators(FirstLayers& layers, at::Device device, const data::Batch& batch,
                                          const PassNumbers& cpu, bool bf16) {
  std::vector<std::string> out;
  for (const std::string& name : ops::cases::own_operators(device)) {
    const ops::cases::Without without(device, name);
    if (difference_of(cpu, layers.pass(batch), bf16).is_right()) out.push_back(name);
  }
  return out;
}

}  // namespace hone::doctor
