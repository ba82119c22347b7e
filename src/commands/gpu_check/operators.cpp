// The operators of the device's table, and products and attention with the shapes of real models.
#include <algorithm>
#include <initializer_list>

#include "base/process/process_memory.h"
#include "commands/gpu_check/stage.h"
#include "doctor/probes/machine/kernel_check.h"
#include "ops/cases/check.h"
#include "ops/cases/without.h"
#include "ops/machine/device_memory.h"

namespace hone::commands {

namespace {

using Names = std::initializer_list<std::string_view>;

// The cases of some operators; each runs twice and has to have the same bits.
void check_cases(const Names& operators, const StageInput& input, StageLog& log) {
  for (const std::string_view op : operators) {
    std::size_t failed = 0, cases = 0;
    for (const ops::cases::Case& one : ops::cases::cases_of(std::string(op))) {
      log.begin(std::string(op) + ", " + one.what);
      cases += 1;
      const std::string why = ops::cases::wrong_twice(one, input.device);
      if (why.empty()) continue;
      failed += 1;
      log.fail(why);
    }
    log.fact(std::string(op), std::to_string(cases - failed) + " of " + std::to_string(cases));
  }
  log.fact("table", ops::cases::table_name(input.device));
}

struct Shapes {
  const char* name;
  std::int64_t hidden, heads, kv_heads, head_dim, inner, vocabulary;
};
constexpr Shapes kModels[] = {{"0.5B", 896, 14, 2, 64, 4864, 151936},
                              {"1.5B", 1536, 12, 2, 128, 8960, 151936},
                              {"8B", 4096, 32, 8, 128, 12288, 151936}};

std::vector<doctor::KernelShape> shapes_of(const Shapes& model, bool bf16) {
  std::vector<doctor::KernelShape> out;
  const auto product = [&](const char* kind, std::int64_t m, std::int64_t in, std::int64_t wide, bool bias) {
    out.push_back({.kind = kind, .bf16 = bf16, .bias = bias, .m = m, .in = in, .out = wide, .rank = 16});
  };
  const std::int64_t query = model.heads * model.head_dim, key = model.kv_heads * model.head_dim;
  for (const std::int64_t m : {std::int64_t{512}, std::int64_t{1}, std::int64_t{33}}) {
    const char* const kind = m == 512 ? "gemm" : "decode";
    product(kind, m, model.hidden, query + 2 * key, true);
    product(kind, m, query, model.hidden, false);
    product(kind, m, model.hidden, 2 * model.inner, false);
    product(kind, m, model.inner, model.hidden, false);
  }
  out.push_back({.kind = "head", .bf16 = bf16, .m = 64, .in = model.hidden, .out = model.vocabulary});
  for (const char* const kind : {"attention", "cached"}) {
    out.push_back({.kind = kind,
                   .bf16 = bf16,
                   .heads = model.heads,
                   .kv_heads = model.kv_heads,
                   .head_dim = model.head_dim,
                   .segment = 512,
                   .prefix = 200});
  }
  return out;
}

}  // namespace

void stage_rows(const StageInput& input, StageLog& log) {
  check_cases({"rms_norm",        "rms_norm_backward",   "rms_norm_backward_cast",
               "norm_rope",       "norm_rope_backward",  "swiglu",
               "swiglu_backward", "sigmoid_gate",        "sigmoid_gate_backward",
               "soft_cap",        "soft_cap_backward",   "sum_routed_rows",
               "weigh_rows",      "weigh_rows_backward", "add_rows",
               "gather_rows",     "copy_blocks",         "draw_mask",
               "dropout",         "dropout_backward_add"},
              input, log);
}

void stage_sequences(const StageInput& input, StageLog& log) {
  check_cases({"short_conv", "short_conv_backward", "delta_rule", "delta_rule_step", "delta_rule_backward"},
              input, log);
}

void stage_attention(const StageInput& input, StageLog& log) {
  check_cases({"attend_packed", "attend_tiles", "attention_backward", "join_attention"}, input, log);
}

void stage_products(const StageInput& input, StageLog& log) {
  check_cases(
      {"gemms", "add_outers", "add_weight_gradient", "dequantize", "grouped_products", "grouped_outers"},
      input, log);
}

void stage_head(const StageInput& input, StageLog& log) {
  check_cases({"take_tile", "take_row", "finish", "tile_backward"}, input, log);
}

void stage_optimizer(const StageInput& input, StageLog& log) {
  check_cases({"adamw", "adamw_codes", "lion", "lion_codes", "block_sums_of_squares", "scale"}, input, log);
}

void stage_shapes(const StageInput& input, StageLog& log) {
  double worst = 0;
  std::string first_left_out;
  for (const Shapes& model : kModels) {
    for (const doctor::KernelShape& shape : shapes_of(model, /*bf16=*/true)) {
      const std::int64_t host = base::free_memory(), device = ops::device_memory(input.device).free;
      const bool fits = (host <= 0 || shape.bytes() * 2 < host) && (device <= 0 || shape.bytes() < device);
      if (!fits) {
        if (first_left_out.empty()) first_left_out = shape.describe();
        continue;
      }
      log.begin(std::string(model.name) + ", " + shape.describe());
      const doctor::KernelError found = doctor::check_kernel(shape, input.device);
      worst = std::max(worst, found.error);
      if (found.error <= found.bound) continue;
      log.fail("off by " + std::to_string(found.error) + " of the largest value, bound " +
               std::to_string(found.bound) + ": " + std::to_string(found.found) + " instead of " +
               std::to_string(found.expected));
    }
  }
  log.fact("largest difference", worst);
  if (!first_left_out.empty()) log.fact("left out for want of memory, from", first_left_out);
}

}  // namespace hone::commands
