#include "adapters/lora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/safetensors.h"

namespace hone::adapters {
namespace {

enum class Draw { kUniform, kNormal };

// Uniform in [-size, size), or normal with standard deviation `size`.
void fill(const at::Tensor& tensor, std::uint64_t seed, const std::string& key, Draw draw, double size) {
  // A module's draws depend on its name, not on which others are adapted. A substream has 48 bits.
  const base::Stream stream(seed, base::Purpose::kLoraInit, 0, base::hash64(key) >> 16);
  float* out = tensor.data_ptr<float>();
  const auto factor = static_cast<float>(size);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    out[i] = factor * (draw == Draw::kUniform ? 2.0F * stream.uniform(index) - 1.0F : stream.normal(index));
  }
}

void check_config(const LoraConfig& config) {
  if (config.r <= 0) {
    throw base::UserError(
        {"option lora_r", "a positive rank", std::to_string(config.r), "", "16 is a common choice"});
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw base::UserError(
        {"option lora_dropout", "a probability from 0 to below 1", std::to_string(config.dropout), "", ""});
  }
}

}  // namespace

double LoraConfig::scale() const {
  const auto rank = static_cast<double>(r);
  return alpha / (rslora ? std::sqrt(rank) : rank);
}

Adapter Adapter::make(model::CausalLm& model, const LoraConfig& config, std::vector<std::string> targets) {
  check_config(config);
  Adapter adapter;
  adapter.config_ = with_recorded_targets(config, model.config());
  adapter.targets_ = std::move(targets);
  std::int64_t total = 0;
  const std::vector<ops::Linear*> all = model.linears();
  std::vector<std::uint64_t> keys;  // a module's place in the whole model keys its dropout
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->lora.reset();
    const auto& t = adapter.targets_;
    if (std::find(t.begin(), t.end(), all[i]->name) == t.end()) continue;
    adapter.linears_.push_back(all[i]);
    keys.push_back(i);
    total += config.r * (all[i]->weight.out() + all[i]->weight.in());
  }
  base::require(adapter.linears_.size() == adapter.targets_.size(), "Adapter",
                "every target among the model's linears");
  adapter.flat_ = at::zeros({total}, at::kFloat);
  adapter.flat_gradient_ = at::zeros({total}, at::kFloat);
  std::int64_t offset = 0;
  const auto view = [&](std::int64_t rows, std::int64_t columns, const std::string& key) {
    const std::int64_t n = rows * columns;
    // A leaf that shares the buffer, with a gradient that is there from the start: autograd then adds in
    // place.
    at::Tensor leaf = adapter.flat_.narrow(0, offset, n).view({rows, columns}).detach();
    leaf.set_requires_grad(true);
    leaf.mutable_grad() = adapter.flat_gradient_.narrow(0, offset, n).view({rows, columns});
    offset += n;
    adapter.tensors_.push_back({key, leaf});
    return leaf;
  };
  for (std::size_t i = 0; i < adapter.linears_.size(); ++i) {
    ops::Linear& linear = *adapter.linears_[i];
    ops::LoraSide side;
    side.a = view(config.r, linear.weight.in(), key_a(linear.name));
    side.b = view(linear.weight.out(), config.r, key_b(linear.name));
    side.scale = config.scale();
    side.dropout = config.dropout;
    side.dropout_key = keys[i];
    linear.lora = std::move(side);
  }
  return adapter;
}

Adapter Adapter::attach(model::CausalLm& model, const LoraConfig& config, std::uint64_t seed) {
  Adapter adapter = make(model, config, select_targets(config, model));
  const at::NoGradGuard no_grad;
  const auto rank = static_cast<double>(config.r);
  for (std::size_t i = 0; i < adapter.linears_.size(); ++i) {
    const TrainableTensor& a = adapter.tensors_[2 * i];
    const TrainableTensor& b = adapter.tensors_[2 * i + 1];
    // PEFT: kaiming_uniform(a = sqrt 5), that is a bound of 1/sqrt(fan_in); "gaussian" has deviation 1/r.
    if (config.init == config::LoraInit::kGaussian) {
      fill(a.value, seed, a.name, Draw::kNormal, 1 / rank);
    } else {
      fill(a.value, seed, a.name, Draw::kUniform, 1 / std::sqrt(static_cast<double>(a.value.size(1))));
    }
    if (config.init == config::LoraInit::kFalse)
      fill(b.value, seed, b.name, Draw::kUniform, 1 / std::sqrt(rank));
  }
  return adapter;
}

Adapter Adapter::load(model::CausalLm& model, const base::fs::path& folder) {
  const StoredAdapter stored = read_adapter(folder, model.config());
  std::vector<std::string> targets;
  for (const StoredLora& module : stored.modules) targets.push_back(module.module);
  Adapter adapter = make(model, stored.config, std::move(targets));
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < stored.modules.size(); ++i) {
    adapter.tensors_[2 * i].value.copy_(stored.modules[i].a);
    adapter.tensors_[2 * i + 1].value.copy_(stored.modules[i].b);
  }
  return adapter;
}

void Adapter::save(const base::fs::path& folder) const {
  std::error_code ec;
  base::fs::create_directories(folder, ec);
  if (ec) throw base::UserError({folder.string(), "a folder to write the adapter to", ec.message(), "", ""});
  base::write_file_atomic(folder / kConfigFile, base::dump_json(config_to_json(config_), 2));
  std::map<std::string, at::Tensor> sorted;
  for (const TrainableTensor& t : tensors_) sorted[t.name] = t.value;
  std::vector<base::StoredTensor> stored;
  for (const auto& [name, value] : sorted) {
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(value.const_data_ptr()),
                                           value.nbytes());
    stored.push_back({name, base::DType::kF32, value.sizes().vec(), bytes});
  }
  base::write_safetensors(folder / kWeightsFile, stored, {{"format", "pt"}});
}

void Adapter::zero_gradient() {
  const at::NoGradGuard no_grad;
  flat_gradient_.zero_();
}

void Adapter::set_dropout(double p) {
  config_.dropout = p;
  check_config(config_);
  for (ops::Linear* linear : linears_) linear->lora->dropout = p;
}

}  // namespace hone::adapters
