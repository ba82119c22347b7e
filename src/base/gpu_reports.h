// This is the one place that says what real GPUs have shown. The program's words about CUDA follow it, and
// tests/house/gpu_reports_test.py compares it with the folder of the reports.
#pragma once

namespace hone::base {

// `cpu` until sampling on a GPU is no longer slow: GRPO waits for it most of all (bench/results/gpu).
inline constexpr const char* kDefaultDevice = "cpu";

// Names the card of each report in bench/results/gpu. README.md, docs/limits.md, docs/options.md and docs/cuda.md have
// the same words.
inline constexpr const char* kCudaStanding =
    "experimental: has run on an H100 and an H200, slow when sampling";

}  // namespace hone::base
