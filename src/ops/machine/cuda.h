// NVIDIA GPUs. libtorch's part for them, libtorch_cuda.so, is that of the user's own torch. It is loaded when a run asks
// for a GPU, and never otherwise, so that a run on the CPU neither waits for it nor needs it.
//
//   const at::Device device = ops::open_device(plan.device);   // "cpu", "cuda", "cuda:1", "auto"
//
// Nothing falls back to the CPU: who asks for CUDA gets it, or a UserError with the cause and what to do.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace hone::ops {

// As the driver tells of it. A part of a card (MIG) is a card here, and its name says so: "NVIDIA A100 MIG 1g.5gb".
struct CudaCard {
  std::string name;             // empty: not told
  std::int64_t memory = 0;      // bytes; 0: not told
  std::int64_t capability = 0;  // 90 is compute capability 9.0; 0: not told
  bool maps_pages = false;      // memory can be mapped at reserved addresses, page by page

  bool operator==(const CudaCard&) const = default;
};

// NVIDIA's driver, by its own library libcuda.so.1.
struct CudaDriver {
  std::string version;          // "580.65.06"; empty: not told
  std::int64_t cuda = 0;        // the newest CUDA that it serves: 13000 is 13.0; 0: there is no driver
  std::vector<CudaCard> cards;  // that this process may use, cuda:0 first

  bool operator==(const CudaDriver&) const = default;
};

struct CudaState {
  bool loaded = false;
  std::string library;       // the file of libtorch_cuda.so: loaded, or looked for; empty: no torch was found
  std::string torch;         // its version, "2.11.0"
  std::int64_t cuda = 0;     // CUDA that this torch is built for: 13000 is 13.0; 0: none
  CudaDriver driver;         // empty where the search ended before
  base::ErrorText obstacle;  // where it is not loaded: found, cause and fix

  // "libcublas.so.13 is missing, which libtorch_cuda.so needs (torch is ...); pip install ..."; empty: loaded.
  std::string why_not() const;
};

// Loads libtorch_cuda.so and starts CUDA the first time; afterwards returns what became of that. Before the first
// question of this process to libtorch about CUDA, which libtorch answers once and for all: at the beginning of a
// command. Sums of products are then fp32's: no TF32, no partial sums in bf16. Memory grows by pages (device_memory.h) where all
// cards can map them, unless the environment configures libtorch's allocator: see allocator_variable(). Throws nothing.
const CudaState& load_cuda();

// PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF, if one of them is set, else empty. They configure libtorch's allocator of a
// card, which hone then leaves alone.
std::string allocator_variable();

// Why hone's own kernels are not used beside libtorch's operators: their library libhone_cuda.so is not there or does not
// fit, or HONE_OWN_KERNELS is "off". Empty: they are. Looks for the library the first time; after load_cuda().
std::string own_kernels_missing();
// Whether HONE_OWN_KERNELS lets them be used.
bool own_kernels_wanted();

// "cpu"; "cuda" (cuda:0) or "cuda:N", which has been loaded and is the current device of this thread; "auto": cuda:0 if
// there is one, else the CPU, and load_cuda() says why. Any other name is libtorch's. UserError where CUDA cannot be
// had, or has no such card; `where` is who asks, for the error.
at::Device open_device(const std::string& name, const std::string& where = "device");

// "NVIDIA H100 80GB HBM3, 85.0 GB": card `index` of a driver.
std::string describe(const CudaDriver& driver, std::int64_t index);

// "driver 580.65.06 for CUDA 13.0, torch 2.11.0 for CUDA 13.0"
std::string versions(const CudaState& state);

}  // namespace hone::ops
