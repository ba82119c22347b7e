// These functions say what a GPU's kernels depend on besides a shape, and what is known of its libraries.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace hone::doctor {

// Of cuBLAS, as it says itself: 120405 is 12.4.5; 0: it is not loaded.
std::int64_t cublas_version();

// "cuda:0, NVIDIA H100 80GB HBM3, driver 580.65.06 for CUDA 13.0, ..., cuBLAS 13.0.2": with the files of the libraries, by
// size and time. Empty on the CPU.
std::string describe_device(at::Device device);

// Returns what is known of a product that crashes on this card with this cuBLAS; empty: nothing.
std::string known_crash(const std::string& card, std::int64_t cublas);

}  // namespace hone::doctor
