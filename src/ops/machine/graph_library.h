// This is what libhone_graphs.so has: graphs of a CUDA device, recorded and started by libtorch's own class, which keeps the memory of what
// was recorded apart from other tensors. It is compiled against libtorch's headers for CUDA and linked to nothing of CUDA: what it calls
// is in the libraries that the process has loaded (ops/machine/cuda.h).
#pragma once

#include <string>

namespace hone::ops::cuda {

struct GraphLibrary {
  int version = 0;
  void* (*make)() = nullptr;
  // Records what work(user) starts on the current card, without doing it. Empty, or why it cannot be recorded; what `work` throws comes
  // through, and nothing is recorded. All graphs of a card have one memory, which the process keeps: they are started in the order of
  // one stream, and none has anything there that another one reads.
  std::string (*record)(void* graph, void (*work)(void*), void* user) = nullptr;
  void (*start)(void* graph) = nullptr;  // in the order of the current stream
  void (*drop)(void* graph) = nullptr;
};

// Why the library cannot be had; empty: it can, and is loaded. For the program alone.
std::string graph_library_missing();

// From now on `library` records for StepGraphs that are made then, on any device: tests have another one. Null ends
// that.
void set_graph_library(const GraphLibrary* library);

constexpr int kGraphVersion = 1;
constexpr const char* kGraphEntry = "hone_cuda_graphs";
using GraphEntry = const GraphLibrary* (*)();

}  // namespace hone::ops::cuda
