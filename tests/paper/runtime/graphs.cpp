// Captures and graphs. A graph is the number of kernels that were put on a stream while it was captured. What CUDA forbids during
// a capture fails here too and spoils it: waits for a stream that is captured, and, unless the thread said that it knows better
// (relaxed), allocations, and waits for anything.
#include <unordered_map>
#include <utility>

#include "state.h"

namespace paper {
namespace {

struct Capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const void* thread = nullptr;  // that began it
  std::int64_t kernels = 0;
  bool spoiled = false;
};

struct Captures {
  std::uint64_t last = 0;
  std::unordered_map<std::uint64_t, Capture> open;
  std::unordered_map<cudaStream_t, std::uint64_t> streams;
  std::unordered_map<cudaEvent_t, std::uint64_t> events;
};
Captures& captures() {
  static auto* const one = new Captures;
  return *one;
}

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

// An address of its own for each thread.
const void* this_thread() {
  return &mode_of_thread;
}

void spoil(Capture& capture) {
  capture.spoiled = true;
  ++state().counts.refused_in_capture;
}

struct Graph {
  std::int64_t kernels = 0;
};

}  // namespace

std::uint64_t capture_of(cudaStream_t stream) {
  const auto found = captures().streams.find(stream);
  return found == captures().streams.end() ? 0 : found->second;
}

void record_kernel(cudaStream_t stream) {
  if (const std::uint64_t id = capture_of(stream); id != 0) ++captures().open.at(id).kernels;
}

void record_library_call() {
  for (auto& [id, capture] : captures().open) {
    if (capture.thread == this_thread()) ++capture.kernels;
  }
}

bool refuses_wait(cudaStream_t stream) {
  const std::uint64_t id = capture_of(stream);
  if (id != 0) spoil(captures().open.at(id));
  return id != 0;
}

bool refuses_unsafe_call() {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return false;
  for (auto& [id, capture] : captures().open) {
    const bool global =
        capture.mode == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal;
    const bool own = capture.mode != cudaStreamCaptureModeRelaxed && capture.thread == this_thread();
    if (!global && !own) continue;
    spoil(capture);
    return true;
  }
  return false;
}

bool refuses_event(cudaEvent_t event) {
  const auto found = captures().events.find(event);
  if (found == captures().events.end()) return false;
  if (const auto open = captures().open.find(found->second); open != captures().open.end())
    spoil(open->second);
  return true;
}

void event_recorded(cudaEvent_t event, cudaStream_t stream) {
  captures().events.erase(event);
  if (const std::uint64_t id = capture_of(stream); id != 0) captures().events[event] = id;
}

void stream_waits_for(cudaStream_t stream, cudaEvent_t event) {
  const auto found = captures().events.find(event);
  if (found != captures().events.end() && captures().open.contains(found->second)) {
    captures().streams[stream] = found->second;
  }
}

void forget_event(cudaEvent_t event) {
  captures().events.erase(event);
}

}  // namespace paper

using paper::captures;
using paper::fail;
using paper::Graph;
using paper::Guard;
using paper::lock;
using paper::state;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, paper::mode_of_thread);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Guard guard(lock());
  if (paper::capture_of(stream) != 0) return fail(cudaErrorIllegalState);
  const std::uint64_t id = ++captures().last;
  captures().open[id] = {.origin = stream, .mode = mode, .thread = paper::this_thread()};
  captures().streams[stream] = id;
  ++state().counts.captures;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  const Guard guard(lock());
  const std::uint64_t id = paper::capture_of(stream);
  if (id == 0) return fail(cudaErrorIllegalState);
  const paper::Capture capture = captures().open.at(id);
  captures().open.erase(id);
  std::erase_if(captures().streams, [&](const auto& pair) { return pair.second == id; });
  *out = nullptr;
  if (capture.spoiled) return fail(cudaErrorStreamCaptureInvalidated);
  *out = reinterpret_cast<cudaGraph_t>(new Graph{.kernels = capture.kernels});
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  const Guard guard(lock());
  const std::uint64_t id = paper::capture_of(stream);
  *out = id == 0                          ? cudaStreamCaptureStatusNone
         : captures().open.at(id).spoiled ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  cudaStreamIsCapturing(stream, status);
  const Guard guard(lock());
  if (id != nullptr) *id = paper::capture_of(stream);
  if (graph != nullptr) *graph = nullptr;
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  *out = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const Guard guard(lock());
  ++state().counts.graph_launches;
  paper::started_on_current_card();
  state().counts.kernels_of_graphs += reinterpret_cast<Graph*>(graph)->kernels;
  paper::forget_copies();
  paper::stream_is_busy(stream);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* /*nodes*/, std::size_t* count) {
  *count = static_cast<std::size_t>(reinterpret_cast<Graph*>(graph)->kernels);
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*,
                                         std::size_t* count) {
  *count = 0;
  return cudaSuccess;
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) {
  return fail(cudaErrorNotSupported);
}
