#include "model/files/bnb_files.h"

#include <ATen/ATen.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/process/process_memory.h"
#include "base/strings/utf8.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;
using ops::QuantType;

constexpr const char* kState = ".quant_state.bitsandbytes__";
constexpr const char* kAbsmax = ".absmax";
constexpr const char* kMap = ".quant_map";
constexpr const char* kNestedAbsmax = ".nested_absmax";
constexpr const char* kNestedMap = ".nested_quant_map";
constexpr const char* kWeight = ".weight";
constexpr const char* kScb = ".SCB";
constexpr const char* kFormat = ".weight_format";

const char* type_name(QuantType type) {
  return type == QuantType::kFp4 ? "fp4" : "nf4";
}

[[noreturn]] void throw_damaged(const std::string& where, const std::string& name,
                                const std::string& expected, const std::string& found) {
  throw UserError({where + ": " + base::cut_text(name, 200), expected, base::cut_text(found, 200),
                   "the file is damaged, or was not written by bitsandbytes",
                   "download the model again, or use the unquantized one"});
}

std::string module_of(const std::string& weight) {
  return weight.substr(0, weight.size() - std::strlen(kWeight));
}

// Numbers a scale: bitsandbytes has the powers of two from 32 to 4096.
std::int64_t block_size(const Json& state, const char* key, const std::string& where,
                        const std::string& name) {
  const auto it = state.find(key);
  const bool whole = it != state.end() && it->is_number_unsigned();
  const std::uint64_t size = whole ? it->get<std::uint64_t>() : 0;
  if (!std::has_single_bit(size) || size < 32 || size > 4096) {
    throw_damaged(where, name, std::string("a power of two from 32 to 4096 as ") + key,
                  it == state.end() ? "none" : base::dump_json(*it));
  }
  return static_cast<std::int64_t>(size);
}

// The numbers of a matrix that some file says it holds; 0 where 64 bits do not hold them, or there are none.
std::int64_t numbers_of(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 0;
  const bool fits = shape.size() == 2 && shape[0] > 0 && shape[1] > 0 &&
                    !__builtin_mul_overflow(shape[0], shape[1], &n) && n < (std::int64_t{1} << 60);
  return fits ? n : 0;
}

// `codes` is the matrix that the state is of: its bytes bound what the state may say.
BnbMatrix parse_state(const base::StoredTensor& stored, const base::StoredTensor& codes, QuantType type,
                      const std::string& where) {
  const std::string text(reinterpret_cast<const char*>(stored.bytes.data()), stored.bytes.size());
  const Json state = base::parse_json(text, where + ": " + stored.name);
  if (!state.is_object()) throw_damaged(where, stored.name, "a JSON object", text);
  BnbMatrix out;
  out.scheme = {.type = type, .nested = state.contains("nested_offset")};
  out.block = block_size(state, "blocksize", where, stored.name);
  const auto shape = state.find("shape");
  if (shape == state.end() || !shape->is_array() || shape->size() != 2 || !(*shape)[0].is_number_integer() ||
      !(*shape)[1].is_number_integer()) {
    throw_damaged(where, stored.name, "the shape of a matrix",
                  shape == state.end() ? "none" : base::dump_json(*shape));
  }
  out.shape = {(*shape)[0].get<std::int64_t>(), (*shape)[1].get<std::int64_t>()};
  const std::int64_t n = numbers_of(out.shape);
  if (n == 0) throw_damaged(where, stored.name, "the shape of a matrix", base::dump_json(*shape));
  if (const auto needed = static_cast<std::size_t>((n + 1) / 2); codes.bytes.size() != needed) {
    throw_damaged(where, codes.name,
                  std::to_string(needed) + " bytes for the shape " + base::dump_json(*shape),
                  std::to_string(codes.bytes.size()));
  }
  const Json named = state.value("dtype", Json("float32"));
  const std::string dtype = named.is_string() ? named.get<std::string>() : "float32";
  out.source = dtype == "bfloat16" ? at::kBFloat16 : dtype == "float16" ? at::kHalf : at::kFloat;
  if (out.scheme.nested) {
    out.nested_block = block_size(state, "nested_blocksize", where, stored.name);
    if (!state["nested_offset"].is_number()) {
      throw_damaged(where, stored.name, "a number as nested_offset", base::dump_json(state["nested_offset"]));
    }
    const auto offset = state["nested_offset"].get<double>();
    if (!(std::abs(offset) <= std::numeric_limits<float>::max())) {
      throw_damaged(where, stored.name, "a number of fp32 as nested_offset", base::dump_json(offset));
    }
    out.nested_offset = static_cast<float>(offset);
  }
  return out;
}

// `count` elements of a part in memory of our own.
at::Tensor read_part(const TensorTable& tensors, const std::string& name, at::ScalarType dtype,
                     std::int64_t count, const std::string& where) {
  const auto it = tensors.find(name);
  if (it == tensors.end()) throw_damaged(where, name, "this part of a quantized matrix", "no such tensor");
  const std::span<const std::byte> bytes = it->second->bytes;
  const auto wanted = static_cast<std::size_t>(count) * c10::elementSize(dtype);
  if (bytes.size() != wanted) {
    throw_damaged(where, name, std::to_string(wanted) + " bytes", std::to_string(bytes.size()));
  }
  at::Tensor out = at::empty({count}, dtype);
  std::memcpy(out.mutable_data_ptr(), bytes.data(), bytes.size());
  base::release_pages(bytes);
  return out;
}

// As Python's json.dumps, with its blanks, and in the order of QuantState.as_dict.
std::string state_text(const ops::Quantized& matrix) {
  const auto number = [](double value) { return base::dump_json(Json(value)); };
  const std::string dtype = matrix.source == at::kBFloat16 ? "bfloat16"
                            : matrix.source == at::kHalf   ? "float16"
                                                           : "float32";
  std::string out = std::string("{\"quant_type\": \"") + type_name(matrix.scheme.type) +
                    "\", \"blocksize\": " + std::to_string(matrix.block) + ", \"dtype\": \"" + dtype +
                    "\", \"shape\": [" + std::to_string(matrix.out) + ", " + std::to_string(matrix.in) + "]";
  if (matrix.scheme.nested) {
    out += ", \"nested_blocksize\": " + std::to_string(matrix.nested_block) +
           ", \"nested_dtype\": \"float32\", \"nested_offset\": " + number(matrix.nested_offset);
  }
  return out + "}";
}

at::Tensor bytes_of(const std::string& text) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(out.mutable_data_ptr(), text.data(), text.size());
  return out;
}

}  // namespace

std::map<std::string, BnbMatrix> find_bnb_matrices(const TensorTable& tensors, const std::string& where) {
  std::map<std::string, BnbMatrix> found;
  for (const auto& [name, stored] : tensors) {
    if (!name.ends_with(kWeight)) continue;
    for (const QuantType type : {QuantType::kNf4, QuantType::kFp4}) {
      const auto state = tensors.find(name + kState + type_name(type));
      if (state != tensors.end()) found[name] = parse_state(*state->second, *stored, type, where);
    }
    if (stored->dtype != base::DType::kI8 || !tensors.contains(module_of(name) + kScb)) continue;
    if (numbers_of(stored->shape) == 0) throw_damaged(where, name, "a matrix", "another shape");
    const auto format = tensors.find(module_of(name) + kFormat);
    const bool by_rows = format == tensors.end() ||
                         (!format->second->bytes.empty() && format->second->bytes[0] == std::byte{0});
    if (!by_rows) throw_damaged(where, name, "8-bit codes row by row", "the layout of a GPU kernel");
    found[name] = {.scheme = {.type = QuantType::kInt8}, .shape = stored->shape, .source = at::kHalf};
  }
  return found;
}

bool is_bnb_part(const std::string& name, const std::map<std::string, BnbMatrix>& matrices) {
  for (const char* suffix : {kAbsmax, kMap, kNestedAbsmax, kNestedMap}) {
    if (name.ends_with(suffix) && matrices.contains(name.substr(0, name.size() - std::strlen(suffix))))
      return true;
  }
  const std::size_t state = name.find(kState);
  if (state != std::string::npos) return matrices.contains(name.substr(0, state));
  for (const char* suffix : {kScb, kFormat}) {
    if (name.ends_with(suffix) &&
        matrices.contains(name.substr(0, name.size() - std::strlen(suffix)) + kWeight)) {
      return true;
    }
  }
  return false;
}

ops::Quantized read_bnb_matrix(const TensorTable& tensors, const std::string& name, const BnbMatrix& matrix,
                               const std::string& where) {
  ops::Quantized out;
  out.scheme = matrix.scheme;
  out.out = matrix.shape[0];
  out.in = matrix.shape[1];
  out.block = matrix.block;
  out.nested_block = matrix.nested_block;
  out.nested_offset = matrix.nested_offset;
  out.source = matrix.source;
  const std::int64_t n = out.out * out.in;
  const auto part = [&](const std::string& of, at::ScalarType dtype, std::int64_t count) {
    return read_part(tensors, of, dtype, count, where);
  };
  if (matrix.scheme.type == QuantType::kInt8) {
    out.codes = part(name, at::kChar, n);
    out.scales = part(module_of(name) + kScb, at::kFloat, out.out);
    return ops::complete(std::move(out));
  }
  const std::int64_t blocks = (n + out.block - 1) / out.block;
  out.codes = part(name, at::kByte, (n + 1) / 2);
  out.scales = part(name + kAbsmax, out.scheme.nested ? at::kByte : at::kFloat, blocks);
  out.table = part(name + kMap, at::kFloat, 16);
  if (out.scheme.nested) {
    out.nested_scales =
        part(name + kNestedAbsmax, at::kFloat, (blocks + out.nested_block - 1) / out.nested_block);
    out.nested_table = part(name + kNestedMap, at::kFloat, 256);
  }
  return ops::complete(std::move(out));
}

std::vector<std::string> bnb_tensor_names(const ops::QuantScheme& scheme, const std::string& name) {
  if (scheme.type == QuantType::kInt8) return {name, module_of(name) + kScb, module_of(name) + kFormat};
  std::vector<std::string> names = {name, name + kAbsmax, name + kMap};
  if (scheme.nested) {
    names.push_back(name + kNestedAbsmax);
    names.push_back(name + kNestedMap);
  }
  names.push_back(name + kState + type_name(scheme.type));
  return names;
}

std::vector<std::pair<std::string, at::Tensor>> bnb_tensors(const ops::Quantized& held,
                                                            const std::string& name) {
  const ops::Quantized matrix = ops::in_rows(held);
  std::vector<at::Tensor> parts;
  if (matrix.scheme.type == QuantType::kInt8) {
    parts = {matrix.codes, matrix.scales, at::zeros({}, at::kByte)};
  } else {
    parts = {matrix.codes.view({-1, 1}), matrix.scales, matrix.table};
    if (matrix.scheme.nested) {
      parts.push_back(matrix.nested_scales);
      parts.push_back(matrix.nested_table);
    }
    parts.push_back(bytes_of(state_text(matrix)));
  }
  const std::vector<std::string> names = bnb_tensor_names(matrix.scheme, name);
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (std::size_t i = 0; i < names.size(); ++i) out.emplace_back(names[i], parts[i]);
  return out;
}

base::Json quantization_config(const ops::QuantScheme& scheme, at::ScalarType compute) {
  const bool int8 = scheme.type == QuantType::kInt8;
  return {{"_load_in_4bit", !int8},
          {"_load_in_8bit", int8},
          {"bnb_4bit_compute_dtype", compute == at::kBFloat16 ? "bfloat16" : "float32"},
          {"bnb_4bit_quant_storage", "uint8"},
          {"bnb_4bit_quant_type", type_name(scheme.type)},
          {"bnb_4bit_use_double_quant", scheme.nested},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_skip_modules", nullptr},
          {"llm_int8_threshold", 6.0},
          {"load_in_4bit", !int8},
          {"load_in_8bit", int8},
          {"quant_method", "bitsandbytes"}};
}

}  // namespace hone::model
