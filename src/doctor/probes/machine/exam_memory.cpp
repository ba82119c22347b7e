#include "doctor/probes/machine/exam_memory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "base/files/unnamed_file.h"
#include "model/config/layer_of.h"
#include "ops/machine/device_memory.h"
#include "train/opening/memory_inputs.h"

namespace hone::doctor {

namespace {

namespace fs = base::fs;

constexpr std::int64_t kPiece = 4 << 20;  // bytes on their way to or from a file

bool holds_zeros(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().flatten();
  constexpr std::int64_t kElements = 1 << 20;
  for (std::int64_t at = 0; at < flat.numel(); at += kElements) {
    if (flat.narrow(0, at, std::min(kElements, flat.numel() - at)).any().item<bool>()) return false;
  }
  return true;
}

// In the system's temporary folder where there is no `folder`.
int unnamed_file_near(const fs::path& folder) {
  std::error_code none;
  return base::unnamed_file(fs::is_directory(folder, none) ? folder : fs::temp_directory_path(none));
}

bool write_all(int file, const std::byte* bytes, std::int64_t size) {
  while (size > 0) {
    const ssize_t done = ::write(file, bytes, static_cast<std::size_t>(std::min(size, kPiece)));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    size -= done;
  }
  return true;
}

void read_all(int file, std::byte* bytes, std::int64_t size) {
  for (std::int64_t at = 0; at < size;) {
    const ssize_t done = ::pread(file, bytes + at, static_cast<std::size_t>(std::min(size - at, kPiece)),
                                 static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      throw base::UserError({.where = "doctor",
                             .expected = "what the examination saved of the adapter",
                             .found = "the file could not be read again",
                             .cause = "the disk of output_dir has an error",
                             .fix = "use another output_dir, or skip_doctor: true"});
    }
    at += done;
  }
}

std::string module_of(const std::string& name) {
  return name.substr(0, name.find(".lora_"));
}

}  // namespace

std::int64_t exam_room(const train::RunView& run) {
  const train::MemoryPlan& plan = run.start.memory;
  if (plan.segments.empty()) return std::numeric_limits<std::int64_t>::max();
  // Gradients and moments are there already, but untouched: they take memory with the first step.
  std::int64_t held = 0;
  constexpr std::size_t kBeforeBatch = 3;
  for (std::size_t i = 0; i < std::min(kBeforeBatch, plan.segments.size()); ++i)
    held += plan.segments[i].bytes;
  return std::max<std::int64_t>(0, plan.total - std::max(held, train::bytes_in_use(run.plan))) / 2;
}

SavedTensor::SavedTensor(const at::Tensor& tensor, std::int64_t room, const fs::path& folder) {
  if (holds_zeros(tensor)) return;
  const bool fits = static_cast<std::int64_t>(tensor.nbytes()) <= room;
  if (fits || !ops::is_host(tensor.device()) || !write(tensor, folder)) copy_ = tensor.detach().clone();
}

SavedTensor::SavedTensor(SavedTensor&& other) noexcept
    : copy_(std::move(other.copy_)), file_(std::exchange(other.file_, -1)) {}

SavedTensor::~SavedTensor() {
  if (file_ >= 0) ::close(file_);
}

bool SavedTensor::write(const at::Tensor& tensor, const fs::path& folder) {
  const int file = unnamed_file_near(folder);
  if (file < 0) return false;
  const auto* const bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (tensor.is_contiguous() && write_all(file, bytes, static_cast<std::int64_t>(tensor.nbytes()))) {
    file_ = file;
    return true;
  }
  ::close(file);
  return false;
}

void SavedTensor::restore(at::Tensor to) const {
  const at::NoGradGuard no_grad;
  if (copy_.defined()) {
    to.copy_(copy_);
  } else if (file_ >= 0) {
    read_all(file_, static_cast<std::byte*>(to.mutable_data_ptr()), static_cast<std::int64_t>(to.nbytes()));
    to.unsafeGetTensorImpl()->bump_version();  // shadows of the parameters are made again
  } else {
    to.zero_();
  }
}

OptimizerGuard::OptimizerGuard(const train::RunView& run)
    : optimizer_(run.resume_state->optimizer), steps_(optimizer_.steps()) {
  std::vector<at::Tensor> zeros;
  for (const learn::StateTensor& one : optimizer_.state()) {
    state_.emplace_back(one.value, exam_room(run), run.directory.output_dir());
    zeros.push_back(at::zeros({1}, one.value.options()).expand(one.value.sizes()));
  }
  optimizer_.restore(0, zeros);
}

OptimizerGuard::~OptimizerGuard() {
  std::vector<at::Tensor> values;
  for (std::size_t k = 0; k < state_.size(); ++k) {
    const at::Tensor& value = optimizer_.state()[k].value;
    state_[k].restore(value);
    values.push_back(value);
  }
  optimizer_.restore(steps_, values);
}

std::vector<bool> spread_tensors(const adapters::Adapter& adapter, std::int64_t elements) {
  const auto& all = adapter.tensors();
  if (adapter.flat().numel() <= elements) return std::vector<bool>(all.size(), true);
  struct Module {
    std::size_t first = 0, count = 0;
    std::int64_t size = 0;
  };
  std::vector<Module> modules;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool same = i > 0 && module_of(all[i].name) == module_of(all[i - 1].name);
    if (!same) modules.push_back({.first = i});
    modules.back().count += 1;
    modules.back().size += all[i].value.numel();
  }
  const auto layer_of_module = [&](std::size_t m) { return model::layer_of(all[modules[m].first].name); };
  const std::int64_t mean =
      std::max<std::int64_t>(1, adapter.flat().numel() / static_cast<std::int64_t>(modules.size()));
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(1, elements / mean));
  std::size_t stride = std::max<std::size_t>(1, modules.size() / wanted);
  std::size_t of_a_layer = 1;  // in a layer each time another one
  for (std::size_t m = 1; m < modules.size() && layer_of_module(m) == layer_of_module(0); ++m) ++of_a_layer;
  if (of_a_layer > 1 && stride % of_a_layer == 0) stride += 1;
  std::vector<bool> out(all.size(), false);
  std::int64_t left = elements;
  bool any = false;
  for (std::size_t m = 0; m < modules.size(); m += stride) {
    if (any && modules[m].size > left) continue;
    any = true;
    left -= modules[m].size;
    for (std::size_t i = 0; i < modules[m].count; ++i) out[modules[m].first + i] = true;
  }
  return out;
}

std::int64_t spread_elements(const train::RunView& run, std::int64_t copies) {
  return std::clamp<std::int64_t>(exam_room(run) / (4 * copies), 1, kSpread);
}

}  // namespace hone::doctor
