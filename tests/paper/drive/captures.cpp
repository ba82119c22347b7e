#include "paper/drive/captures.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>

namespace {

// A step whose memory is made beforehand, as a decoded token's will be.
struct Step {
  at::Tensor x, weights, out;
  Step() {
    const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
    x = at::ones({64, 256}, options);
    weights = at::ones({256, 256}, options);
    out = at::empty({64, 256}, options);
  }
  void run() const {
    at::mm_out(const_cast<at::Tensor&>(out), x, weights);
    out.relu_();
    at::mm_out(const_cast<at::Tensor&>(x), out, weights);
  }
};

template <class Middle>
void capture(at::cuda::CUDAGraph& graph, const Step& step, const Middle& middle) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(side);
  step.run();  // makes cuBLAS's handle and its workspace
  graph.capture_begin();
  step.run();
  middle();
  graph.capture_end();
}

template <class Middle>
int refused(const Middle& middle) {
  const Step step;
  at::cuda::CUDAGraph graph;
  try {
    capture(graph, step, middle);
  } catch (const std::exception&) {
    return 0;
  }
  return 1;
}

}  // namespace

int paper_capture(std::int64_t replays) {
  try {
    const Step step;
    at::cuda::CUDAGraph graph;
    capture(graph, step, [] {});
    for (std::int64_t i = 0; i < replays; ++i) graph.replay();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

int paper_capture_of(void (*work)(void*), void* user, std::int64_t replays) {
  try {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    work(user);
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    work(user);
    graph.capture_end();
    for (std::int64_t i = 0; i < replays; ++i) graph.replay();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

int paper_capture_with_a_wait() {
  const at::Tensor number = at::ones({}, at::TensorOptions().device(at::kCUDA));
  return refused([&] { number.item<float>(); });
}

int paper_capture_with_an_allocation() {
  return refused([] {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, 1024);
    TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
  });
}
