#include "adapters/lora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "adapters/peft_files.h"
#include "adapters/pissa.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "ops/dora.h"

namespace hone::adapters {
namespace {

enum class Draw { kUniform, kNormal };

// Uniform in [-size, size), or normal with standard deviation `size`. Drawn on the CPU.
void fill(const at::Tensor& tensor, std::uint64_t seed, const std::string& key, Draw draw, double size) {
  // A module's draws depend on its name, not on which others are adapted. A substream has 48 bits.
  const base::Stream stream(seed, base::Purpose::kLoraInit, 0, base::hash64(key) >> 16);
  const at::Tensor drawn = at::empty(tensor.sizes(), at::kFloat);
  float* out = drawn.mutable_data_ptr<float>();
  const auto factor = static_cast<float>(size);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    out[i] = factor * (draw == Draw::kUniform ? 2.0F * stream.uniform(index) - 1.0F : stream.normal(index));
  }
  tensor.copy_(drawn);
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

bool is_token_rows(const TrainableTensor& tensor) {
  return tensor.name.ends_with(kTokenRowsSuffix);
}

double LoraConfig::scale() const {
  const auto rank = static_cast<double>(r);
  return alpha / (rslora ? std::sqrt(rank) : rank);
}

void require_kind(const LoraConfig& config, bool score_head, const std::string& where) {
  if (config.score_head == score_head) return;
  throw base::UserError({.where = where,
                         .expected = score_head ? "the adapter of a reward model, which has a score head"
                                                : "the adapter of a language model",
                         .found = score_head ? "one of a language model" : "one of a reward model",
                         .cause = score_head ? "it was not trained by hone reward or TRL's RewardTrainer"
                                             : "it gives scores (task_type SEQ_CLS), not text",
                         .fix = score_head ? "" : "name it in reward_funcs of hone grpo"});
}

Adapter Adapter::make(model::CausalLm& model, const LoraConfig& config, std::vector<std::string> targets) {
  check_config(config);
  check_token_indices(config, model.config(), "trainable_token_indices");
  Adapter adapter;
  adapter.config_ = with_recorded_targets(config, model.config());
  adapter.targets_ = std::move(targets);
  std::int64_t total = 0;
  const std::vector<ops::Linear*> all = model.linears();
  const auto lies_above = [](const ops::Linear* linear) { return linear->frozen_lora.has_value(); };
  if (config.dora && std::any_of(all.begin(), all.end(), lies_above)) {
    throw base::UserError(
        {"option base_adapters", "a LoRA on top of them", "DoRA, whose rows have magnitudes",
         "in PEFT they refer only to the base, but after a merge to the merged base",
         "merge the base_adapters first (hone merge), and train or use DoRA on that model"});
  }
  std::vector<std::uint64_t> keys;  // a module's place in the whole model keys its dropout
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->lora.reset();
    const auto& t = adapter.targets_;
    if (std::find(t.begin(), t.end(), all[i]->name) == t.end()) continue;
    adapter.linears_.push_back(all[i]);
    keys.push_back(i);
    total +=
        config.r * (all[i]->weight.out() + all[i]->weight.in()) + (config.dora ? all[i]->weight.out() : 0);
  }
  base::require(adapter.linears_.size() == adapter.targets_.size(), "Adapter",
                "every target among the model's linears");
  const auto rows = static_cast<std::int64_t>(config.token_indices.size());
  total += (rows + (config.score_head ? 1 : 0)) * model.config().hidden_size;
  const auto options = at::TensorOptions(at::kFloat).device(model.device());
  adapter.flat_ = at::zeros({total}, options);
  adapter.flat_gradient_ = at::zeros({total}, options);
  std::int64_t offset = 0;
  const auto view = [&](const std::vector<std::int64_t>& shape, const std::string& key) {
    const std::int64_t n = c10::multiply_integers(shape);
    // A leaf that shares the buffer, with a gradient that is there from the start: autograd then adds in
    // place.
    at::Tensor leaf = adapter.flat_.narrow(0, offset, n).view(shape).detach();
    leaf.set_requires_grad(true);
    leaf.mutable_grad() = adapter.flat_gradient_.narrow(0, offset, n).view(shape);
    offset += n;
    adapter.tensors_.push_back({key, leaf});
    return leaf;
  };
  for (std::size_t i = 0; i < adapter.linears_.size(); ++i) {
    ops::Linear& linear = *adapter.linears_[i];
    ops::LoraWeights side;
    side.a = view({config.r, linear.weight.in()}, key_a(linear.name));
    side.b = view({linear.weight.out(), config.r}, key_b(linear.name));
    if (config.dora) side.magnitude = view({linear.weight.out()}, key_magnitude(linear.name));
    side.scale = config.scale();
    side.dropout = config.dropout;
    side.dropout_key = keys[i];
    linear.lora = std::move(side);
  }
  model::TokenRows token_rows;
  if (rows > 0) {
    adapter.token_rows_ = view({rows, model.config().hidden_size}, key_token_rows(model.config()));
    token_rows = {config.token_indices, adapter.token_rows_};
  }
  model.set_token_rows(std::move(token_rows));
  if (config.score_head) adapter.score_ = view({1, model.config().hidden_size}, kScoreKey);
  model.set_score_head(adapter.score_);
  return adapter;
}

void Adapter::init_token_rows(const model::CausalLm& model) {
  if (token_rows_.defined()) token_rows_.copy_(model.embed(config_.token_indices));
}

Adapter Adapter::attach(model::CausalLm& model, const LoraConfig& config, std::uint64_t seed) {
  Adapter adapter = make(model, config, select_targets(config, model));
  const at::NoGradGuard no_grad;
  adapter.init_token_rows(model);
  const auto rank = static_cast<double>(config.r);
  for (std::size_t i = 0; i < adapter.linears_.size(); ++i) {
    const TrainableTensor& a = adapter.tensors_[adapter.tensors_per_module() * i];
    const TrainableTensor& b = adapter.tensors_[adapter.tensors_per_module() * i + 1];
    if (config.init == LoraInit::kPissa) {
      init_pissa(*adapter.linears_[i], config.pissa_niter, seed);
      continue;
    }
    // PEFT: kaiming_uniform(a = sqrt 5), that is a bound of 1/sqrt(fan_in); "gaussian" has deviation 1/r.
    if (config.init == LoraInit::kGaussian) {
      fill(a.value, seed, a.name, Draw::kNormal, 1 / rank);
    } else {
      fill(a.value, seed, a.name, Draw::kUniform, 1 / std::sqrt(static_cast<double>(a.value.size(1))));
    }
    if (config.init == LoraInit::kFalse) fill(b.value, seed, b.name, Draw::kUniform, 1 / std::sqrt(rank));
    ops::LoraWeights& side = *adapter.linears_[i]->lora;
    if (config.dora) side.magnitude.copy_(ops::dora_norm(*adapter.linears_[i]));
  }
  if (config.init == LoraInit::kPissa) adapter.initial_values_ = adapter.flat_.clone();
  return adapter;
}

Adapter Adapter::load(model::CausalLm& model, const base::fs::path& folder) {
  const StoredAdapter stored = read_adapter(folder, model.config());
  std::vector<std::string> targets;
  for (const StoredLora& module : stored.modules) targets.push_back(module.module);
  Adapter adapter = make(model, stored.config, std::move(targets));
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < stored.modules.size(); ++i) {
    ops::LoraWeights& side = *adapter.linears_[i]->lora;
    side.a.copy_(stored.modules[i].a);
    side.b.copy_(stored.modules[i].b);
    if (stored.config.dora) side.magnitude.copy_(stored.modules[i].magnitude);
  }
  if (adapter.token_rows_.defined()) adapter.token_rows_.copy_(stored.token_rows);
  if (stored.config.score_head) adapter.score_.copy_(stored.score);
  return adapter;
}

Adapter Adapter::resume_pissa(model::CausalLm& model, const base::fs::path& folder,
                              const LoraConfig& config) {
  const StoredAdapter stored = read_adapter(folder, model.config());
  Adapter adapter = make(model, config, select_targets(config, model));
  if (stored.config.r != 2 * config.r || stored.modules.size() != adapter.linears_.size() ||
      stored.config.token_indices != config.token_indices) {
    throw base::UserError({folder.string(),
                           "the adapter of a run with init_lora_weights pissa and this lora_r",
                           "rank " + std::to_string(stored.config.r) + " on " +
                               std::to_string(stored.modules.size()) + " modules",
                           "lora_r, the targets, trainable_token_indices or init_lora_weights changed since "
                           "the run began",
                           "resume with the options of plan.yaml"});
  }
  const at::NoGradGuard no_grad;
  const auto put = [&](std::int64_t from, double sign) {  // one half of what save() joined
    for (std::size_t i = 0; i < stored.modules.size(); ++i) {
      const ops::LoraWeights& side = *adapter.linears_[i]->lora;
      at::Tensor(side.a).copy_(stored.modules[i].a.narrow(0, from, config.r));
      at::Tensor(side.b).copy_(stored.modules[i].b.narrow(1, from, config.r) * sign);
    }
  };
  put(config.r, -1);
  for (ops::Linear* linear : adapter.linears_) subtract_lora(*linear);
  adapter.init_token_rows(model);
  adapter.initial_values_ = adapter.flat_.clone();
  put(0, 1);
  if (adapter.token_rows_.defined()) adapter.token_rows_.copy_(stored.token_rows);
  return adapter;
}

void Adapter::save(const base::fs::path& folder) const {
  const at::NoGradGuard no_grad;
  std::error_code ec;
  base::fs::create_directories(folder, ec);
  if (ec) throw base::UserError({folder.string(), "a folder to write the adapter to", ec.message(), "", ""});
  std::map<std::string, at::Tensor> tensors;
  for (const TrainableTensor& t : tensors_) tensors[t.name] = t.value;
  LoraConfig config = config_;
  if (initial_values_.defined()) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < 2 * linears_.size(); ++i) {  // A and B in turn: PiSSA has no magnitudes
      const at::Tensor& now = tensors_[i].value;
      const at::Tensor began = initial_values_.narrow(0, offset, now.numel()).view(now.sizes());
      tensors[tensors_[i].name] = i % 2 == 0 ? at::cat({now, began}, 0) : at::cat({now, -began}, 1);
      offset += now.numel();
    }
    config.init = LoraInit::kTrue;
    config.r *= 2;
    config.alpha *= config.rslora ? std::sqrt(2.0) : 2.0;
  }
  write_adapter(folder, config, tensors);
  write_frozen_adapters(folder, frozen_adapters_);
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
