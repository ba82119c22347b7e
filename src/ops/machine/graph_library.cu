// Graphs of a device by libtorch (graph_library.h).
#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ops/machine/graph_library.h"

namespace hone::ops::cuda {
namespace {

using at::cuda::CUDAGraph;

CUDAGraph& graph_of(void* graph) {
  return *static_cast<CUDAGraph*>(graph);
}

// Where graphs of a card are recorded, and the memory of all of them. libtorch's allocator gives memory again to the stream alone that had
// it, and keeps that of graphs that have all ended until memory runs out: stream and memory stay, which a graph holds that nobody starts.
class Recorder {
 public:
  explicit Recorder(int card)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, static_cast<c10::DeviceIndex>(card))) {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    holder_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    at::zeros({1}, at::TensorOptions(at::kInt).device(at::kCUDA));  // libtorch warns of an empty one
    holder_.capture_end();
  }
  const c10::cuda::CUDAStream& stream() const { return stream_; }
  auto memory() { return holder_.pool(); }

 private:
  c10::cuda::CUDAStream stream_;
  CUDAGraph holder_;
};

Recorder& recorder_of_card() {
  // CUDA may be gone before statics are.
  static auto* const all = new std::map<int, std::unique_ptr<Recorder>>;
  const int card = c10::cuda::current_device();
  std::unique_ptr<Recorder>& one = (*all)[card];
  if (!one) one = std::make_unique<Recorder>(card);
  return *one;
}

void* make() {
  return new CUDAGraph();
}

// Where a recording fails, libtorch's class throws before its two allocators end, the card's and that of pinned memory, each of which
// would refuse every later one.
void end_allocation() {
  const auto memory = recorder_of_card().memory();
  try {
    const auto card = static_cast<c10::DeviceIndex>(c10::cuda::current_device());
    c10::cuda::CUDACachingAllocator::endAllocateToPool(card, memory);
  } catch (const std::exception&) {
    // It had ended.
  }
  try {
    at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(memory);
  } catch (const std::exception&) {
    // So had this one.
  }
}

// Only calls of this thread may spoil what is recorded: another one may allocate meanwhile.
std::string record(void* graph, void (*work)(void*), void* user) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::optional<c10::cuda::CUDAStreamGuard> guard;
  std::exception_ptr thrown;
  try {
    Recorder& recorder = recorder_of_card();
    guard.emplace(recorder.stream());
    graph_of(graph).capture_begin(recorder.memory(), cudaStreamCaptureModeThreadLocal);
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
    end_allocation();
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
