// The stand-in: a device that is not the CPU, on a machine that has no other. libtorch knows it as "standin"
// (PrivateUse1). Its operators are the CPU's, on copies. Its memory is closed to the host: whatever reads or
// writes it outside of a copy ends the process with SIGSEGV. An operator that gets tensors of both devices
// fails, as it does on CUDA.
//
// What holds on it holds on any device that runs libtorch's operators, but for speed and for the order of
// additions.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <set>
#include <string>

namespace hone::standin {

// The name to put into a plan.
inline constexpr const char* kName = "standin";

at::Device device();

// What crossed between host and device, and how often the host had to wait for the device.
struct Counts {
  std::int64_t to_device = 0;  // copies from the host that it waits for
  std::int64_t staged = 0;     // the others (non_blocking, ops/index_tensor.h)
  std::int64_t to_host = 0;    // copies to the host
  std::int64_t scalars = 0;    // item()
  std::int64_t shapes = 0;     // operators whose output's shape depends on values (masked_select)
  std::int64_t operators = 0;  // operators on the device, copies not counted

  // Each of these waits until the device has done all that was asked of it before. A copy from the host does on CUDA,
  // where it is from memory that is not pinned; what says that it is staged has pinned it there.
  std::int64_t synchronizations() const { return to_device + to_host + scalars + shapes; }
  Counts operator-(const Counts& other) const;
};

// Since the process began.
Counts counts();

// The names of the operators that ran on the device since the process began: "aten::add.Tensor".
std::set<std::string> operators_run();

}  // namespace hone::standin
