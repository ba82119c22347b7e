// Numbers below the least normal one, as operands and as results, are 0 on this thread while this lives. Arithmetic on them
// takes some hundred cycles on x86-64; products of decays over many tokens are full of them.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace hone::ops {

class FlushDenormals {
 public:
  FlushDenormals() : before_(control()) { set_control(before_ | kFlush); }
  ~FlushDenormals() { set_control(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr std::uint64_t kFlush = 0x8040;  // MXCSR: results (FTZ) and operands (DAZ)
  static std::uint64_t control() { return _mm_getcsr(); }
  static void set_control(std::uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;  // FPCR: FZ, both
  static std::uint64_t control() {
    std::uint64_t value = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set_control(std::uint64_t value) { __asm__ volatile("msr fpcr, %0" : : "r"(value)); }
#else
  static constexpr std::uint64_t kFlush = 0;
  static std::uint64_t control() { return 0; }
  static void set_control(std::uint64_t /*value*/) {}
#endif
  std::uint64_t before_;
};

}  // namespace hone::ops
