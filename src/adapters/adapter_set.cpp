#include "adapters/adapter_set.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "adapters/lora.h"
#include "base/error.h"
#include "base/strings/suggest.h"

namespace hone::adapters {
namespace {

// The tensors alone: views of the adapter's flat buffer, without the gradients that belong to a leaf.
ops::LoraWeights kept(const ops::LoraWeights& side) {
  ops::LoraWeights out;
  out.a = side.a.detach();
  out.b = side.b.detach();
  if (side.magnitude.defined()) out.magnitude = side.magnitude.detach();
  out.scale = side.scale;
  return out;
}

bool is_finite(const ops::LoraWeights& side) {
  return (side.a.isfinite().all() & side.b.isfinite().all()).item<bool>();
}

std::size_t bytes_of(const model::TrainedParts& parts) {
  std::size_t out = 0;
  const auto add = [&out](const at::Tensor& tensor) { out += tensor.defined() ? tensor.nbytes() : 0; };
  add(parts.embedding);
  add(parts.head);
  if (parts.embedding_lora) {
    add(parts.embedding_lora->a);
    add(parts.embedding_lora->b);
  }
  for (const auto& [name, vector] : parts.tensors) add(vector);
  return out;
}

model::TrainedParts kept(model::TrainedParts parts) {
  const auto detach = [](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.detach();
  };
  detach(parts.embedding);
  detach(parts.head);
  if (parts.embedding_lora) {
    detach(parts.embedding_lora->a);
    detach(parts.embedding_lora->b);
  }
  for (auto& [name, vector] : parts.tensors) detach(vector);
  return parts;
}

}  // namespace

const AdapterSet::One* AdapterSet::find(const std::string& name) const {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.name == name; });
  return it == all_.end() ? nullptr : &*it;
}

void AdapterSet::put(const One* one) {
  for (ops::Linear* linear : model_.linears_and_head()) {
    linear->lora.reset();
    if (one == nullptr) continue;
    if (const auto side = one->sides->find(linear); side != one->sides->end()) linear->lora = side->second;
  }
  model_.set_token_rows(one == nullptr ? model::TokenRows() : one->token_rows);
  model_.set_trained_parts(one == nullptr ? model::TrainedParts() : one->parts);
  active_ = one == nullptr ? "" : one->name;
}

void AdapterSet::load(const std::string& name, const base::fs::path& folder) {
  if (find(name) != nullptr) {
    throw base::UserError({.where = "option adapters",
                           .expected = "adapters with distinct names",
                           .found = "two named '" + name + "'",
                           .cause = "an adapter without a name takes the name of its folder",
                           .fix = "write NAME=" + folder.string()});
  }
  One one{.name = name, .sides = {}, .token_rows = {}, .parts = {}};
  ops::AdapterSides sides;
  {
    const RestoreActive guard{*this, find(active_)};
    const Adapter adapter = Adapter::load(model_, folder);
    require_kind(adapter.config(), /*score_head=*/false, folder.string());
    one.is_sides_alone = model_.takes_other_adapters();
    for (const ops::Linear* linear : model_.linears_and_head()) {
      if (!linear->lora) continue;
      const ops::LoraWeights& side = sides.emplace(linear, kept(*linear->lora)).first->second;
      one.is_sides_alone = one.is_sides_alone && is_finite(side);
    }
    const model::TokenRows& rows = model_.token_rows();
    if (rows.defined()) one.token_rows = {rows.ids(), rows.values().detach()};
    one.parts = kept(model_.trained_parts());
  }
  one.sides = std::make_shared<const ops::AdapterSides>(std::move(sides));
  all_.push_back(std::move(one));
}

const AdapterSet::One& AdapterSet::known(const std::string& name) const {
  const One* const one = find(name);
  if (one == nullptr) {
    const std::vector<std::string> known = names();
    std::string words;
    for (const std::string& each : known) words += (words.empty() ? "" : ", ") + each;
    throw base::UserError({.where = "adapter",
                           .expected = "one of " + words,
                           .found = "'" + name + "'." + base::did_you_mean(name, known),
                           .cause = {},
                           .fix = {}});
  }
  return *one;
}

void AdapterSet::activate(const std::string& name) {
  put(&known(name));
}

std::shared_ptr<const ops::AdapterSides> AdapterSet::sides(const std::string& name) const {
  const One& one = known(name);
  return one.is_sides_alone ? one.sides : nullptr;
}

void AdapterSet::deactivate() {
  put(nullptr);
}

std::vector<std::string> AdapterSet::names() const {
  std::vector<std::string> out;
  for (const One& one : all_) out.push_back(one.name);
  return out;
}

std::int64_t AdapterSet::bytes() const {
  std::size_t out = 0;
  for (const One& one : all_) {
    if (one.token_rows.defined()) out += one.token_rows.values().nbytes();
    out += bytes_of(one.parts);
    for (const auto& [linear, side] : *one.sides) {
      out += side.a.nbytes() + side.b.nbytes();
      if (side.magnitude.defined()) out += side.magnitude.nbytes();
    }
  }
  return static_cast<std::int64_t>(out);
}

}  // namespace hone::adapters
