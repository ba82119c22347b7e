// This records what the program is executing, for the crash report: the current operator, its shapes, the
// layer, the step. Set with a few relaxed stores per operator, read by a signal handler
// (commands/process/crash_signals.h). Strings are static.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/process/stop_request.h"

namespace hone::base {

struct Where {
  std::atomic<const char*> op = nullptr;     // "gemm"; null: no operator has run yet
  std::atomic<const char*> dtype = nullptr;  // "bf16"
  std::atomic<std::int64_t> m = 0, n = 0, k = 0;
  std::atomic<std::int64_t> layer = -1;       // decoder layer, -1: none
  std::atomic<std::int64_t> step = 0;         // current optimizer step, from 1; 0: before the first
  std::atomic<std::int64_t> checkpoint = -1;  // step of the newest checkpoint; -1: none
  // Called on entering an operator: for tests that make an operator crash.
  std::atomic<void (*)(const char* op)> on_enter = nullptr;
};

inline Where where;

// Records that an operator begins. A product: [m, k] x [k, n]. Attention: m tokens, n heads, head_dim k.
inline void enter(const char* op, std::int64_t m, std::int64_t n, std::int64_t k, const char* dtype) {
  where.op.store(op, std::memory_order_relaxed);
  where.m.store(m, std::memory_order_relaxed);
  where.n.store(n, std::memory_order_relaxed);
  where.k.store(k, std::memory_order_relaxed);
  where.dtype.store(dtype, std::memory_order_relaxed);
  if (auto* const hook = where.on_enter.load(std::memory_order_relaxed)) hook(op);
}

// A layer of a pass begins; -1: none. StopCut when the step is to be cut short (base/process/stop_request.h).
inline void enter_layer(std::int64_t layer) {
  where.layer.store(layer, std::memory_order_relaxed);
  if (layer >= 0) cut_if_overdue();
}

}  // namespace hone::base
