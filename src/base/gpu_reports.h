// This is the one place that says what real GPUs have shown. The program's words about CUDA follow it, and
// tests/house/gpu_reports_test.py compares it with the folder of the reports.
#pragma once

namespace hone::base {

// Reports of `hone gpu-check` from real hardware in bench/results/gpu/. With the first one `device: auto` becomes the
// default, and the sentence below goes away.
inline constexpr int kGpuReports = 0;

inline constexpr const char* kDefaultDevice = kGpuReports > 0 ? "auto" : "cpu";
inline constexpr const char* kCudaStanding = kGpuReports > 0 ? "" : "experimental: has not run on a GPU yet";

}  // namespace hone::base
