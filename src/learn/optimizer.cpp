#include "learn/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "base/strings/ascii.h"
#include "learn/optimizers/blockwise.h"
#include "learn/optimizers/rows.h"
#include "ops/machine/device_memory.h"
#include "ops/machine/pages.h"

namespace hone::learn {
namespace {

constexpr std::int64_t kBlockSize = 1 << 16;  // elements: temporaries stay in a core's cache
// Of other devices: few operators, and temporaries of 64 MB each.
constexpr std::int64_t kDeviceBlockSize = 1 << 24;
static_assert(kDeviceBlockSize % kStateBlock == 0);

bool takes_shapes(Units units) {
  return units == Units::kTensors || units == Units::kCodes;
}

// get_decay_parameter_names' patterns: bias, layernorm, rmsnorm anywhere; norm or *_norm as a part of the name.
bool name_decays(const std::string& given) {
  const std::string name = base::lower_ascii(given);
  for (const char* word : {"bias", "layernorm", "rmsnorm"}) {
    if (name.find(word) != std::string::npos) return false;
  }
  const std::string parts = "." + name + ".";
  return parts.find(".norm.") == std::string::npos && parts.find("_norm.") == std::string::npos;
}

void require_buffer(const at::Tensor& tensor, std::int64_t size, const char* name) {
  base::require(tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.dim() == 1 &&
                    tensor.is_contiguous() && tensor.numel() == size,
                "learn::Optimizer",
                std::string(name) + " to be a flat contiguous fp32 tensor of the parameters' size");
}

std::int64_t size_of(const FlatLayout& layout) {
  return layout.empty() ? 0 : layout.back().offset + layout.back().size;
}

}  // namespace

const OptimizerRow& optimizer_row(OptimizerKind kind) {
  for (const OptimizerRow* row : {&kAdamWRow, &kAdamW8bitRow, &kAdafactorRow, &kRmspropRow, &kSgdRow,
                                  &kAdagradRow, &kLionRow, &kLion8bitRow}) {
    if (row->kind == kind) return *row;
  }
  throw base::InternalError({"learn::optimizer_row", "a kind with a row", "another", "", ""});
}

FlatLayout flat_layout(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors) {
  FlatLayout out;
  std::int64_t offset = 0;
  for (const auto& [name, shape] : tensors) {
    std::int64_t size = 1;
    for (const std::int64_t length : shape) size *= length;
    out.push_back({.name = name,
                   .shape = shape,
                   .offset = offset,
                   .size = size,
                   .decays = name_decays(name),
                   .is_embedding = name.ends_with("embed_tokens.weight")});
    offset += size;
  }
  return out;
}

Optimizer::Optimizer(const OptimizerOptions& options, FlatLayout layout, at::Device device, StatePlace place)
    : row_(&optimizer_row(options.kind)),
      options_(options),
      device_(device),
      layout_(std::move(layout)),
      held_(place.held.value_or(std::vector<FlatRange>())),
      divided_(place.held.has_value()),
      offloaded_(divided_ && !place.offload.empty()) {
  base::require(divides(options.kind) == !takes_shapes(row_->units), "learn::divides",
                "what the kind's formula reads");
  base::require(!divided_ || (divides(options.kind) && ops::is_host(device)), "learn::Optimizer",
                "all elements, on this device or for this formula");
  std::vector<StateSize> sizes = row_->state_of(options_, {});
  for (StateSize& one : sizes) one.size = 0;
  for (const FlatTensor& tensor : layout_) {
    Unit& unit = tensors_.emplace_back(
        Unit{.offset = tensor.offset, .size = tensor.size, .shape = tensor.shape, .decays = tensor.decays});
    const std::vector<StateSize> of_tensor = row_->state_of(options_, tensor);
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      unit.state_offset.push_back(sizes[k].size);
      unit.state_size.push_back(of_tensor[k].size);
      sizes[k].size += of_tensor[k].size;
    }
  }
  const auto zeros = [&](const StateSize& one) {
    if (!divided_ || one.size == 0) return at::zeros({one.size}, at::TensorOptions(one.dtype).device(device));
    return offloaded_ ? ops::file_zeros(place.offload, one.size, one.dtype)
                      : ops::lazy_zeros(one.size, one.dtype);
  };
  for (const StateSize& one : sizes) {
    all_.push_back({std::string(one.name), zeros(one)});
    if (one.size > 0) state_.push_back(all_.back());
  }
  make_units();
}

std::string Optimizer::name() const {
  return std::string(row_->name);
}

bool Optimizer::takes_signs() const {
  return options_.kind == OptimizerKind::kLion || options_.kind == OptimizerKind::kLion8bit;
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0, numbers = 0;
  for (const FlatRange& range : held_) numbers += range.end - range.begin;
  for (const StateTensor& one : state_)
    bytes += (divided_ ? numbers : one.value.numel()) * one.value.element_size();
  return bytes;
}

std::int64_t Optimizer::memory_bytes() const {
  if (!offloaded_) return state_bytes();
  std::int64_t largest = 0;
  for (const FlatRange& range : held_) largest = std::max(largest, range.end - range.begin);
  std::int64_t bytes = 0;
  for (const StateTensor& one : state_) bytes += largest * one.value.element_size();
  return bytes;
}

void Optimizer::leave_memory(const FlatRange& range) const {
  if (!offloaded_) return;
  for (const StateTensor& one : state_) ops::page_out(one.value, range.begin, range.end);
}

void Optimizer::rest() const {
  for (const FlatRange& range : held_) leave_memory(range);
}

void Optimizer::restore(std::int64_t steps, const std::vector<at::Tensor>& state) {
  base::require(state.size() == state_.size(), "learn::Optimizer::restore",
                "one tensor for each of the state");
  for (std::size_t k = 0; k < state.size(); ++k) {
    base::require(state[k].sizes() == state_[k].value.sizes() &&
                      state[k].scalar_type() == state_[k].value.scalar_type(),
                  "learn::Optimizer::restore", "shape and dtype of " + state_[k].name);
    if (!divided_) state_[k].value.copy_(state[k]);
    for (const FlatRange& range : held_) {
      const std::int64_t size = range.end - range.begin;
      state_[k].value.narrow(0, range.begin, size).copy_(state[k].narrow(0, range.begin, size));
      leave_memory(range);
    }
  }
  steps_ = steps;
}

// The units of kRanges and kBlocks: a state is as long as the parameters, so that one offset fits both.
void Optimizer::make_units() {
  if (takes_shapes(row_->units)) {
    units_ = tensors_;
    if (row_->units == Units::kCodes && !ops::is_host(device_)) units_ = code_ranges();
    return;
  }
  const auto unit = [&](std::int64_t offset, std::int64_t size, bool decays) {
    Unit out{.offset = offset, .size = size, .shape = {size}, .decays = decays};
    for (const StateTensor& one : all_) {
      out.state_offset.push_back(one.value.numel() == 0 ? 0 : offset);
      out.state_size.push_back(one.value.numel() == 0 ? 0 : size);
    }
    return out;
  };
  const std::int64_t block = ops::is_host(device_) ? kBlockSize : kDeviceBlockSize;
  const std::int64_t most = row_->units == Units::kBlocks ? block : size_of(layout_);
  for (std::size_t i = 0; i < layout_.size();) {
    const std::int64_t begin = layout_[i].offset;
    const bool decays = layout_[i].decays;
    const std::int64_t part = layout_[i].part;
    std::int64_t end = begin;
    for (; i < layout_.size() && layout_[i].decays == decays && layout_[i].part == part; ++i)
      end = layout_[i].offset + layout_[i].size;
    for (std::int64_t at = begin; at < end; at += most)
      units_.push_back(unit(at, std::min(most, end - at), decays));
  }
}

// The elements [begin, begin + size) of a unit of kCodes, where begin is at a block of its state.
Optimizer::Unit Optimizer::cut_codes(const Unit& unit, std::int64_t begin, std::int64_t size) {
  Unit out = unit;
  out.offset += begin;
  out.size = size;
  out.shape = {size};
  for (std::size_t k = 0; k < unit.state_size.size(); ++k) {
    if (unit.state_size[k] == 0) continue;
    const bool is_scale = unit.state_size[k] != unit.size;
    out.state_offset[k] += is_scale ? begin / kStateBlock : begin;
    out.state_size[k] = is_scale ? state_blocks(size) : size;
  }
  return out;
}

// Neighbors whose states have codes, or have none, and which decay alike; a range ends with a tensor that is not of whole
// blocks, and with a part.
std::vector<Optimizer::Unit> Optimizer::code_ranges() const {
  std::vector<Unit> ranges;
  std::int64_t part = kNoPart;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Unit& next = tensors_[i];
    const auto kinds = [](const Unit& unit) {
      std::vector<bool> out;
      for (const std::int64_t size : unit.state_size) out.push_back(size > 0);
      return out;
    };
    const bool joins = !ranges.empty() && part == layout_[i].part && ranges.back().decays == next.decays &&
                       ranges.back().size % kStateBlock == 0 && kinds(ranges.back()) == kinds(next);
    part = layout_[i].part;
    if (!joins) {
      ranges.push_back(next);
      continue;
    }
    Unit& range = ranges.back();
    range.size += next.size;
    for (std::size_t k = 0; k < range.state_size.size(); ++k) range.state_size[k] += next.state_size[k];
  }
  std::vector<Unit> out;
  for (const Unit& range : ranges) {
    for (std::int64_t at = 0; at < range.size; at += kDeviceBlockSize)
      out.push_back(cut_codes(range, at, std::min(kDeviceBlockSize, range.size - at)));
  }
  return out;
}

void Optimizer::run(const Unit& unit, const at::Tensor& parameters, std::int64_t offset,
                    const at::Tensor& gradient, double learning_rate) const {
  const at::NoGradGuard no_grad;  // of this thread
  std::vector<at::Tensor> state;
  for (std::size_t k = 0; k < all_.size(); ++k)
    state.push_back(all_[k].value.narrow(0, unit.state_offset[k], unit.state_size[k]));
  row_->apply({.options = options_,
               .arguments = options_.arguments,
               .weight_decay = unit.decays ? options_.weight_decay : 0,
               .learning_rate = learning_rate,
               .step = steps_},
              parameters.narrow(0, unit.offset, unit.size).view(unit.shape),
              gradient.narrow(0, unit.offset - offset, unit.size).view(unit.shape), state);
}

void Optimizer::run_all(const std::vector<const Unit*>& units, const at::Tensor& parameters,
                        std::int64_t offset, const at::Tensor& gradient, double learning_rate) const {
  if (row_->units == Units::kRanges || !ops::is_host(device_)) {
    for (const Unit* unit : units) run(*unit, parameters, offset, gradient, learning_rate);
  } else {
    // At least two, so that it is a parallel region, in which libtorch's operators take one thread each: the
    // order of their sums does not depend on the number of threads.
    const auto count = static_cast<std::int64_t>(units.size());
    at::parallel_for(0, count + 1, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < std::min(end, count); ++i)
        run(*units[static_cast<std::size_t>(i)], parameters, offset, gradient, learning_rate);
    });
  }
  parameters.unsafeGetTensorImpl()->bump_version();  // shadows of the parameters are made again
}

void Optimizer::step(const at::Tensor& parameters, const at::Tensor& gradient, double learning_rate) {
  const std::int64_t size = size_of(layout_);
  require_buffer(parameters, size, "parameters");
  require_buffer(gradient, size, "gradient");
  begin_step();
  if (divided_) return step_held(parameters, gradient, learning_rate);
  std::vector<const Unit*> units;
  for (const Unit& unit : units_) units.push_back(&unit);
  run_all(units, parameters, 0, gradient, learning_rate);
}

void Optimizer::step_held(const at::Tensor& parameters, const at::Tensor& gradient, double learning_rate) {
  for (const FlatRange& range : held_) {
    std::vector<Unit> cut;
    for (const Unit& unit : units_) {
      const std::int64_t begin = std::max(unit.offset, range.begin);
      const std::int64_t end = std::min(unit.offset + unit.size, range.end);
      if (begin >= end) continue;
      Unit& part = cut.emplace_back(unit);
      part.offset = begin;
      part.size = end - begin;
      part.shape = {part.size};
      for (std::size_t k = 0; k < all_.size(); ++k) {
        if (all_[k].value.numel() == 0) continue;
        part.state_offset[k] = begin;
        part.state_size[k] = part.size;
      }
    }
    std::vector<const Unit*> units;
    for (const Unit& unit : cut) units.push_back(&unit);
    run_all(units, parameters, 0, gradient, learning_rate);
    leave_memory(range);
  }
}

void Optimizer::step_part(const at::Tensor& parameters, std::int64_t offset, const at::Tensor& gradient,
                          double learning_rate) {
  require_buffer(parameters, size_of(layout_), "parameters");
  require_buffer(gradient, gradient.numel(), "gradient");
  const std::int64_t end = offset + gradient.numel();
  std::vector<const Unit*> units;
  std::int64_t covered = 0;
  for (const Unit& unit : units_) {
    if (unit.offset < offset || unit.offset + unit.size > end) continue;
    units.push_back(&unit);
    covered += unit.size;
  }
  base::require(covered == gradient.numel(), "learn::Optimizer::step_part", "whole parts of the layout");
  run_all(units, parameters, offset, gradient, learning_rate);
}

at::Tensor Optimizer::reference(std::size_t index, const at::Tensor& parameters, const at::Tensor& gradient,
                                double learning_rate) const {
  const at::NoGradGuard no_grad;
  const Unit& unit = tensors_[index];
  const bool whole = takes_shapes(row_->units);
  std::vector<at::Tensor> state;
  for (std::size_t k = 0; k < all_.size(); ++k) {
    const at::Tensor part = all_[k].value.narrow(0, unit.state_offset[k], unit.state_size[k]);
    state.push_back(part.is_floating_point() ? part.to(at::kDouble) : part.clone());
  }
  const auto wide = [&](const at::Tensor& flat) {
    const at::Tensor part = flat.narrow(0, unit.offset, unit.size).to(at::kDouble);
    return whole ? part.view(unit.shape) : part;
  };
  at::Tensor p = wide(parameters);
  row_->apply({.options = options_,
               .arguments = options_.arguments,
               .weight_decay = unit.decays ? options_.weight_decay : 0,
               .learning_rate = learning_rate,
               .step = steps_ + 1},
              p, wide(gradient), state);
  return p.flatten();
}

}  // namespace hone::learn
