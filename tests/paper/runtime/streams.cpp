// Streams, events and waits. Everything is done when it is asked for, so a query always says so; what counts is that the host
// asked to wait.
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include "state.h"

namespace paper {
namespace {

// Streams on which the last thing was a copy that waited: to wait again costs nothing.
std::unordered_set<cudaStream_t>& drained() {
  static auto* const one = new std::unordered_set<cudaStream_t>;
  return *one;
}

// A handle of its own: libtorch only compares them.
template <class Handle>
Handle new_handle() {
  return static_cast<Handle>(std::malloc(16));
}

// Kernels so far, those of graphs that were started among them.
std::int64_t kernels_so_far() {
  return state().counts.launches + state().counts.kernels_of_graphs;
}

// Of each event: how many kernels had been launched when it was recorded.
std::unordered_map<cudaEvent_t, std::int64_t>& launches_before() {
  static auto* const one = new std::unordered_map<cudaEvent_t, std::int64_t>;
  return *one;
}

}  // namespace

void event_is_recorded(cudaEvent_t event) {
  launches_before()[event] = kernels_so_far();
}

std::int64_t kernels_after(cudaEvent_t event) {
  const auto found = launches_before().find(event);
  return found == launches_before().end() ? 0 : kernels_so_far() - found->second;
}

void forget_recorded(cudaEvent_t event) {
  launches_before().erase(event);
}

void stream_is_busy(cudaStream_t stream) {
  drained().erase(stream);
}

void waited_in_copy(cudaStream_t stream) {
  ++state().counts.waits;
  drained().insert(stream);
}

}  // namespace paper

using paper::fail;
using paper::Guard;
using paper::lock;
using paper::state;

cudaError_t cudaStreamCreate(cudaStream_t* out) {
  *out = paper::new_handle<cudaStream_t>();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned /*flags*/, int /*priority*/) {
  return cudaStreamCreate(out);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Guard guard(lock());
  return paper::capture_of(stream) != 0 ? fail(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Guard guard(lock());
  if (paper::refuses_wait(stream)) return fail(cudaErrorStreamCaptureUnsupported);
  if (paper::drained().erase(stream) == 0) {
    ++state().counts.waits;
    paper::happened('w');
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Guard guard(lock());
  if (paper::refuses_unsafe_call()) return fail(cudaErrorStreamCaptureUnsupported);
  ++state().counts.waits;
  paper::happened('w');
  return cudaSuccess;
}

// Functions of the host run in the stream's order: at once.
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* user,
                                  unsigned /*flags*/) {
  call(stream, cudaSuccess, user);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Guard guard(lock());
  paper::stream_waits_for(stream, event);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned /*flags*/) {
  *out = paper::new_handle<cudaEvent_t>();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) {
  return cudaEventCreateWithFlags(out, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard(lock());
  paper::forget_event(event);
  paper::forget_recorded(event);
  std::free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Guard guard(lock());
  paper::event_recorded(event, stream);
  paper::event_is_recorded(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard(lock());
  if (paper::refuses_event(event)) return fail(cudaErrorCapturedEvent);
  return paper::refuses_unsafe_call() ? fail(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(lock());
  if (paper::refuses_event(event)) return fail(cudaErrorCapturedEvent);
  if (paper::refuses_unsafe_call()) return fail(cudaErrorStreamCaptureUnsupported);
  const bool late = paper::kernels_after(event) > 0;
  ++(late ? state().counts.late_waits : state().counts.waits);
  paper::happened(late ? 'l' : 'w');
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}
