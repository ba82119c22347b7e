#include "rollout/device_sampler.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/numeric.h"
#include "ops/index_tensor.h"
#include "ops/sampling/sample_tokens.h"

namespace hone::rollout {

namespace {

using ops::DrawRule;
using ops::DrawState;

constexpr std::int64_t kWord = 32;

DrawRule rule_of(const RequestOptions& options, const DrawKey& key) {
  const SamplerOptions& sampler = options.sampler;
  DrawRule rule;
  rule.top_p = sampler.top_p;
  rule.least = sampler.min_p > 0 ? sampler.temperature * std::log(sampler.min_p) : -INFINITY;
  rule.top_k = sampler.top_k;
  rule.position = static_cast<std::int64_t>(key.position);
  rule.min_new_tokens = options.min_new_tokens;
  rule.max_new_tokens = options.max_new_tokens;
  rule.seed = options.seed;
  rule.step = base::narrow<std::uint32_t>(options.step);
  rule.prompt = base::narrow<std::uint32_t>(key.prompt);
  rule.sample = base::narrow<std::uint16_t>(key.sample);
  rule.scale = sampler.temperature == 0 ? 0 : static_cast<float>(1.0 / std::max(sampler.temperature, 1e-30));
  rule.penalty = static_cast<float>(sampler.repetition_penalty);
  return rule;
}

std::int32_t state(DrawState one) {
  return static_cast<std::int32_t>(one);
}

// `to` becomes the list, in the place that it has if that is as large.
template <typename T>
void put_list(at::Tensor& to, const std::vector<T>& list, at::ScalarType dtype, at::Device device) {
  const at::Tensor from = ops::staged_list(list, at::kCPU, dtype);
  if (!to.defined() || to.numel() != from.numel()) {
    to = ops::staged(from, device);
  } else {
    to.copy_(device.is_cuda() ? from.pin_memory() : from, /*non_blocking=*/true);
  }
}

}  // namespace

DeviceSampler::DeviceSampler(std::int64_t rows, std::int64_t vocabulary, at::Device device)
    : rows_(rows),
      vocabulary_(vocabulary),
      rules_(static_cast<std::size_t>(rows)),
      stop_ids_(static_cast<std::size_t>(rows)),
      ring_{Slot{{}, c10::Event(device.type())}, Slot{{}, c10::Event(device.type())}} {
  const auto numbers = [&](at::IntArrayRef shape, at::ScalarType dtype) {
    return at::zeros(shape, at::TensorOptions(device).dtype(dtype));
  };
  constexpr std::int64_t kMass = ops::kMassTokens;
  seen_ = numbers({rows, (vocabulary + kWord - 1) / kWord}, at::kInt);
  masses_ = numbers({rows, (vocabulary + kMass - 1) / kMass}, at::kDouble);
  drawn_ = numbers({rows}, at::kLong);
  results_ = numbers({5, rows}, at::kInt);
  ids_ = results_.select(0, 0);
  states_ = results_.select(0, 1).fill_(state(DrawState::kLength));
  sampled_logprobs_ = results_.select(0, 2).view(at::kFloat);
  logprobs_ = results_.select(0, 3).view(at::kFloat);
  entropies_ = results_.select(0, 4).view(at::kFloat);
  for (Slot& one : ring_)
    one.results = at::empty({5, rows}, at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()));
}

void DeviceSampler::begin(std::int64_t row, const RequestOptions& options, const DrawKey& key,
                          std::span<const std::int32_t> ids, std::int64_t drawn) {
  base::require(takes(options), "DeviceSampler::begin", "options that a device can take");
  const auto at = static_cast<std::size_t>(row);
  rules_.at(at) = rule_of(options, key);
  stop_ids_[at].clear();
  for (const std::int64_t id : options.stop_ids)
    if (id >= 0 && id < vocabulary_) stop_ids_[at].push_back(static_cast<std::int32_t>(id));
  changed_ = true;
  const at::Tensor seen = at::zeros({seen_.size(1)}, at::kInt);
  auto* const words = seen.mutable_data_ptr<std::int32_t>();
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary_) continue;
    const std::uint32_t bit = std::uint32_t{1} << static_cast<std::uint32_t>(id % kWord);
    words[id / kWord] = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[id / kWord]) | bit);
  }
  seen_.select(0, row).copy_(ops::staged(seen, seen_.device()));
  drawn_.select(0, row).fill_(drawn);
  states_.select(0, row).fill_(state(DrawState::kGoesOn));
}

void DeviceSampler::end(std::int64_t row) {
  states_.select(0, row).fill_(state(DrawState::kLength));
}

void DeviceSampler::settle() {
  if (!changed_) return;
  std::vector<std::int32_t> stops;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    rules_[i].first_stop = static_cast<std::int32_t>(stops.size());
    rules_[i].stops = static_cast<std::int32_t>(stop_ids_[i].size());
    stops.insert(stops.end(), stop_ids_[i].begin(), stop_ids_[i].end());
  }
  // More places than there are, so that few other ones need another tensor; no row names the rest.
  const std::size_t places = sent_stops_.defined() ? static_cast<std::size_t>(sent_stops_.numel()) : 0;
  stops.resize(std::max(places, stops.empty() ? 0 : std::bit_ceil(stops.size())), -1);
  put_list(sent_rules_, rules_, at::kByte, seen_.device());
  put_list(sent_stops_, stops, at::kInt, seen_.device());
  changed_ = false;
}

void DeviceSampler::put_form(std::vector<std::int64_t>& out) const {
  for (const at::Tensor* const one : {&results_, &seen_, &masses_, &drawn_, &sent_rules_, &sent_stops_}) {
    out.push_back(reinterpret_cast<std::intptr_t>(one->const_data_ptr()));
    out.push_back(one->numel());
  }
}

bool DeviceSampler::step(const at::Tensor& logits) {
  base::require(logits.dim() == 2 && logits.size(0) == rows_ && logits.size(1) == vocabulary_,
                "DeviceSampler::step", "logits [rows, vocabulary]");
  settle();
  return ops::sample_tokens({.logits = logits,
                             .rules = sent_rules_,
                             .stop_ids = sent_stops_,
                             .seen = seen_,
                             .masses = masses_,
                             .drawn = drawn_,
                             .ids = ids_,
                             .states = states_,
                             .sampled_logprobs = sampled_logprobs_,
                             .logprobs = logprobs_,
                             .entropies = entropies_});
}

std::vector<DeviceSampler::Token> DeviceSampler::tokens() const {
  return tokens_of(results_.cpu());
}

void DeviceSampler::send() {
  base::require(sends_ < reads_ + ring_.size(), "DeviceSampler::send", "tokens that were read");
  Slot& slot = ring_.at(sends_++ % ring_.size());
  slot.results.copy_(results_, /*non_blocking=*/true);
  const at::Device device = results_.device();
  slot.arrived.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

std::vector<DeviceSampler::Token> DeviceSampler::sent() {
  base::require(reads_ < sends_, "DeviceSampler::sent", "tokens that were sent");
  const Slot& slot = ring_.at(reads_++ % ring_.size());
  slot.arrived.synchronize();
  return tokens_of(slot.results);
}

std::vector<DeviceSampler::Token> DeviceSampler::tokens_of(const at::Tensor& all) const {
  const at::Tensor floats = all.view(at::kFloat);
  const auto whole = all.accessor<std::int32_t, 2>();
  const auto real = floats.accessor<float, 2>();
  std::vector<Token> out(static_cast<std::size_t>(rows_));
  for (std::int64_t i = 0; i < rows_; ++i) {
    Token& one = out[static_cast<std::size_t>(i)];
    one = {.id = whole[0][i], .sampled_logprob = real[2][i], .logprob = real[3][i], .entropy = real[4][i]};
    const auto now = static_cast<DrawState>(whole[1][i]);
    one.is_finite = now != DrawState::kNotFinite;
    if (now == DrawState::kLength) one.ended = FinishReason::kLength;
    if (now == DrawState::kStopToken) one.ended = FinishReason::kStopToken;
  }
  return out;
}

}  // namespace hone::rollout
