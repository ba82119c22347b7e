#include "model/causal_lm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/step_progress.h"
#include "base/where.h"
#include "model/config/families.h"
#include "model/config/layer_of.h"
#include "model/files/bnb_files.h"
#include "model/layers/embedding_noise.h"
#include "model/layers/fused_layer.h"
#include "model/layers/shared_base.h"
#include "ops/attention.h"
#include "ops/fused_linear.h"
#include "ops/head/linear_logprob.h"
#include "ops/head/soft_cap.h"
#include "ops/index_tensor.h"
#include "ops/kept_ggml.h"
#include "ops/machine/device_memory.h"
#include "ops/rms_norm.h"
#include "ops/routed_rows.h"

namespace hone::model {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// transformers keeps tables of frequencies in some old checkpoints; they are computed, not read. Nor does it read the
// layers of Qwen3.5 that predict several tokens.
bool is_ignored(const std::string& name, Family family) {
  return name.ends_with(".rotary_emb.inv_freq") || (family == Family::kQwen35 && name.starts_with("mtp."));
}

// Files may have keys and values of layers that read those of another one; transformers leaves them, too. Names of folders
// and of GGUFs.
std::set<std::string> unread_tensors(const ModelConfig& config) {
  std::set<std::string> out;
  const NamePair& layers = names_of(config).layers;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (config.attention_of(i).has_keys()) continue;
    const std::string number = std::to_string(i) + ".";
    const auto add = [&](const NamePair& name) {
      for (const char* end : {".weight", ".bias"}) {
        out.insert(std::string(layers.hf) + number + std::string(name.hf) + end);
        out.insert(std::string(layers.gguf) + number + std::string(name.gguf) + end);
      }
    };
    for (const ModuleRow& row : traits_of(config.family).modules)
      if (row.kind == ModuleKind::kK || row.kind == ModuleKind::kV) add(row.name);
    for (const NormRow& row : traits_of(config.family).norms)
      if (row.place == NormPlace::kK) add(row.name);
  }
  return out;
}

// A reward model's source (DecoderSource) shows no head.
void refuse_score_head(const WeightSource& source) {
  if (!source.has("score.weight")) return;
  throw base::UserError(
      {.where = source.path().string(),
       .expected = "a language model, whose head gives tokens",
       .found = "score.weight, the head of a reward model",
       .cause = "a folder that hone reward or TRL's RewardTrainer wrote, or a classifier",
       .fix = "name the language model that it was trained from; a reward model is for reward_funcs, "
              "and hone reward trains it further"});
}

void check_tensors(const WeightSource& source) {
  refuse_score_head(source);
  const ModelConfig& config = source.config();
  std::set<std::string> expected;
  for (const TensorSpec& spec : expected_tensors(config)) {
    expected.insert(spec.name);
    if (!source.has(spec.name)) {
      throw_absent_tensor(source.path().string(), spec.name, source.names());
    }
    const std::vector<std::int64_t> found = source.shape(spec.name);
    if (found != spec.shape) {
      throw base::UserError({source.path().string() + ": " + spec.name, "the shape " + shape_text(spec.shape),
                             shape_text(found), "the configuration belongs to another model",
                             "download both again"});
    }
  }
  const std::string head = std::string(names_of(config).head.hf) + ".weight";
  const std::set<std::string> unread = unread_tensors(config);
  for (const std::string& name : source.names()) {
    if (unread.contains(name)) continue;
    if (expected.contains(name) || is_ignored(name, config.family) ||
        (config.head_is_embedding() && name == head))
      continue;
    throw base::UserError(
        {source.path().string() + ": " + name, "only tensors that the configuration has",
         "this one in addition",
         "the configuration has fewer layers, biases or norms than the file, or is for another family",
         "use the config.json that belongs to the weights"});
  }
}

// How the tensors of a model are kept.
struct Held {
  DtypePolicy dtypes;
  Storage storage;
  const Quantize& quantize;
  at::Device device;
  bool keep_blocks;
};

ops::Weight stored(const at::Tensor& plain, Storage storage) {
  return storage == Storage::kPacked ? ops::Weight::packed_where_possible(plain) : ops::Weight(plain);
}

// Off the host a product makes its matrix's numbers, which costs a sampler's step more than the product. Experts are
// multiplied all at once there, for which they are dense.
bool keeps(const WeightSource& source, const Held& held) {
  if (ops::is_host(held.device)) return true;
  return ops::keeps_ggml(held.device) && held.storage == Storage::kPlain &&
         source.config().experts.count == 0;
}

ops::Weight read_weight(const WeightSource& source, const std::string& name, const Held& held) {
  std::optional<ops::Quantized> matrix;
  if (source.quantization(name)) {
    matrix = source.read_quantized(name);
  } else if (held.quantize) {
    matrix = ops::quantize(source.read(name, held.dtypes.residual), *held.quantize,
                           source.path().string() + ": " + name);
  } else if (held.keep_blocks && keeps(source, held) && kept_scheme(source, name, held.dtypes)) {
    matrix = source.read_blocks(name);
  }
  if (!matrix) return stored(source.read(name, held.dtypes.linear).to(held.device), held.storage);
  return ops::Weight::quantized(std::make_shared<const ops::Quantized>(matrix->to(held.device)),
                                held.dtypes.linear);
}

// A head or an embedding that stays in a GGUF's blocks, for products in the head's dtype; undefined: it does not.
ops::Weight kept_vocabulary(const WeightSource& source, const std::string& name, const Held& held) {
  if (!held.keep_blocks || !ops::is_host(held.device) || !kept_scheme(source, name, held.dtypes)) return {};
  return ops::Weight::quantized(std::make_shared<const ops::Quantized>(source.read_blocks(name)),
                                held.dtypes.linear);
}

// The same matrix, whose rows are read in the dtype of the residual stream.
ops::Weight as_embedding(const ops::Weight& kept, const Held& held) {
  return ops::Weight::quantized(std::make_shared<const ops::Quantized>(kept.quantized()),
                                held.dtypes.residual);
}

// bitsandbytes leaves experts and routers: they are parameters, not linears.
bool is_quantized(const LayerLinear& linear, const Quantize& quantize) {
  return linear.expert >= 0 ? quantize.experts : !linear.is_parameter;
}

ops::Linear read_linear(const WeightSource& source, const std::string& name, const Held& held) {
  ops::Linear linear;
  linear.name = name;
  linear.weight = read_weight(source, name + ".weight", held);
  if (source.has(name + ".bias")) {
    linear.bias = source.read(name + ".bias", held.dtypes.linear).to(held.device);
  }
  return linear;
}

// What layers' own inputs are made of. The embedding, larger than the rest of a model, stays in the dtype that the file has
// it in where that has all its numbers.
PerLayerInputs read_per_layer(const WeightSource& source, const Held& held) {
  const TensorNames& names = names_of(source.config());
  const std::string embedding = std::string(names.per_layer_embedding.hf) + ".weight";
  PerLayerInputs out;
  if (const ops::Weight kept = kept_vocabulary(source, embedding, held); kept.defined()) {
    out.embedding = as_embedding(kept, held);
  } else {
    const bool narrow = source.stored_dtype(embedding) == held.dtypes.linear;
    out.embedding =
        source.read(embedding, narrow ? held.dtypes.linear : held.dtypes.residual).to(held.device);
  }
  out.projection = read_linear(source, std::string(names.per_layer_projection.hf), held);
  out.norm =
      source.read(std::string(names.per_layer_norm.hf) + ".weight", held.dtypes.residual).to(held.device);
  return out;
}

}  // namespace

std::optional<ops::QuantScheme> kept_scheme(const WeightSource& source, const std::string& name,
                                            const DtypePolicy& dtypes) {
  if (!source.has(name) || (dtypes.float_head && layer_of(name) < 0)) return {};
  return source.blocks(name, dtypes.linear);
}

CausalLm::CausalLm(const WeightSource& source, DtypePolicy dtypes, Storage storage, const Quantize& quantize,
                   at::Device device, bool keep_blocks, SharedBase* shared)
    : config_(source.config()), dtypes_(dtypes) {
  check_tensors(source);
  const TensorNames& names = names_of(config_);
  const Held held{dtypes, storage, quantize, device, keep_blocks};
  const auto read = [&](const std::string& name, at::ScalarType dtype) {
    return source.read(name, dtype).to(device);
  };
  const auto norm = [&](const std::string& name) { return read(name + ".weight", dtypes.residual); };
  stored_final_norm_ = norm(std::string(names.final_norm.hf));
  final_norm_ = norm_weight(stored_final_norm_, config_);
  head_.name = std::string(names.head.hf);
  const std::string embedding = std::string(names.embedding.hf) + ".weight";
  const std::string head = std::string(names.head.hf) + ".weight";
  if (const ops::Weight kept = kept_vocabulary(source, embedding, held); kept.defined()) {
    embedding_ = as_embedding(kept, held);
    if (config_.head_is_embedding()) head_.weight = kept;
  } else if (config_.head_is_embedding()) {
    // One matrix where the head's numbers are the embedding's; rows are widened when they are looked up.
    const bool one = dtypes.residual == dtypes.head() ||
                     (!dtypes.float_head && source.stored_dtype(embedding) == dtypes.linear);
    const at::Tensor rows = read(embedding, one ? dtypes.head() : dtypes.residual);
    head_.weight = stored(rows.to(dtypes.head()), storage);
    embedding_ = one ? head_.weight : ops::Weight(rows);
  } else {
    embedding_ = read(embedding, dtypes.residual);
  }
  if (!config_.head_is_embedding()) head_.weight = kept_vocabulary(source, head, held);
  if (!head_.weight.defined()) {
    // a head in fp32 has the numbers of the model's dtype
    const at::ScalarType read_as = dtypes.float_head ? dtypes.residual : dtypes.linear;
    head_.weight = stored(read(head, read_as).to(dtypes.head()), storage);
  }
  if (config_.per_layer_width > 0) per_layer_ = read_per_layer(source, held);
  if (shared != nullptr) share(*shared);
  const Quantize none;
  const Held unquantized{dtypes, storage, none, device, keep_blocks};
  base::begin_part("reading weights", "layers", config_.num_hidden_layers);
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string prefix = std::string(names.layers.hf) + std::to_string(i) + ".";
    DecoderLayer layer;
    layer.number = i;
    layer.mixer = &config_.mixer(i);
    layer.parts = parts_of(config_, i);
    layer.attention = config_.attention_of(i);
    if (config_.value_norm && layer.attention.has_keys())
      layer.norms[NormPlace::kV] =
          at::ones({layer.attention.head_dim}, at::TensorOptions(dtypes.residual).device(device));
    for (const LayerTensor& one : layer_tensors(config_, i))
      layer.tensors[one.kind] =
          read(prefix + std::string(one.name.hf), one.of_stream ? dtypes.residual : dtypes.linear);
    for (const LayerNorm& one : layer_norms(config_, i)) {
      layer.stored[one.place] = norm(prefix + std::string(one.name.hf));
      layer.norms[one.place] = norm_weight(layer.stored[one.place], config_);
    }
    for (const LayerLinear& one : layer_linears(config_, i))
      one.part->place(layer, one,
                      read_linear(source, prefix + one.hf, is_quantized(one, quantize) ? held : unquantized));
    for (const LayerPart* const part : layer.parts) part->finish(layer, layer_parameters(config_, i));
    if (shared != nullptr) shared->share(layer);
    layers_.push_back(std::move(layer));
    base::advance_part();
  }
  base::end_parts();
  rotations_ = Rotations(config_, device);
  packed_ = head_.weight.is_packed() || (storage == Storage::kPacked && head_.weight.is_quantized());
}

void CausalLm::share(SharedBase& shared) {
  shared.share(embedding_);
  shared.share(head_.weight);
  if (per_layer_) {
    shared.share(per_layer_->embedding);
    shared.share(per_layer_->projection.weight);
  }
  for (const DecoderLayer& layer : layers_) shared.share(layer);
}

const ops::Weight& CausalLm::head(bool adapters_on) const {
  const at::Tensor& trained = trained_parts_.head;
  const bool reads = trained.defined() && (adapters_on || !head_.weight.has_numbers());
  return reads ? head_cast_.of(trained, dtypes_.head()) : head_.weight;
}

at::Tensor CausalLm::mean_head_row(const at::Tensor& of_base, bool adapters_on) const {
  const at::Tensor& trained = trained_parts_.head;
  if (!trained.defined() || !adapters_on) return of_base;
  const std::int64_t version = trained._version();
  if (mean_row_.version != version) mean_row_ = {ops::mean_row(head(adapters_on)), version};
  return mean_row_.values;
}

void CausalLm::require_id(std::int64_t id) const {
  const std::int64_t rows =
      per_layer_ ? std::min(config_.vocab_size, config_.per_layer_vocab) : config_.vocab_size;
  if (id >= 0 && id < rows) return;
  throw base::UserError({"token ids", "ids from 0 to " + std::to_string(rows - 1), std::to_string(id),
                         "the tokenizer has tokens without a row in the model's embedding",
                         "use the model's own tokenizer"});
}

at::Tensor CausalLm::index_of(const std::vector<std::int64_t>& ids) const {
  for (const std::int64_t id : ids) require_id(id);
  return ops::index_tensor(ids, device());
}

at::Tensor CausalLm::rows_of(const at::Tensor& index) const {
  if (!embedding_.has_numbers())
    return ops::gather_rows(trained_parts_.embedding.detach(), index, dtypes_.residual);
  const bool is_plain = !embedding_.is_packed() && !embedding_.is_quantized();
  return is_plain ? ops::gather_rows(embedding_.plain(), index, dtypes_.residual)
                  : embedding_.rows(index).to(dtypes_.residual);
}

at::Tensor CausalLm::embed(const std::vector<std::int64_t>& ids) const {
  return rows_of(index_of(ids));
}

at::Tensor CausalLm::rows_of(const at::Tensor& index, const ops::PassContext& pass) const {
  // transformers' nn.Embedding has a padding_idx: the lookup of that row has no gradient
  at::Tensor x = pass.adapters_on && trained_parts_.embedding.defined()
                     ? at::embedding(trained_parts_.embedding, index, config_.padding_row(config_.vocab_size))
                           .to(dtypes_.residual)
                     : rows_of(index);
  if (const auto& lora = trained_parts_.embedding_lora; pass.adapters_on && lora) {
    const at::Tensor a_out =
        at::embedding(lora->a.t(), index, config_.padding_row(config_.vocab_size));  // [T, r]
    x = (x + at::linear(a_out, lora->b) * lora->scale).to(dtypes_.residual);
  }
  return x;
}

at::Tensor CausalLm::embed(const std::vector<std::int64_t>& ids, const ops::PassContext& pass) const {
  const at::Tensor x = rows_of(index_of(ids), pass);
  return token_rows_.put(x, token_rows_.places(ids, pass));
}

at::Tensor CausalLm::final_norm(const ops::PassContext& pass) const {
  const bool trained = trained_final_norm_.defined() && pass.adapters_on;
  const at::Tensor weight =
      trained ? norm_weight(ops::trained_or(stored_final_norm_, trained_final_norm_, pass), config_)
              : final_norm_;
  return scales_hidden() ? weight * hidden_scale() : weight;
}

void CausalLm::set_trained_parts(TrainedParts parts) {
  const TensorNames& names = names_of(config_);
  std::map<std::string, at::Tensor*> places;  // by the tensor's name
  places[std::string(names.final_norm.hf) + ".weight"] = &trained_final_norm_;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::string prefix = std::string(names.layers.hf) + std::to_string(i) + ".";
    const auto number = static_cast<std::int64_t>(i);
    for (const LayerTensor& one : layer_tensors(config_, number))
      places[prefix + std::string(one.name.hf)] = &layers_[i].trained_tensors[one.kind];
    for (const LayerNorm& norm : layer_norms(config_, number))
      places[prefix + std::string(norm.name.hf) + ".weight"] = &layers_[i].trained[norm.place];
    for (ops::Linear* linear : layers_[i].linears()) {
      places[linear->name + ".weight"] = &linear->trained_weight;
      places[linear->name + ".bias"] = &linear->trained_bias;
      linear->trained_cast = ops::CastWeight(packed_);
    }
  }
  if (per_layer_) {
    places[std::string(names.per_layer_embedding.hf) + ".weight"] = &per_layer_->trained_embedding;
    places[std::string(names.per_layer_norm.hf) + ".weight"] = &per_layer_->trained_norm;
    places[per_layer_->projection.name + ".weight"] = &per_layer_->projection.trained_weight;
    per_layer_->projection.trained_cast = ops::CastWeight(packed_);
  }
  for (const auto& [name, place] : places) {
    const auto found = parts.tensors.find(name);
    *place = found == parts.tensors.end() ? at::Tensor() : found->second;
  }
  for (const auto& [name, tensor] : parts.tensors)
    base::require(places.contains(name), "CausalLm::set_trained_parts", "names of norms and linears");
  head_cast_ = ops::CastWeight(packed_);
  mean_row_ = {};
  trained_parts_ = std::move(parts);
}

void CausalLm::release_replaced() {
  const auto release = [](ops::Weight& weight) {
    weight = ops::Weight::without_numbers(weight.out(), weight.in(), weight.dtype(), weight.device());
  };
  for (ops::Linear* linear : linears()) {
    if (linear->trained_weight.defined()) release(linear->weight);
  }
  if (trained_parts_.embedding.defined()) release(embedding_);
  if (per_layer_ && per_layer_->trained_embedding.defined()) release(per_layer_->embedding);
  if (trained_parts_.head.defined()) release(head_.weight);
}

std::optional<ops::HeadRows> CausalLm::head_rows(bool adapters_on) const {
  if (!token_rows_.defined() || !adapters_on || !config_.head_is_embedding()) return std::nullopt;
  return ops::HeadRows{.ids = token_rows_.ids(), .rows = token_rows_.values().detach().to(head().dtype())};
}

RopeTables CausalLm::ropes(const std::vector<std::int64_t>& positions) const {
  return rotations_.tables(config_, positions, dtypes_.residual);
}

double CausalLm::embedding_scale() const {
  if (!config_.scales_in_embedding) return config_.embedding_scale;
  return at::scalar_tensor(config_.embedding_scale, dtypes_.residual).item<double>();
}

at::Tensor CausalLm::into_layers(const at::Tensor& embedded, const ops::PassContext& pass) const {
  if (config_.embedding_scale == 1) return with_embedding_noise(embedded, pass);
  if (config_.scales_in_embedding) return with_embedding_noise(embedded * embedding_scale(), pass);
  return with_embedding_noise(embedded, pass) * embedding_scale();
}

at::Tensor CausalLm::hidden(const data::Batch& batch, const ops::PassContext& pass, RouterLoad* load) const {
  base::require(batch.ids.size() == batch.positions.size() && !batch.ids.empty(), "CausalLm::hidden",
                "a batch with one position a token");
  SegmentBorders segments;
  for (const data::Segment& s : batch.segments) {
    base::require(s.prefix == data::kNoPrefix, "CausalLm::hidden", "segments without a prefix");
    segments.emplace_back(s.begin, s.end);
  }
  const RopeTables ropes = this->ropes(batch.positions);
  at::Tensor x = into_layers(embed(batch.ids, pass), pass);
  std::map<std::int64_t, std::pair<at::Tensor, at::Tensor>> shared;
  BesideStream beside{.per_layer = {}, .shared = &shared};
  if (per_layer_) beside.per_layer = per_layer_inputs(*per_layer_, {config_, dtypes_, batch.ids, pass}, x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    base::enter_layer(static_cast<std::int64_t>(i));
    x = decoder_layer(layers_[i], config_, x, ropes, pass, segments, load, beside);
  }
  base::enter_layer(-1);
  return ops::rms_norm(x, final_norm(pass), config_.rms_norm_eps).to(dtypes_.residual);
}

at::Tensor CausalLm::autograd_logits(const at::Tensor& hidden, const ops::PassContext& pass) const {
  return ops::soft_cap(autograd_products(hidden, pass), config_.logits_soft_cap);
}

at::Tensor CausalLm::autograd_products(const at::Tensor& hidden, const ops::PassContext& pass) const {
  const at::ScalarType dtype = head().dtype();
  const at::Tensor read = hidden.to(dtype);
  const bool trained = pass.adapters_on || !head_.weight.has_numbers();
  if (trained && trained_parts_.head.defined())
    return at::linear(read, trained_parts_.head.to(dtype)).to(at::kFloat);
  if (pass.adapters_on && head_.lora) return ops::linear_forward(head_, read, pass).to(at::kFloat);
  at::Tensor logits = at::linear(read, head().dense()).to(at::kFloat);
  if (!head_rows(pass.adapters_on)) return logits;
  const at::Tensor own = at::linear(read, token_rows_.values().to(dtype)).to(at::kFloat);
  return logits.index_copy(1, ops::index_tensor(token_rows_.ids(), device()), own);
}

Quantize CausalLm::quantized() const {
  const Quantize held = held_as();
  return held && !ops::is_ggml(held->type) ? held : std::nullopt;
}

Quantize CausalLm::held_as() const {
  Quantize out;
  for (const DecoderLayer& layer : layers_) {
    for (const ops::Linear* linear : layer.linears()) {
      if (out || !linear->weight.is_quantized()) continue;
      out = linear->weight.quantized().scheme;
    }
    for (const LinearStack& stack : layer.stacks()) {
      const ops::Weight& expert = stack.experts.front().front()->weight;
      out.experts = out.experts || (expert.is_quantized() && !ops::is_ggml(expert.quantized().scheme.type));
    }
  }
  return out;
}

std::vector<ops::Linear*> CausalLm::linears() {
  std::vector<ops::Linear*> all;
  for (DecoderLayer& layer : layers_) {
    for (ops::Linear* linear : layer.linears()) all.push_back(linear);
  }
  if (per_layer_) all.push_back(&per_layer_->projection);
  return all;
}

std::vector<const ops::Linear*> CausalLm::linears() const {
  std::vector<const ops::Linear*> all;
  for (const DecoderLayer& layer : layers_) {
    for (const ops::Linear* linear : layer.linears()) all.push_back(linear);
  }
  if (per_layer_) all.push_back(&per_layer_->projection);
  return all;
}

std::vector<ops::Linear*> CausalLm::linears_and_head() {
  std::vector<ops::Linear*> all = linears();
  all.push_back(&head_);
  for (DecoderLayer& layer : layers_) {
    for (const LinearStack& stack : layer.stacks()) all.push_back(stack.linear);
  }
  return all;
}

std::vector<const ops::Linear*> CausalLm::linears_and_head() const {
  std::vector<const ops::Linear*> all = linears();
  all.push_back(&head_);
  for (const DecoderLayer& layer : layers_) {
    for (const LinearStack& stack : layer.stacks()) all.push_back(stack.linear);
  }
  return all;
}

std::vector<std::pair<std::string, at::Tensor>> CausalLm::frozen_tensors() const {
  const TensorNames& names = names_of(config_);
  std::vector<std::pair<std::string, at::Tensor>> all;
  const auto add = [&all](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) all.emplace_back(name, tensor);
  };
  const auto add_matrix = [&add](const std::string& name, const ops::Weight& weight) {
    if (weight.is_quantized()) {
      const ops::Quantized& held = weight.quantized();
      add(name + ".codes", held.codes);
      add(name + ".scales", held.scales);
      add(name + ".nested_scales", held.nested_scales);
    } else if (weight.has_numbers()) {
      add(name, weight.dense());
    }
  };
  const auto add_linear = [&](const ops::Linear& linear) {
    add_matrix(linear.name + ".weight", linear.weight);
    add(linear.name + ".bias", linear.bias);
    if (!linear.frozen_lora) return;
    add(linear.name + " below: lora_A", linear.frozen_lora->a.dense());
    add(linear.name + " below: lora_B", linear.frozen_lora->b.dense());
  };
  add_matrix(std::string(names.embedding.hf) + ".weight", embedding_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    const std::string prefix = std::string(names.layers.hf) + std::to_string(i) + ".";
    const auto number = static_cast<std::int64_t>(i);
    for (const LayerTensor& one : layer_tensors(config_, number))
      add(prefix + std::string(one.name.hf), layer.tensors[one.kind]);
    for (const LayerNorm& norm : layer_norms(config_, number))
      add(prefix + std::string(norm.name.hf) + ".weight", layer.stored[norm.place]);
    for (const ops::Linear* linear : layer.linears()) add_linear(*linear);
  }
  add(std::string(names.final_norm.hf) + ".weight", stored_final_norm_);
  if (per_layer_) {
    add_matrix(std::string(names.per_layer_embedding.hf) + ".weight", per_layer_->embedding);
    add_linear(per_layer_->projection);
    add(std::string(names.per_layer_norm.hf) + ".weight", per_layer_->norm);
  }
  if (!config_.head_is_embedding()) add_matrix(std::string(names.head.hf) + ".weight", head_.weight);
  return all;
}

std::int64_t CausalLm::parameter_count() const {
  std::int64_t count = 0;
  for_each_part([&](const ops::Weight& w) { count += w.out() * w.in(); },
                [&](const at::Tensor& t) { count += t.numel(); });
  return count - (config_.head_is_embedding() ? head().out() * head().in() : 0);
}

std::int64_t CausalLm::parameter_bytes() const {
  std::int64_t bytes = 0;
  for_each_part([&](const ops::Weight& w) { bytes += w.bytes(); },
                [&](const at::Tensor& t) { bytes += static_cast<std::int64_t>(t.nbytes()); });
  for (const ops::Linear* linear : linears()) {
    if (linear->frozen_lora) bytes += linear->frozen_lora->a.bytes() + linear->frozen_lora->b.bytes();
  }
  const bool one_matrix = config_.head_is_embedding() &&
                          (embedding_.is_quantized() || embedding_.dtype() == head_.weight.dtype());
  return bytes - (one_matrix ? head_.weight.bytes() : 0);
}

void CausalLm::for_each_part(const std::function<void(const ops::Weight&)>& matrix,
                             const std::function<void(const at::Tensor&)>& vector) const {
  matrix(embedding_);
  matrix(head_.weight);
  vector(stored_final_norm_);
  if (per_layer_) {
    matrix(per_layer_->embedding);
    matrix(per_layer_->projection.weight);
    vector(per_layer_->norm);
  }
  for (const DecoderLayer& layer : layers_) {
    for (const ops::Linear* linear : layer.linears()) {
      matrix(linear->weight);
      if (linear->bias.defined()) vector(linear->bias);
    }
    for (const at::Tensor& norm : layer.stored.weights) {
      if (norm.defined()) vector(norm);
    }
    for (const at::Tensor& tensor : layer.tensors.values) {
      if (tensor.defined()) vector(tensor);
    }
  }
}

}  // namespace hone::model
