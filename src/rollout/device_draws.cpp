#include "rollout/device_draws.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/error.h"
#include "ops/index_tensor.h"
#include "ops/sampling/sample_tokens.h"

namespace hone::rollout {
namespace {

// Batches of few different sizes, so that a sampler lives for long.
constexpr std::array<std::int64_t, 15> kSizes = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};

}  // namespace

std::int64_t DeviceDraws::rows_for(std::int64_t sequences) {
  const auto* const found = std::lower_bound(kSizes.begin(), kSizes.end(), sequences);
  return found == kSizes.end() ? (sequences + kSizes.back() - 1) / kSizes.back() * kSizes.back() : *found;
}

bool DeviceDraws::takes(const Sequence& sequence) const {
  return ops::draws_tokens(device_) && DeviceSampler::takes(*sequence.options);
}

DeviceDraws::Place DeviceDraws::place_of(const Sequence& sequence) {
  return {.id = sequence.id,
          .turns = sequence.turns,
          .drawn = static_cast<std::int64_t>(sequence.completion.ids.size()),
          .goes_on = true};
}

// A sampler that is much too large is left as one that is too small is: all begin in another.
void DeviceDraws::make_room(std::int64_t sequences) {
  const auto rows = static_cast<std::int64_t>(places_.size());
  if (sequences <= rows && 2 * sequences > rows) return;
  const std::int64_t wanted = rows_for(sequences);
  if (wanted == rows) return;
  places_.assign(static_cast<std::size_t>(wanted), {});
  sampler_ = std::make_unique<DeviceSampler>(wanted, vocabulary_, device_);
}

std::vector<std::int64_t> DeviceDraws::place(std::span<const Ready> ready) {
  base::require(drawn_.empty(), "DeviceDraws::place", "draws that were taken");
  make_room(static_cast<std::int64_t>(ready.size()));
  std::map<RequestId, std::size_t> known;
  for (std::size_t row = 0; row < places_.size(); ++row)
    if (places_[row].id != 0) known.emplace(places_[row].id, row);
  constexpr auto kNone = static_cast<std::size_t>(-1);
  rows_.assign(ready.size(), kNone);
  std::vector<bool> taken(places_.size(), false);
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const auto found = known.find(ready[i].sequence->id);
    if (found == known.end() || places_[found->second] != place_of(*ready[i].sequence)) continue;
    rows_[i] = found->second;
    taken[found->second] = true;
  }
  for (std::size_t row = 0; row < places_.size(); ++row) {
    if (taken[row]) continue;
    if (places_[row].goes_on) sampler_->end(static_cast<std::int64_t>(row));
    places_[row] = {};
  }
  auto next = taken.begin();
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (rows_[i] != kNone) continue;
    next = std::find(next, taken.end(), false);
    *next = true;
    const auto row = static_cast<std::size_t>(next - taken.begin());
    const Sequence& one = *ready[i].sequence;
    rows_[i] = row;
    places_[row] = place_of(one);
    sampler_->begin(static_cast<std::int64_t>(row), *one.options, one.key, one.ids, places_[row].drawn);
  }
  std::vector<std::int64_t> hidden(places_.size(), 0);
  for (std::size_t i = 0; i < ready.size(); ++i) hidden[rows_[i]] = ready[i].row;
  return hidden;
}

std::vector<std::int64_t> DeviceDraws::go_on(std::span<const std::size_t> which) {
  if (which.empty() || (places_.size() > 1 && 2 * which.size() <= places_.size())) return {};
  std::vector<std::size_t> rows;
  std::vector<std::int64_t> hidden(places_.size(), 0);
  for (const std::size_t one : which) {
    hidden[rows_.at(one)] = static_cast<std::int64_t>(rows.size());
    rows.push_back(rows_[one]);
  }
  rows_ = std::move(rows);
  return hidden;
}

at::Tensor DeviceDraws::last_ids() {
  const std::vector<std::int64_t> rows(rows_.begin(), rows_.end());
  std::vector<std::int64_t> in_order(places_.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  if (rows == in_order) return sampler_->ids();
  return sampler_->ids().index_select(0, send(of_ids_, rows, device_));
}

void DeviceDraws::draw(const at::Tensor& logits) {
  step(logits);
  send();
}

void DeviceDraws::step(const at::Tensor& logits) {
  base::require(sampler_->step(logits), "DeviceDraws::draw", "a device that draws tokens");
}

void DeviceDraws::send() {
  sampler_->send();
  drawn_.push_back(rows_);
}

std::vector<DeviceSampler::Token> DeviceDraws::take() {
  const std::vector<std::size_t> rows = std::move(drawn_.front());
  drawn_.pop_front();
  const std::vector<DeviceSampler::Token> all = sampler_->sent();
  std::vector<DeviceSampler::Token> out;
  out.reserve(rows.size());
  for (const std::size_t row : rows) {
    out.push_back(all[row]);
    places_[row].drawn += 1;
    places_[row].goes_on = all[row].is_finite && !all[row].ended;
  }
  return out;
}

void DeviceDraws::begin_again() {
  places_.clear();
  rows_.clear();
  drawn_.clear();
  sampler_.reset();
}

const at::Tensor& DeviceDraws::index_of(const std::vector<std::int64_t>& rows) {
  return send(of_hidden_, rows, device_);
}

const at::Tensor& DeviceDraws::send(Index& index, const std::vector<std::int64_t>& rows, at::Device device) {
  if (!index.sent.defined() || index.rows != rows) index = {rows, ops::index_tensor(rows, device)};
  return index.sent;
}

}  // namespace hone::rollout
