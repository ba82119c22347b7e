// Goldens and how near we came to them. A tensor's error is max |ours - theirs| / max |theirs|; the worst of
// a test is printed as a share of its bound, so that a drift is seen long before it fails.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "adapters/lora.h"
#include "base/files/safetensors.h"
#include "data/records/record.h"
#include "model/causal_lm.h"

namespace hone::parity {

class Golden {
 public:
  explicit Golden(const base::fs::path& path) : file_(base::SafetensorsFile::open(path)) {}
  // A copy; fails the test when absent. Of a gradient with few rows that are not zero, `<name>.rows` says how many rows it
  // has, and which are stored (common.py: rows_of_gradients).
  at::Tensor tensor(const std::string& name) const;
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  const base::SafetensorsFile& file() const { return file_; }

 private:
  base::SafetensorsFile file_;
};

// Collects errors of one test against one bound.
class Margin {
 public:
  Margin(std::string what, double bound) : what_(std::move(what)), bound_(bound) {}
  Margin(const Margin&) = delete;
  Margin& operator=(const Margin&) = delete;
  ~Margin();  // prints "[margin] what: worst 3.1e-07 at name, 0.3 % of 1e-4, over 42 comparisons"

  void compare(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs);
  void compare(const std::string& name, double ours, double theirs);  // relative; absolute below 1e-6
  void note(const std::string& name, double error);

 private:
  std::string what_;
  double bound_;
  double worst_ = 0;
  std::string worst_name_ = "nothing";
  int count_ = 0;
};

// The deterministic adapter of SmolLM2's goldens (common.rule_tensor), r 8, alpha 16, all-linear:
// A[i,j] = 0.02 sin(0.37 k + 0.11 i + 0.013 j), B the same with cos; k the linear's index in model order.
adapters::Adapter attach_rule_adapter(model::CausalLm& model);

// SmolLM2's GGUF, or an empty path when nothing fetched it.
base::fs::path smollm2_gguf();

// One sequence as a batch: labels as given, the first never a target.
data::Batch single(const at::Tensor& ids, const at::Tensor& labels);
// Several sequences end to end.
data::Batch concat(const std::vector<data::Batch>& parts);

}  // namespace hone::parity
