#include "adapters/lora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "adapters/expert_targets.h"
#include "adapters/name_pattern.h"
#include "adapters/peft_files.h"
#include "adapters/pissa.h"
#include "adapters/ranks.h"
#include "adapters/saved_vocabulary.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "model/config/families.h"
#include "ops/dora.h"
#include "ops/machine/device_memory.h"

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

// The sides that the model had before, and those below it.
void clear_sides(model::CausalLm& model, const LoraConfig& config) {
  for (ops::Linear* linear : model.linears_and_head()) {
    if (config.dora && linear->frozen_lora) {
      throw base::UserError(
          {"option base_adapters", "a LoRA on top of them", "DoRA, whose rows have magnitudes",
           "in PEFT they refer only to the base, but after a merge to the merged base",
           "merge the base_adapters first (hone merge), and train or use DoRA on that model"});
    }
    linear->lora.reset();
  }
}

// A linear that is trained in full has no codes of 4 or 8 bits.
void require_trainable(const model::CausalLm& model, const WholeTensor& tensor) {
  const model::Quantize scheme = model.quantized();
  if (!scheme || tensor.shape.size() != 2) return;
  throw base::UserError({"option lora_modules_to_save", "linears that are not quantized",
                         tensor.name + ", of a base in " + ops::describe(*scheme),
                         "codes cannot take the small steps of training",
                         "name it in lora_target_modules, or train on the base without load_in_4bit"});
}

// Two kinds of training that would both replace a matrix.
void check_ends(const LoraConfig& config, const model::ModelConfig& model, bool strict) {
  const TrainedEnds ends = trained_ends(config, model);
  const bool tied = model.tie_word_embeddings && !config.score_head;
  if (!config.token_indices.empty() && (ends.embedding || (tied && ends.head))) {
    throw base::UserError(
        {where_of(strict, "trainable_token_indices"), "rows of a matrix that is not trained otherwise",
         ends.embedding ? "embed_tokens among lora_target_modules or lora_modules_to_save"
                        : "lm_head among lora_target_modules or lora_modules_to_save, and a tied head",
         "PEFT refuses both on one matrix too", "leave one of the two out"});
  }
  const bool plain = !config.dora && config.init != LoraInit::kPissa;
  if (plain || !ends.any()) return;
  const model::TensorNames& names = model::names_of(model);
  for (const std::string& module : select_targets(config, model, /*strict=*/false)) {
    const bool embedding = module == names.embedding.hf, head = module == names.head.hf;
    if (config.dora && embedding) {
      throw base::UserError(
          {where_of(strict, "use_dora"), "DoRA on linears", "'" + module + "' among the targets",
           "every step would need the norms of the whole embedding's columns",
           "leave embed_tokens out, or use a LoRA; lora_modules_to_save trains it in full"});
    }
    if (config.init == LoraInit::kPissa && (embedding || head)) {
      throw base::UserError({where_of(strict, "init_lora_weights"), "pissa on linears of the layers",
                             "'" + module + "' among the targets",
                             "PiSSA changes the base's matrix, which a tied head and embedding share",
                             "leave it out of lora_target_modules, or use init_lora_weights: true"});
    }
  }
}

}  // namespace

bool is_token_rows(const TrainableTensor& tensor) {
  return tensor.name.ends_with(kTokenRowsSuffix);
}

bool starts_at_zero(const TrainableTensor& tensor) {
  return tensor.name.ends_with(".lora_B.weight") || tensor.name.ends_with(".lora_embedding_A");
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

std::int64_t Adapter::size_of(const model::ModelConfig& model, const std::vector<ModuleRank>& ranks) const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < linears_.size(); ++i) {
    const ops::Weight& weight = linears_[i]->weight;
    total +=
        ranks[i].r * linears_[i]->stacked * (weight.out() + weight.in()) + (config_.dora ? weight.out() : 0);
  }
  if (embeds_) total += ranks.back().r * (model.vocab_size + model.hidden_size);
  const auto rows = static_cast<std::int64_t>(config_.token_indices.size());
  total += (rows + (config_.score_head ? 1 : 0)) * model.hidden_size;
  for (const WholeTensor& tensor : whole_) total += c10::multiply_integers(tensor.shape);
  return total;
}

void Adapter::make_sides(const std::vector<ModuleRank>& ranks, const View& view) {
  for (std::size_t i = 0; i < linears_.size(); ++i) {
    ops::Linear& linear = *linears_[i];
    ops::LoraWeights side;
    const std::string module = module_in_files(linear.named_in_adapters(), targets_);
    const std::int64_t rank = ranks[i].r * linear.stacked;
    side.a = view({rank, linear.weight.in()}, key_a(module));
    side.b = view({linear.weight.out(), rank}, key_b(module));
    if (config_.dora) side.magnitude = view({linear.weight.out()}, key_magnitude(module));
    side.scale = ranks[i].scale;
    side.dropout = config_.dropout;
    linear.lora = std::move(side);
  }
}

void Adapter::make_parts(model::CausalLm& model, const std::vector<ModuleRank>& ranks, const View& view) {
  const model::ModelConfig& shape = model.config();
  const model::TensorNames& names = model::names_of(shape);
  model::TrainedParts parts;
  if (embeds_) {
    const std::string& module = targets_.back();
    parts.embedding_lora = {.a = view({ranks.back().r, shape.vocab_size}, key_embedding_a(module)),
                            .b = view({shape.hidden_size, ranks.back().r}, key_embedding_b(module)),
                            .scale = ranks.back().scale};
  }
  model::TokenRows token_rows;
  if (const auto rows = static_cast<std::int64_t>(config_.token_indices.size()); rows > 0) {
    token_rows_ = view({rows, shape.hidden_size}, key_token_rows(shape));
    token_rows = {config_.token_indices, token_rows_};
  }
  for (const WholeTensor& tensor : whole_) {
    const at::Tensor value = whole_values_.emplace_back(view(tensor.shape, tensor.key));
    if (tensor.name == std::string(names.embedding.hf) + ".weight") {
      parts.embedding = value;
    } else if (tensor.name == std::string(names.head.hf) + ".weight") {
      parts.head = value;
    } else {
      require_trainable(model, tensor);
      parts.tensors[tensor.name] = value;
    }
  }
  // One tensor, as in transformers; PEFT's copies of the two are trained apart.
  if (config_.full && shape.head_is_embedding()) parts.head = parts.embedding;
  model.set_token_rows(std::move(token_rows));
  model.set_trained_parts(std::move(parts));
  if (config_.score_head) score_ = view({1, shape.hidden_size}, config_.full ? kScoreName : kScoreKey);
  model.set_score_head(score_);
}

Adapter Adapter::make(model::CausalLm& model, const LoraConfig& asked, std::vector<std::string> targets,
                      bool strict) {
  const LoraConfig config = with_expert_targets(asked, model.config(), strict);
  check_config(config);
  check_token_indices(config, model.config(), "trainable_token_indices");
  check_ends(config, model.config(), strict);
  clear_sides(model, config);
  Adapter adapter;
  adapter.targets_ = std::move(targets);
  const auto& names = adapter.targets_;
  adapter.config_ = with_recorded_patterns(with_recorded_targets(config, model.config()), names);
  std::vector<std::uint64_t> keys;  // a module's place in the whole model keys its dropout
  const std::vector<ops::Linear*> all = model.linears_and_head();
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < all.size(); ++i) places[all[i]->named_in_adapters()] = i;
  for (const std::string& name : names) {
    const auto place = places.find(name);
    if (place == places.end()) continue;
    adapter.linears_.push_back(all[place->second]);
    keys.push_back(place->second);
  }
  adapter.embeds_ = !names.empty() && names.back() == model::names_of(model.config()).embedding.hf;
  base::require(adapter.linears_.size() + (adapter.embeds_ ? 1 : 0) == names.size(), "Adapter",
                "every target among the model's modules");
  adapter.whole_ = config.full ? full_tensors(*config.full, model.config())
                               : whole_tensors(config, model.config(), names, strict);
  const std::vector<ModuleRank> ranks = ranks_of(config, names, strict);
  const std::int64_t total = adapter.size_of(model.config(), ranks);
  const auto options = at::TensorOptions(at::kFloat).device(model.device());
  adapter.flat_ = at::zeros({total}, options);
  std::int64_t offset = 0;
  const View view = [&](const std::vector<std::int64_t>& shape, const std::string& key) {
    const std::int64_t n = c10::multiply_integers(shape);
    // A leaf that shares the buffer; its gradient is there from the start: autograd then adds in place.
    at::Tensor leaf = adapter.flat_.narrow(0, offset, n).view(shape).detach();
    leaf.set_requires_grad(true);
    offset += n;
    adapter.tensors_.push_back({key, leaf});
    return leaf;
  };
  adapter.make_sides(ranks, view);
  for (std::size_t i = 0; i < keys.size(); ++i) adapter.linears_[i]->lora->dropout_key = keys[i];
  adapter.make_parts(model, ranks, view);
  if (!config.full) {
    adapter.hold_gradient();
    model.join_linears();
    ops::release_device_memory(model.device());  // where the weights were before they were joined
  }
  return adapter;
}

void Adapter::init_from_base(const model::CausalLm& model, const model::WeightSource* source) {
  if (token_rows_.defined()) token_rows_.copy_(model.embed(config_.token_indices));
  if (whole_.empty()) return;
  std::map<std::string, at::Tensor> held;
  for (const auto& [name, tensor] : model.frozen_tensors()) held[name] = tensor;
  const std::string tied = std::string(model::names_of(model.config()).embedding.hf) + ".weight";
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    // A tied head starts as the embedding.
    const std::string name = held.contains(whole_[i].name) ? whole_[i].name : tied;
    const bool stored = source != nullptr && source->has(name);
    at::Tensor(whole_values_[i]).copy_(stored ? source->read(name, at::kFloat) : held.at(name));
  }
}

void Adapter::init_module(std::size_t index, std::uint64_t seed) {
  const TrainableTensor& a = tensors_[tensors_per_module() * index];
  const TrainableTensor& b = tensors_[tensors_per_module() * index + 1];
  // PEFT: kaiming_uniform(a = sqrt 5), that is a bound of 1/sqrt(fan_in); "gaussian" has deviation 1/r.
  const auto rank = static_cast<double>(a.value.size(0));
  if (config_.init == LoraInit::kGaussian) {
    const auto stacked = static_cast<double>(linears_[index]->stacked);
    fill(a.value, seed, a.name, Draw::kNormal, stacked / rank);
  } else {
    fill(a.value, seed, a.name, Draw::kUniform, 1 / std::sqrt(static_cast<double>(a.value.size(1))));
  }
  if (config_.init == LoraInit::kFalse) fill(b.value, seed, b.name, Draw::kUniform, 1 / std::sqrt(rank));
  ops::LoraWeights& side = *linears_[index]->lora;
  if (config_.dora) side.magnitude.copy_(ops::dora_norm(*linears_[index], side));
}

Adapter Adapter::attach(model::CausalLm& model, const LoraConfig& config, std::uint64_t seed,
                        const model::WeightSource* source) {
  Adapter adapter = make(model, config, select_targets(config, model), /*strict=*/true);
  const at::NoGradGuard no_grad;
  adapter.init_from_base(model, source);
  for (std::size_t i = 0; i < adapter.linears_.size(); ++i) {
    if (config.init == LoraInit::kPissa) {
      init_pissa(*adapter.linears_[i], config.pissa_niter, seed);
    } else {
      adapter.init_module(i, seed);
    }
  }
  if (adapter
          .embeds_) {  // PEFT: A is 0 and B normal, as nn.Embedding; both normal with init_lora_weights: false
    const TrainableTensor& a = adapter.tensors_[adapter.tensors_per_module() * adapter.linears_.size()];
    const TrainableTensor& b = adapter.tensors_[adapter.tensors_per_module() * adapter.linears_.size() + 1];
    fill(b.value, seed, b.name, Draw::kNormal, 1);
    if (config.init == LoraInit::kFalse) fill(a.value, seed, a.name, Draw::kNormal, 1);
  }
  if (config.init == LoraInit::kPissa) adapter.initial_values_ = adapter.flat_.clone();
  return adapter;
}

Adapter Adapter::load(model::CausalLm& model, const base::fs::path& folder) {
  const StoredAdapter stored = read_adapter(folder, model.config());
  require_same_base(stored, model, folder.string());
  std::vector<std::string> targets;
  for (const StoredLora& module : stored.modules) targets.push_back(module.module);
  Adapter adapter = make(model, stored.config, std::move(targets), /*strict=*/false);
  const at::NoGradGuard no_grad;
  std::size_t next = 0;
  const auto put = [&](const at::Tensor& value) { at::Tensor(adapter.tensors_[next++].value).copy_(value); };
  for (const StoredLora& module : stored.modules) {
    put(module.a);
    put(module.b);
    if (module.magnitude.defined()) put(module.magnitude);
  }
  if (adapter.token_rows_.defined()) put(stored.token_rows);
  for (const at::Tensor& value : stored.whole) put(value);
  if (stored.config.score_head) put(stored.score);
  base::require(next == adapter.tensors_.size(), "Adapter::load", "a value of every tensor");
  return adapter;
}

Adapter Adapter::resume_pissa(model::CausalLm& model, const base::fs::path& folder,
                              const LoraConfig& config) {
  const StoredAdapter stored = read_adapter(folder, model.config());
  Adapter adapter = make(model, config, select_targets(config, model), /*strict=*/true);
  bool same = stored.modules.size() == adapter.linears_.size() &&
              stored.config.token_indices == config.token_indices &&
              stored.whole.size() == adapter.whole_.size();
  for (std::size_t i = 0; same && i < stored.modules.size(); ++i)
    same = stored.modules[i].a.size(0) == 2 * adapter.linears_[i]->lora->a.size(0);
  if (!same) {
    throw base::UserError({folder.string(),
                           "the adapter of a run with init_lora_weights pissa and this lora_r",
                           "rank " + std::to_string(stored.config.r) + " on " +
                               std::to_string(stored.modules.size()) + " modules",
                           "lora_r, the targets, trainable_token_indices or init_lora_weights changed since "
                           "the run began",
                           "resume with the options of plan.yaml"});
  }
  const at::NoGradGuard no_grad;
  const auto put = [&](bool initial) {  // one half of what save() joined
    for (std::size_t i = 0; i < stored.modules.size(); ++i) {
      const ops::LoraWeights& side = *adapter.linears_[i]->lora;
      const std::int64_t rank = side.a.size(0), from = initial ? rank : 0;
      at::Tensor(side.a).copy_(stored.modules[i].a.narrow(0, from, rank));
      at::Tensor(side.b).copy_(stored.modules[i].b.narrow(1, from, rank) * (initial ? -1 : 1));
    }
  };
  put(/*initial=*/true);
  for (ops::Linear* linear : adapter.linears_) subtract_lora(*linear);
  adapter.init_from_base(model, nullptr);
  adapter.initial_values_ = adapter.flat_.clone();
  put(/*initial=*/false);
  if (adapter.token_rows_.defined()) adapter.token_rows_.copy_(stored.token_rows);
  for (std::size_t i = 0; i < stored.whole.size(); ++i)
    at::Tensor(adapter.whole_values_[i]).copy_(stored.whole[i]);
  return adapter;
}

void Adapter::add_vocabulary(std::map<std::string, at::Tensor>& tensors) const {
  if (vocabulary_ == nullptr) return;
  StoredAdapter saved;
  saved.config = config_;
  for (const std::string& target : targets_) saved.modules.emplace_back().module = target;
  adapters::add_vocabulary(*vocabulary_, saved, tensors);
}

void Adapter::save(const base::fs::path& folder, at::ScalarType dtype, const BeforeRead& before) const {
  const at::NoGradGuard no_grad;
  std::error_code ec;
  base::fs::create_directories(folder, ec);
  if (ec) throw base::UserError({folder.string(), "a folder to write the adapter to", ec.message(), "", ""});
  if (is_full()) return save_full(folder, dtype, before);
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
    const double wider = config.rslora ? std::sqrt(2.0) : 2.0;  // alpha, so that the scale stays
    config.init = LoraInit::kTrue;
    config.r *= 2;
    config.alpha *= wider;
    for (auto& [pattern, rank] : config.rank_pattern) rank *= 2;
    for (auto& [pattern, alpha] : config.alpha_pattern) alpha *= wider;
  }
  add_vocabulary(tensors);
  write_adapter(folder, config, tensors);
  write_frozen_adapters(folder, frozen_adapters_);
}

void Adapter::release_gradient() {
  flat_gradient_.reset();
  for (TrainableTensor& tensor : tensors_) tensor.value.mutable_grad().reset();
}

void Adapter::hold_gradient() {
  if (flat_gradient_.defined()) return;
  flat_gradient_ = at::zeros_like(flat_);
  std::int64_t offset = 0;
  for (TrainableTensor& tensor : tensors_) {
    const std::int64_t n = tensor.value.numel();
    tensor.value.mutable_grad() = flat_gradient_.narrow(0, offset, n).view(tensor.value.sizes());
    offset += n;
  }
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
