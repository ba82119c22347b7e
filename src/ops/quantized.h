// Matrices of 4 and 8 bits per number, byte for byte as bitsandbytes 0.50 makes them on a CPU
// (functional.quantize_4bit and int8_vectorwise_quant; tested against tests/fixtures/parity/bnb.safetensors).
//
// 4-bit: the matrix flattened, in blocks of 64 consecutive numbers; a block's scale is its largest magnitude,
// a code is the nearest of 16 values in [-1, 1] to number / scale, two codes per byte, the first in the upper
// half. 4.5 bits per number. With double quantization the scales minus their mean become 8-bit codes of a
// dynamic map in blocks of 256, each with its own scale: 4.127 bits. 8-bit: each row's codes are round(127 *
// number / largest magnitude), of the numbers rounded to fp16. This is LLM.int8's weight format; activations
// are not quantized and there are no outlier columns, as in bitsandbytes' training on a CPU (MatMul8bitFp).
//
// The mean of the scales is libtorch's, on one thread: above 32,768 blocks the bytes of bitsandbytes itself
// depend on its number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hone::ops {
namespace backend {
struct CodeLayout;
}

// bitsandbytes' types; then ggml's, which are kept from a GGUF (ops/kept_ggml.h) in a backend's own order.
enum class QuantType { kNf4, kFp4, kInt8, kQ4_0, kQ5_0, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

constexpr bool is_ggml(QuantType type) {
  return type >= QuantType::kQ4_0;
}

struct QuantScheme {
  QuantType type = QuantType::kNf4;
  bool nested = false;  // double quantized; 4-bit only
  bool operator==(const QuantScheme&) const = default;
};

std::string describe(const QuantScheme& scheme);  // "4-bit nf4, double quantized", "8-bit", "GGUF Q4_K"

struct Quantized {
  QuantScheme scheme;
  std::int64_t out = 0, in = 0;
  std::int64_t block = 64;   // numbers per scale; 8-bit: in
  at::Tensor codes;          // uint8 [(out * in + 1) / 2]; 8-bit: int8 [out, in]
  at::Tensor scales;         // fp32 [blocks], or uint8 when nested; 8-bit: fp32 [out], largest magnitudes
  at::Tensor table;          // fp32 [16]; 8-bit: undefined
  at::Tensor nested_scales;  // fp32 [blocks / nested_block, rounded up]; undefined unless nested
  at::Tensor nested_table;   // fp32 [256]
  float nested_offset = 0;
  std::int64_t nested_block = 256;
  // fp32 [matrices]: of matrices of one shape, one below another, that have offsets of their own; else undefined.
  at::Tensor nested_offsets;
  // Null: the codes are in the order of files, rows. Else in a backend's own (ops/backend/layouts.h).
  const backend::CodeLayout* layout = nullptr;
  bool is_tame = false;  // of a backend's own order: products of few rows can rely on its numbers
  at::ScalarType source = at::kFloat;  // of the numbers that were quantized
  at::Tensor row_scales;               // 8-bit: fp32 [out], scales / 127: the factor of a code

  Quantized to(at::Device device) const;  // itself if it is there already
  std::int64_t bytes() const;             // of codes and scales, without the tables, which all matrices share
};

// bytes() that a matrix [out, in] will have once it is quantized.
std::int64_t quantized_bytes(std::int64_t out, std::int64_t in, const QuantScheme& scheme);

// The values of the 16 codes, fp32 [16]; the 256 values of the dynamic map (8 bits, signed, 7 for the
// exponent).
at::Tensor code_table(QuantType type);
at::Tensor dynamic_table();

// w [out, in] of any float dtype. UserError that names `name` when a number is not finite.
Quantized quantize(const at::Tensor& w, const QuantScheme& scheme, const std::string& name);
// From parts as stored in a file; checks their sizes (InternalError) and sets the derived fields.
Quantized complete(Quantized parts);

// In the order of files; not of ggml's types.
Quantized in_rows(const Quantized& matrix);

// Matrices of one shape and scheme one below another, [sum of out, in]: their memory is moved into its own, and they become parts
// of it. Null, and nothing happens: they are in a backend's own order, or their blocks do not end where they do.
std::shared_ptr<const Quantized> one_below_another(std::vector<Quantized>& matrices);

// [out, in] in `dtype` (float32, bfloat16 or float16): code * scale in fp32, rounded once. Any device.
at::Tensor dequantize(const Quantized& matrix, at::ScalarType dtype);

}  // namespace hone::ops
