// Graphs of a device by libtorch (graph_library.h).
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <string>

#include "ops/machine/graph_library.h"

namespace hone::ops::cuda {
namespace {

using at::cuda::CUDAGraph;

CUDAGraph& graph_of(void* graph) {
  return *static_cast<CUDAGraph*>(graph);
}

void* make() {
  return new CUDAGraph();
}

// CUDA records on a stream of its own. Only calls of this thread may spoil it: another one may allocate meanwhile.
std::string record(void* graph, void* beside, void (*work)(void*), void* user) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  decltype(graph_of(graph).pool()) pool = {0, 0};
  if (beside != nullptr) pool = graph_of(beside).pool();
  std::exception_ptr thrown;
  try {
    graph_of(graph).capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  } catch (const std::exception& error) {
    return error.what();
  }
  try {
    work(user);
  } catch (...) {
    thrown = std::current_exception();
  }
  std::string why;
  try {
    graph_of(graph).capture_end();
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (thrown) std::rethrow_exception(thrown);
  return why;
}

void start(void* graph) {
  graph_of(graph).replay();
}

void drop(void* graph) {
  delete static_cast<CUDAGraph*>(graph);
}

}  // namespace
}  // namespace hone::ops::cuda

extern "C" __attribute__((visibility("default"))) const hone::ops::cuda::GraphLibrary* hone_cuda_graphs() {
  using namespace hone::ops::cuda;
  static const GraphLibrary library = {
      .version = kGraphVersion, .make = make, .record = record, .start = start, .drop = drop};
  return &library;
}
