#include "train/facts/product_facts.h"

#include <algorithm>

#include "base/process/instruction_level.h"
#include "ops/machine/device_memory.h"
#include "ops/machine/product_rates.h"

namespace hone::train {

namespace {

// Of a small model: a rate needs a few milliseconds, and a run of a second should not wait longer for it.
constexpr double kSecondsPerParameter = 2e-10, kLeast = 0.003, kMost = 0.1;
constexpr std::int64_t kRows = 256, kColumns = 1152;

ops::ProductShape shape_of(const model::CausalLm& model) {
  return {.rows = kRows, .in = model.config().hidden_size, .out = kColumns};
}

const char* precision_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? "float32" : "bf16";
}

}  // namespace

ProductFacts product_facts(const model::CausalLm& model) {
  ProductFacts out;
  if (!ops::is_host(model.device())) return out;
  const at::ScalarType own = model.dtypes().linear;
  const at::ScalarType other = own == at::kFloat ? at::kBFloat16 : at::kFloat;
  const double seconds =
      std::clamp(kSecondsPerParameter * static_cast<double>(model.parameter_count()), kLeast, kMost);
  const ops::ProductRate rate = ops::measure_products(own, shape_of(model), seconds);
  out.kernels = rate.kernels;
  out.precision = precision_of(own);
  out.gflops = rate.gflops;
  out.limit = rate.limit;
  out.other_precision = precision_of(other);
  out.other_gflops = ops::product_gflops(other, shape_of(model), seconds);
  out.seconds = seconds;
  if (base::is_held_to_a_level()) out.held_to = base::name_of(base::instruction_level());
  return out;
}

double product_gflops(const model::CausalLm& model, double seconds) {
  return ops::product_gflops(model.dtypes().linear, shape_of(model), seconds);
}

}  // namespace hone::train
