// The memory of the examination: what it saves of a run while it rehearses steps, within what the run itself
// has been planned to need. So an examined run never needs more than one with skip_doctor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "adapters/lora.h"
#include "base/files/file.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

// Bytes that a probe may hold beside the run's own, now: half of what is left of the planned peak, since the
// rehearsal's passes need the other half. Without a plan there is no bound.
std::int64_t exam_room(const train::RunView& run);

// A tensor's values, to be restored: nothing where all are 0, a copy where it fits `room`, else an unnamed file
// in `folder`, or where that does not exist in the system's temporary one. Without room there too: a copy.
class SavedTensor {
 public:
  SavedTensor(const at::Tensor& tensor, std::int64_t room, const base::fs::path& folder);
  ~SavedTensor();
  SavedTensor(SavedTensor&& other) noexcept;
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;
  SavedTensor& operator=(SavedTensor&&) = delete;

  void restore(at::Tensor to) const;  // of the same shape, dtype and device
  std::int64_t bytes_in_memory() const {
    return copy_.defined() ? static_cast<std::int64_t>(copy_.nbytes()) : 0;
  }
  bool in_file() const { return file_ >= 0; }

 private:
  bool write(const at::Tensor& tensor, const base::fs::path& folder);
  at::Tensor copy_;
  int file_ = -1;
};

// Lends the run's own optimizer to a probe, with the state that a new run has; restored when it goes out of
// scope.
class OptimizerGuard {
 public:
  explicit OptimizerGuard(const train::RunView& run);
  ~OptimizerGuard();
  OptimizerGuard(const OptimizerGuard&) = delete;
  OptimizerGuard& operator=(const OptimizerGuard&) = delete;
  learn::Optimizer& optimizer() { return optimizer_; }

 private:
  learn::Optimizer& optimizer_;
  std::int64_t steps_;
  std::vector<SavedTensor> state_;
};

// Returns for each trainable tensor whether a probe looks at its values one by one: all of a small adapter,
// else whole modules (A and B) spread over the layers, with at most `elements` together, but at least one.
std::vector<bool> spread_tensors(const adapters::Adapter& adapter, std::int64_t elements);
// For probes that hold `copies` fp32 copies of these tensors: at most kSpread elements, less where memory is short.
std::int64_t spread_elements(const train::RunView& run, std::int64_t copies);
inline constexpr std::int64_t kSpread = 8'000'000;

// A hash of the tensor's bytes, by all threads.
std::uint64_t tensor_hash(const at::Tensor& tensor);

}  // namespace hone::doctor
