// One measured call of an operator, with what it must at least do counted by hand.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/config/model_config.h"
#include "ops/linear.h"

namespace hone::bench {

struct Case {
  double flop = 0;   // of matrix products
  double bytes = 0;  // read and written once, where they come from memory
  std::function<void()> run;
  std::function<void()> prepare;  // before each repetition, not timed; may be empty
};

// Cases are made one at a time, so that only one holds memory.
struct Entry {
  std::string name;
  std::function<Case()> make;
};

// Sizes of the measured model and pass.
struct OpsShape {
  model::ModelConfig config;
  std::int64_t tokens = 1024;  // of a training pass
  std::int64_t length = 256;   // of each sequence in it
  std::int64_t rank = 16;
};

std::vector<Entry> product_entries(const OpsShape& shape);
std::vector<Entry> attention_entries(const OpsShape& shape);
std::vector<Entry> fused_entries(const OpsShape& shape);
std::vector<Entry> head_entries(const OpsShape& shape);

at::Tensor random_bf16(const std::vector<std::int64_t>& sizes);

}  // namespace hone::bench
