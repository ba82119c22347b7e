#include "doctor/probes/probe_state.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "adapters/peft_files.h"
#include "base/hash.h"
#include "base/rng.h"
#include "data/forms/preferences.h"
#include "data/records/packing.h"
#include "model/config/layer_of.h"
#include "ops/machine/product_rates.h"
#include "train/batches/rollout_source.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

namespace {

// In the order of model::NormPlace.
constexpr std::array<const char*, model::kNormPlaces> kNormNames = {
    "norm before attention", "norm before the MLP", "q norm",         "k norm",
    "norm after attention",  "norm after the MLP",  "norm of values", "norm after its own input"};

// In the order of model::TensorKind.
constexpr std::array<const char*, model::kTensorKinds> kTensorNames = {
    "convolution", "convolution's bias", "convolution", "decay", "bias of the decay", "gated norm", "scale"};

constexpr std::int64_t kBlock = std::int64_t{256} << 10;  // bytes that one thread hashes at a time

// Exponents of all ones, in each lane of a 64-bit word: and with `exponents`, plus `carry`, leaves `overflow`
// where there is one.
struct FiniteMask {
  std::uint64_t exponents = 0, carry = 0, overflow = 0;
};

FiniteMask finite_mask(at::ScalarType type) {
  if (type == at::kBFloat16) return {0x7F807F807F807F80, 0x0080008000800080, 0x8000800080008000};
  if (type == at::kFloat) return {0x7F8000007F800000, 0x0080000000800000, 0x8000000080000000};
  return {};
}

struct BlockFingerprint {
  std::uint64_t hash = base::kHashStart;
  bool finite = true;
};

// Eight chains of FNV's step, a word each: every changed word changes its chain.
BlockFingerprint print_block(const std::byte* bytes, std::int64_t size, const FiniteMask& mask) {
  constexpr std::size_t kLanes = 8;
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::array<std::uint64_t, kLanes> chain{};
  for (std::size_t i = 0; i < kLanes; ++i) chain[i] = base::kHashStart + i;
  std::uint64_t overflow = 0;
  std::array<std::uint64_t, kLanes> word{};
  constexpr std::int64_t kRound = kLanes * 8;
  for (std::int64_t at = 0; at < size; at += kRound) {
    const std::int64_t left = std::min(kRound, size - at);
    if (left < kRound) word.fill(0);
    std::memcpy(word.data(), bytes + at, static_cast<std::size_t>(left));
    for (std::size_t i = 0; i < kLanes; ++i) {
      chain[i] = (chain[i] ^ word[i]) * kPrime;
      overflow |= (word[i] & mask.exponents) + mask.carry;
    }
  }
  BlockFingerprint out{.finite = (overflow & mask.overflow) == 0};
  for (const std::uint64_t one : chain) out.hash = (out.hash ^ one) * kPrime;
  return out;
}

// Of a contiguous tensor on the CPU, by all threads.
BlockFingerprint print_tensor(const at::Tensor& held) {
  const auto bytes = static_cast<std::int64_t>(held.nbytes());
  const auto* const first = static_cast<const std::byte*>(held.const_data_ptr());
  std::vector<BlockFingerprint> found(static_cast<std::size_t>((bytes + kBlock - 1) / kBlock));
  at::parallel_for(0, static_cast<std::int64_t>(found.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      found[static_cast<std::size_t>(b)] = print_block(
          first + b * kBlock, std::min(kBlock, bytes - b * kBlock), finite_mask(held.scalar_type()));
    }
  });
  BlockFingerprint out;
  for (const BlockFingerprint& block : found) {
    out.hash = (out.hash ^ block.hash) * 0x100000001B3;
    out.finite = out.finite && block.finite;
  }
  return out;
}

struct HashedPart {
  std::string name;
  // contiguous, on the CPU; a copy of a piece lives no longer than its hash
  std::function<at::Tensor()> read;
};

// Whether the head and the embedding are the base's: full fine-tuning without a reference releases them.
bool has_base_head(const model::CausalLm& model) {
  return !model.trained_parts().head.defined() || &model.head(true) != &model.head(false);
}
bool has_base_embedding(const model::CausalLm& model) {
  if (!model.trained_parts().embedding.defined()) return true;
  if (model.trained_parts().head.defined()) return has_base_head(model);
  const std::vector<const ops::Linear*> linears = model.linears();
  return std::all_of(linears.begin(), linears.end(),
                     [](const ops::Linear* linear) { return linear->weight.has_numbers(); });
}

// As they lie in memory; a matrix that is embedding and head at once comes once.
std::vector<HashedPart> parts_of(const model::CausalLm& model) {
  std::vector<HashedPart> out;
  const auto add = [&out](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) out.push_back({name, [tensor] { return tensor.detach().cpu().contiguous(); }});
  };
  if (!model.packed()) {
    for (const auto& [name, tensor] : model.frozen_tensors()) add(name, tensor);
    const bool held = has_base_head(model) && !out.empty();
    const ops::Weight& head = model.head();  // one in a GGUF's blocks is among them
    if (held && !head.is_quantized() && !out.front().read().is_alias_of(head.plain()))
      add("the head", head.plain());
    return out;
  }
  const auto add_weight = [&add](const std::string& name, const ops::Weight& weight) {
    for (const auto& [part, memory] : weight.memory()) add(name + part, memory);
  };
  const auto add_linear = [&](const ops::Linear& linear) {
    add_weight(linear.name, linear.weight);
    add(linear.name + ".bias", linear.bias);
    if (!linear.frozen_lora) return;
    add_weight(linear.name + " below: lora_A", linear.frozen_lora->a);
    add_weight(linear.name + " below: lora_B", linear.frozen_lora->b);
  };
  // frozen_tensors() would unpack: the packs themselves, and the embedding by its rows where it is not the
  // head.
  if (has_base_head(model)) add_weight("the head", model.head());
  const bool one = (model.config().head_is_embedding() &&
                    (model.head().is_quantized() || model.dtypes().residual == model.dtypes().linear)) ||
                   !has_base_embedding(model);
  static constexpr std::int64_t kHashedRows = 1 << 12;
  for (std::int64_t begin = 0; !one && begin < model.config().vocab_size; begin += kHashedRows) {
    out.push_back({"the embedding", [&model, begin] {
                     const std::int64_t end = std::min(begin + kHashedRows, model.config().vocab_size);
                     std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
                     std::iota(ids.begin(), ids.end(), begin);
                     return model.embed(ids).cpu().contiguous();
                   }});
  }
  add("the final norm", model.final_norm());
  if (const model::PerLayerInputs* const inputs = model.per_layer()) {
    if (inputs->embedding.is_quantized()) {
      add_weight("the embedding of layers' inputs", inputs->embedding);
    } else if (inputs->embedding.has_numbers()) {
      add("the embedding of layers' inputs", inputs->embedding.plain());
    }
    add_linear(inputs->projection);
    add("the norm of layers' inputs", inputs->norm);
  }
  std::size_t index = 0;
  for (const model::DecoderLayer& layer : model.layers()) {
    const std::string prefix = "layer " + std::to_string(index++) + "'s ";
    for (const ops::Linear* linear : layer.linears()) add_linear(*linear);
    for (std::size_t place = 0; place < model::kNormPlaces; ++place)
      add(prefix + kNormNames[place], layer.norms.weights[place]);
    for (std::size_t kind = 0; kind < model::kTensorKinds; ++kind)
      add(prefix + kTensorNames[kind], layer.tensors.values[kind]);
  }
  return out;
}

// "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight" -> 3 and "q_proj.lora_A"; -1 without a
// layer.
std::pair<std::int64_t, std::string> layer_and_module(const std::string& name) {
  std::string rest = name;
  if (rest.ends_with(".weight")) rest.resize(rest.size() - 7);
  const std::size_t lora = rest.find(".lora_");
  const std::size_t dot = rest.rfind('.', lora == std::string::npos ? lora : lora - 1);
  return {model::layer_of(name), dot == std::string::npos ? rest : rest.substr(dot + 1)};
}

std::string ranges(const std::vector<std::int64_t>& sorted) {
  std::string out;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out += std::to_string(sorted[i]);
    if (last > i) out += "-" + std::to_string(sorted[last]);
    i = last + 1;
  }
  return out;
}

data::Record ending(std::span<const std::int32_t> ids, std::span<const std::uint8_t> supervised,
                    std::int64_t row, std::int64_t room) {
  const auto length = static_cast<std::int64_t>(ids.size());
  const auto from = static_cast<std::ptrdiff_t>(std::max<std::int64_t>(0, length - room));
  data::Record out{.row = row, .ids = {ids.begin() + from, ids.end()}, .supervised = {}};
  if (supervised.empty()) {
    out.supervised.assign(out.ids.size(), 1);
  } else {
    out.supervised.assign(supervised.begin() + from, supervised.end());
  }
  return out;
}

// Its first token is never a target.
bool scores(const data::Record& example) {
  return example.ids.size() > 1 &&
         std::find(example.supervised.begin() + 1, example.supervised.end(), 1) != example.supervised.end();
}

}  // namespace

StateGuard::StateGuard(const train::RunView& run)
    : run_(run),
      parameters_(run.adapter->flat(), exam_room(run), run.directory.output_dir()),
      gradient_(run.adapter->flat_gradient(), exam_room(run), run.directory.output_dir()) {
  for (const ops::Linear* linear : std::as_const(*run.model).linears_and_head())
    sides_.push_back(linear->lora);
  score_head_ = run.model->score_head();
  token_rows_ = run.model->token_rows();
  parts_ = run.model->trained_parts();
  run.adapter->zero_gradient();
}

StateGuard::~StateGuard() {
  const at::NoGradGuard no_grad;
  std::size_t index = 0;
  for (ops::Linear* linear : run_.model->linears_and_head()) linear->lora = sides_[index++];
  run_.model->set_score_head(score_head_);
  run_.model->set_token_rows(token_rows_);
  run_.model->set_trained_parts(parts_);
  restore_parameters();
  gradient_.restore(run_.adapter->flat_gradient());
}

void StateGuard::restore_parameters() {
  const at::NoGradGuard no_grad;
  parameters_.restore(run_.adapter->flat());
}

std::vector<PartFingerprint> base_fingerprint(const model::CausalLm& model) {
  std::vector<PartFingerprint> out;
  for (const HashedPart& part : parts_of(model)) {
    const BlockFingerprint found = print_tensor(part.read());
    out.push_back({.name = part.name, .hash = found.hash, .finite = found.finite});
  }
  return out;
}

std::uint64_t tensor_hash(const at::Tensor& tensor) {
  return print_tensor(tensor.detach().cpu().contiguous()).hash;
}

std::string first_change(const std::vector<PartFingerprint>& before,
                         const std::vector<PartFingerprint>& after) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i >= after.size() || before[i] != after[i]) return before[i].name;
  }
  return "";
}

std::string first_bad_value(const model::CausalLm& model) {
  for (const auto& [name, tensor] : model.frozen_tensors()) {
    const at::Tensor bad = tensor.isfinite().logical_not();
    const auto count = bad.sum().item<std::int64_t>();
    if (count == 0) continue;
    const at::Tensor place = bad.nonzero()[0];
    std::string where;
    for (std::int64_t d = 0; d < place.numel(); ++d)
      where += (d == 0 ? "" : ", ") + std::to_string(place[d].item<std::int64_t>());
    const auto value = tensor.masked_select(bad)[0].item<double>();
    return name + "[" + where + "] is " + number(value) + " (" + grouped(count) + " such " +
           (count == 1 ? "value" : "values") + " of " + grouped(tensor.numel()) + ")";
  }
  return "";
}

bool is_b(const adapters::TrainableTensor& tensor) {
  return adapters::starts_at_zero(tensor);
}

bool is_empty_a(const adapters::TrainableTensor& tensor) {
  const bool of_lora = tensor.name.find(".lora_A") != std::string::npos;
  return of_lora && !tensor.value.detach().ne(0).any().item<bool>();
}

bool is_whole(const adapters::TrainableTensor& tensor) {
  return tensor.name.find(".lora_") == std::string::npos && !adapters::is_token_rows(tensor) &&
         tensor.name != adapters::kScoreKey;
}

void perturb(const adapters::Adapter& adapter, double size, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::uint64_t substream = 0;
  for (const adapters::TrainableTensor& tensor : adapter.tensors()) {
    const base::Stream stream(seed, base::Purpose::kDemoData, 0, substream++);
    if (!is_b(tensor) && !is_whole(tensor) && !is_empty_a(tensor)) continue;
    at::Tensor noise = at::empty(tensor.value.sizes(), at::kFloat);
    float* out = noise.mutable_data_ptr<float>();
    at::parallel_for(0, noise.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        out[i] = static_cast<float>(size) * stream.normal(static_cast<std::uint64_t>(i));
    });
    at::Tensor value = tensor.value;
    value.add_(noise.to(value.device()));
  }
}

std::int64_t rehearsal_tokens(const model::CausalLm& model) {
  constexpr std::int64_t kWork = 32'000'000'000;  // parameters times tokens
  return std::clamp<std::int64_t>(kWork / std::max<std::int64_t>(1, model.parameter_count()), 32, 256);
}

bool has_exact_kernels(const train::RunView& run) {
  return run.start.memory.fused_layer && ops::has_own_products(run.model->device());
}

std::vector<data::Record> short_examples(const train::RunView& run, std::size_t most, std::int64_t tokens) {
  const std::int64_t room = std::max<std::int64_t>(2, tokens / static_cast<std::int64_t>(most));
  std::vector<data::Record> out;
  if (const auto* given = std::get_if<train::RecordData>(&run.data)) {
    for (std::size_t i = 0; i < given->records.size() && out.size() < most; ++i) {
      const data::RecordView whole = given->records[i];
      // Of pairs what is to become more likely.
      const std::size_t size = whole.sequences.empty() ? whole.ids.size() : whole.sequences[0].tokens;
      data::Record part = ending(whole.ids.first(size), whole.supervised.first(size), whole.row, room);
      if (!whole.labels.empty())
        part.labels = {whole.labels.end() - std::ssize(part.ids), whole.labels.end()};
      if (scores(part)) out.push_back(std::move(part));
    }
  } else if (const auto* sampled = std::get_if<train::SampledData>(&run.data)) {
    const train::PolicyPrompts* const prompts = &sampled->train_prompts;
    for (std::size_t i = 0; i < prompts->tokens.size() && out.size() < most; ++i) {
      data::Record part = ending(prompts->tokens[i].ids, {}, static_cast<std::int64_t>(i), room);
      if (scores(part)) out.push_back(std::move(part));
    }
  }
  return out;
}

data::Batch batch_of(const std::vector<data::Record>& examples) {
  std::vector<std::int64_t> row(examples.size());
  std::iota(row.begin(), row.end(), 0);
  return data::make_batch(examples, data::PackedRows({row}), {0});
}

std::string tensor_list(const std::vector<std::string>& names) {
  std::vector<std::string> modules;  // in the order in which they come
  std::map<std::string, std::vector<std::int64_t>> layers;
  for (const std::string& name : names) {
    const auto [layer, module] = layer_and_module(name);
    if (!layers.contains(module)) modules.push_back(module);
    layers[module].push_back(layer);
  }
  std::vector<std::pair<std::string, std::string>> groups;  // ranges, modules
  for (const std::string& module : modules) {
    std::sort(layers[module].begin(), layers[module].end());
    const std::string where = layers[module].front() < 0 ? "" : ranges(layers[module]);
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == where; });
    if (same == groups.end()) {
      groups.emplace_back(where, module);
    } else {
      same->second += ", " + module;
    }
  }
  std::string out;
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, groups.size()); ++i) {
    if (i > 0) out += "; ";
    out += (groups[i].first.empty() ? "" : "layers " + groups[i].first + " ") + groups[i].second;
  }
  if (groups.size() > kMost) out += "; and more";
  return out;
}

std::string number(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.3g", value);
  return out.data();
}

std::string count_of(std::int64_t part, std::int64_t whole) {
  return grouped(part) + " of " + grouped(whole);
}

std::string grouped(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace hone::doctor
