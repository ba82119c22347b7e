#include "serve/kept_versions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"

namespace hone::serve {

namespace {

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.detach().cpu().contiguous();
}

// A and B as they are, and the copies of half their size that products read.
std::int64_t held_by(const ops::LoraWeights& side) {
  const auto bytes = static_cast<std::int64_t>(side.a.nbytes() + side.b.nbytes());
  return bytes + bytes / 2;
}

}  // namespace

Kept KeptVersions::keep(Version version) {
  if (version == nullptr) return nullptr;
  Entry entry;
  entry.any = version;
  for (const auto& [linear, side] : *version) {
    base::require(!side.magnitude.defined(), "serve::KeptVersions", "LoRA without magnitudes");
    entry.sides.push_back({.linear = linear,
                           .a = side.a.sizes().vec(),
                           .b = side.b.sizes().vec(),
                           .scale = side.scale,
                           .device = side.a.device()});
    entry.bytes += held_by(side);
    entry.file_bytes += static_cast<std::int64_t>(side.a.nbytes() + side.b.nbytes());
  }
  entry.live = std::move(version);
  entry.used = ++clock_;
  const std::uint64_t id = ++last_;
  all_.emplace(id, std::move(entry));
  const Kept out(new std::uint64_t(id), [this](const std::uint64_t* gone) {
    drop(*gone);
    delete gone;
  });
  make_room(0);
  count();
  return out;
}

std::optional<Version> KeptVersions::use(const Kept& kept) {
  if (kept == nullptr) return Version();
  Entry& entry = all_.at(*kept);
  entry.used = ++clock_;
  if (entry.live == nullptr) entry.live = entry.any.lock();
  if (entry.live == nullptr) {
    make_room(entry.bytes);
    // One that is larger than the bound has the memory alone.
    if (const std::int64_t others = in_memory(); others > 0 && others + entry.bytes > options_.bound)
      return {};
    entry.live = read(entry);
    entry.any = entry.live;
  }
  Version out = entry.live;
  make_room_or_tell();
  count();
  return out;
}

KeptFacts KeptVersions::facts() const {
  return {.versions = count_, .bytes = bytes_, .file_bytes = file_bytes_};
}

std::int64_t KeptVersions::in_memory() const {
  std::int64_t out = 0;
  for (const auto& [id, entry] : all_) out += entry.is_in_memory() ? entry.bytes : 0;
  for (const Dropped& one : dropped_) out += one.any.expired() ? 0 : one.bytes;
  return out;
}

// Behind what is asked for: that is in memory, so a failure is not its own.
void KeptVersions::make_room_or_tell() {
  try {
    make_room(0);
  } catch (const base::UserError& error) {
    if (!std::exchange(has_told_, true))
      std::cerr << "versions  stay in memory: " << base::printable(error.text().found) << std::endl;
  }
}

void KeptVersions::make_room(std::int64_t more) {
  std::int64_t bytes = in_memory();
  while (bytes + more > options_.bound) {
    Entry* oldest = nullptr;
    for (auto& [id, entry] : all_) {
      if (entry.live == nullptr || entry.live.use_count() > 1) continue;
      if (oldest == nullptr || entry.used < oldest->used) oldest = &entry;
    }
    if (oldest == nullptr) return;
    write(*oldest);
    oldest->live.reset();
    bytes -= oldest->bytes;
  }
}

void KeptVersions::write(Entry& entry) {
  if (entry.begin >= 0) return;  // a version never changes
  const at::NoGradGuard no_grad;
  const std::int64_t begin = file_.take(entry.file_bytes);
  try {
    std::int64_t place = begin;
    for (const Side& side : entry.sides) {
      const ops::LoraWeights& weights = entry.live->at(side.linear);
      for (const at::Tensor& tensor : {on_host(weights.a), on_host(weights.b)}) {
        file_.write(place, bytes_of(tensor));
        place += static_cast<std::int64_t>(tensor.nbytes());
      }
    }
  } catch (...) {
    file_.give_back(begin, entry.file_bytes);
    throw;
  }
  entry.begin = begin;
  has_told_ = false;
}

Version KeptVersions::read(const Entry& entry) const {
  const at::NoGradGuard no_grad;
  ops::AdapterSides out;
  std::int64_t place = entry.begin;
  for (const Side& side : entry.sides) {
    ops::LoraWeights weights;
    weights.scale = side.scale;
    for (const auto& [shape, tensor] : {std::pair{&side.a, &weights.a}, {&side.b, &weights.b}}) {
      const at::Tensor host = at::empty(*shape, at::kFloat);
      file_.read(place, bytes_of(host));
      place += static_cast<std::int64_t>(host.nbytes());
      *tensor = host.to(side.device);
    }
    out.emplace(side.linear, std::move(weights));
  }
  return std::make_shared<const ops::AdapterSides>(std::move(out));
}

void KeptVersions::drop(std::uint64_t id) {
  const auto place = all_.find(id);
  Entry& entry = place->second;
  if (entry.begin >= 0) file_.give_back(entry.begin, entry.file_bytes);
  entry.live.reset();
  std::erase_if(dropped_, [](const Dropped& one) { return one.any.expired(); });
  if (entry.is_in_memory()) dropped_.push_back({.any = entry.any, .bytes = entry.bytes});
  all_.erase(place);
  count();
}

void KeptVersions::count() {
  count_ = static_cast<std::int64_t>(all_.size());
  bytes_ = in_memory();
  file_bytes_ = file_.bytes();
}

}  // namespace hone::serve
