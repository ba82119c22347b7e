// What libhone_graphs.so has: graphs of a CUDA device, recorded and started by libtorch's own class, which keeps the memory of what
// was recorded apart from other tensors. It is compiled against libtorch's headers for CUDA and linked to nothing of CUDA: what it calls
// is in the libraries that the process has loaded (ops/machine/cuda.h).
#pragma once

#include <string>

namespace hone::ops::cuda {

struct GraphLibrary {
  int version = 0;
  void* (*make)() = nullptr;
  // Records what work(user) starts on the device, without doing it. `beside`: another graph that is never started at the same time, whose
  // memory it may use; null: none. Empty, or why it cannot be recorded; what `work` throws comes through, and nothing is recorded.
  std::string (*record)(void* graph, void* beside, void (*work)(void*), void* user) = nullptr;
  void (*start)(void* graph) = nullptr;  // in the order of the current stream
  void (*drop)(void* graph) = nullptr;
};

constexpr int kGraphVersion = 1;
constexpr const char* kGraphEntry = "hone_cuda_graphs";
using GraphEntry = const GraphLibrary* (*)();

}  // namespace hone::ops::cuda
