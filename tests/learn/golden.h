// The recorded numbers of tests/parity/record_learn.py, as tensors.
#pragma once

#include <ATen/ATen.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace hone::learn::test {

inline const nlohmann::json& golden() {
  static const nlohmann::json value = [] {
    std::ifstream file(HONE_FIXTURES "/learn/learn.json");
    return nlohmann::json::parse(file);
  }();
  return value;
}

// A list of numbers as a 1-d fp32 tensor, or a list of equal lists as a 2-d one.
inline at::Tensor tensor_of(const nlohmann::json& value) {
  std::vector<at::Tensor> rows;
  if (!value.empty() && value[0].is_array()) {
    for (const auto& row : value) rows.push_back(tensor_of(row));
    return at::stack(rows);
  }
  const auto numbers = value.get<std::vector<double>>();
  at::Tensor out = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kFloat);
  auto* data = static_cast<float*>(out.data_ptr());
  for (std::size_t i = 0; i < numbers.size(); ++i) data[i] = static_cast<float>(numbers[i]);
  return out;
}

// The largest |a - b| / max(|b|, floor).
inline double worst_relative(const at::Tensor& a, const at::Tensor& b, double floor = 1e-6) {
  const at::Tensor x = a.to(at::kDouble);
  const at::Tensor y = b.to(at::kDouble);
  return ((x - y).abs() / y.abs().clamp_min(floor)).max().item<double>();
}

}  // namespace hone::learn::test
