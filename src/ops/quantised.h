// Matrices of 4 and 8 bits a number, byte for byte as bitsandbytes 0.50 makes them on a CPU
// (functional.quantize_4bit and int8_vectorwise_quant; tests/fixtures/parity/bnb.safetensors holds it to
// that).
//
// 4-bit: the matrix flattened, in blocks of 64 consecutive numbers; a block's scale is its largest magnitude,
// a code the nearest of 16 values in [-1, 1] to number / scale, two codes a byte, the first in the upper
// half. 4.5 bits a number. Double quantised, the scales less their mean become 8-bit codes of a dynamic map
// in blocks of 256, each with a scale of its own: 4.127 bits.
// 8-bit: each row's codes are round(127 * number / largest magnitude), of the numbers rounded to fp16. This
// is LLM.int8's weight format; activations are not quantised and no outlier column is set apart, which is
// what bitsandbytes itself does in training on a CPU (MatMul8bitFp).
//
// The mean of the scales is libtorch's, on one thread: above 32,768 blocks bitsandbytes' own bytes depend on
// the number of its threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "ops/cpu/quantised_kernels.h"

namespace hone::ops {

enum class QuantType { kNf4, kFp4, kInt8 };

struct QuantScheme {
  QuantType type = QuantType::kNf4;
  bool nested = false;  // double quantised; 4-bit only
  bool operator==(const QuantScheme&) const = default;
};

std::string words_of(const QuantScheme& scheme);  // "4-bit nf4, double quantised", "8-bit"

struct Quantised {
  QuantScheme scheme;
  std::int64_t out = 0, in = 0;
  std::int64_t block = 64;   // numbers a scale; 8-bit: in
  at::Tensor codes;          // uint8 [(out * in + 1) / 2]; 8-bit: int8 [out, in]
  at::Tensor scales;         // fp32 [blocks], or uint8 when nested; 8-bit: fp32 [out], largest magnitudes
  at::Tensor table;          // fp32 [16]; 8-bit: undefined
  at::Tensor nested_scales;  // fp32 [blocks / nested_block, rounded up]; undefined unless nested
  at::Tensor nested_table;   // fp32 [256]
  float nested_offset = 0;
  std::int64_t nested_block = 256;
  at::ScalarType source = at::kFloat;  // of the numbers that were quantised
  at::Tensor row_scales;               // 8-bit: fp32 [out], scales / 127: what a code is multiplied with

  Quantised to(at::Device device) const;  // itself where it is there
  std::int64_t bytes() const;  // codes, scales and what belongs to them; tables, shared by all, left out
  kernels::QuantisedView view() const;  // of CPU tensors; valid while this lives
};

// bytes() of a matrix [out, in] that is not quantised yet.
std::int64_t quantised_bytes(std::int64_t out, std::int64_t in, const QuantScheme& scheme);

// What the 16 codes stand for, fp32 [16]; the 256 of the dynamic map (8 bits, signed, 7 of the exponent).
at::Tensor code_table(QuantType type);
at::Tensor dynamic_table();

// w [out, in] of any float dtype. UserError that names `name` when a number is not finite.
Quantised quantise(const at::Tensor& w, const QuantScheme& scheme, const std::string& name);
// From parts as a file holds them; checks sizes and sets what derives from them. InternalError.
Quantised complete(Quantised parts);

// [out, in] in `dtype` (float32, bfloat16 or float16): code * scale in fp32, rounded once. Any device.
at::Tensor dequantise(const Quantised& matrix, at::ScalarType dtype);

}  // namespace hone::ops
