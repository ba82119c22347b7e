// The table of ops/backend/cuda on the stand-in with hone's own kernels, whose source the emulator runs (tests/emulated): what a
// card would start, between guards, with the numbers of the stand-in's memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ops/backend/cuda/kernels/kernels.h"
#include "standin/cuda_only.h"

namespace hone::standin {

// While it lives, operators on the stand-in are those of GPUs, and those of them that have kernels of our own start these; one at
// a time. A fault that the emulator finds is a std::runtime_error of the operator.
class UseEmulatedKernels {
 public:
  // `kernels`: others than the emulator's, which must outlive this; for tests of what a wrong one does.
  explicit UseEmulatedKernels(const ops::cuda::kernels::Kernels* kernels = nullptr);
  ~UseEmulatedKernels();
  UseEmulatedKernels(const UseEmulatedKernels&) = delete;
  UseEmulatedKernels& operator=(const UseEmulatedKernels&) = delete;

  // Of each kernel of the table, since this was made.
  std::map<std::string, std::int64_t> calls() const;

 private:
  UseCudaTable table_;
  std::map<std::string, std::int64_t> before_;
};

}  // namespace hone::standin
