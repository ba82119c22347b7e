// Where the program is, for whoever writes its last words: the operator that runs, its shapes, the layer, the
// step. Set with a few relaxed stores an operator, read by a signal handler (commands/crash_signals.h). Texts
// are static.
#pragma once

#include <atomic>
#include <cstdint>

namespace hone::base {

struct Where {
  std::atomic<const char*> op = nullptr;     // "gemm"; null: nothing was entered yet
  std::atomic<const char*> dtype = nullptr;  // "bf16"
  std::atomic<std::int64_t> m = 0, n = 0, k = 0;
  std::atomic<std::int64_t> layer = -1;  // decoder layer, -1: none
  std::atomic<std::int64_t> step = 0;    // 1-based optimizer step that is being made; 0: before the first
  std::atomic<std::int64_t> checkpoint = -1;  // step of the newest checkpoint; -1: none
  // Called on entering an operator: for tests that let one of them die.
  std::atomic<void (*)(const char* op)> on_enter = nullptr;
};

inline Where where;

// An operator begins: of a product [m, k] x [k, n]; of attention m tokens, n heads, k elements a head.
inline void enter(const char* op, std::int64_t m, std::int64_t n, std::int64_t k, const char* dtype) {
  where.op.store(op, std::memory_order_relaxed);
  where.m.store(m, std::memory_order_relaxed);
  where.n.store(n, std::memory_order_relaxed);
  where.k.store(k, std::memory_order_relaxed);
  where.dtype.store(dtype, std::memory_order_relaxed);
  if (auto* const hook = where.on_enter.load(std::memory_order_relaxed)) hook(op);
}

inline void enter_layer(std::int64_t layer) {
  where.layer.store(layer, std::memory_order_relaxed);
}

}  // namespace hone::base
