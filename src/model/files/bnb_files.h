// bitsandbytes' matrices in transformers' files: the tensors of each, and quantization_config.
//
// A 4-bit matrix X: X (codes, any container type, [(n + 1) / 2, 1] as bytes), X.absmax, X.quant_map, when
// double quantized X.nested_absmax and X.nested_quant_map, and X.quant_state.bitsandbytes__nf4 or __fp4: JSON
// as bytes (bitsandbytes 0.50 functional.QuantState.as_dict). An 8-bit one, Y.weight: int8 codes, Y.SCB,
// Y.weight_format.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/files/safetensors.h"
#include "base/json.h"
#include "ops/quantized.h"

namespace hone::model {

// A matrix in a file; `scheme`, `shape` and `source` are known before it is read.
struct BnbMatrix {
  ops::QuantScheme scheme;
  std::vector<std::int64_t> shape;
  std::int64_t block = 64, nested_block = 256;
  float nested_offset = 0;
  at::ScalarType source = at::kFloat;
};

using TensorTable = std::map<std::string, const base::StoredTensor*>;

// Every quantized matrix of a file's tensors, by the name of its codes. UserError that names file and tensor
// for a damaged state, or a format that bitsandbytes does not write.
std::map<std::string, BnbMatrix> find_bnb_matrices(const TensorTable& tensors, const std::string& where);
// Returns whether `name` is a part of one of them other than its codes.
bool is_bnb_part(const std::string& name, const std::map<std::string, BnbMatrix>& matrices);
ops::Quantized read_bnb_matrix(const TensorTable& tensors, const std::string& name, const BnbMatrix& matrix,
                               const std::string& where);

// The tensors that hold `matrix` under the name of its weight, codes first. `state` is uint8.
std::vector<std::pair<std::string, at::Tensor>> bnb_tensors(const ops::Quantized& matrix,
                                                            const std::string& name);
// Their names, without the matrix.
std::vector<std::string> bnb_tensor_names(const ops::QuantScheme& scheme, const std::string& name);
base::Json quantization_config(const ops::QuantScheme& scheme, at::ScalarType compute);

}  // namespace hone::model
