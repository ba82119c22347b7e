#include "ops/backend/cpu/cpu_operators.h"

namespace hone::ops::backend {

const Operators& cpu_operators() {
  static const Operators table = {.name = "cpu",
                                  .weights = &cpu::kPanels,
                                  .codes = &cpu::kPanelCodes,
                                  .keys_and_values = &cpu::kKvPairs,
                                  .rms_norm = cpu::rms_norm,
                                  .rms_norm_backward = cpu::rms_norm_backward,
                                  .norm_rope = cpu::norm_rope,
                                  .norm_rope_backward = cpu::norm_rope_backward,
                                  .swiglu = cpu::swiglu,
                                  .swiglu_backward = cpu::swiglu_backward,
                                  .sigmoid_gate = cpu::sigmoid_gate,
                                  .sigmoid_gate_backward = cpu::sigmoid_gate_backward,
                                  .soft_cap = cpu::soft_cap,
                                  .soft_cap_backward = cpu::soft_cap_backward,
                                  .sum_routed_rows = cpu::sum_routed_rows,
                                  .weigh_rows = cpu::weigh_rows,
                                  .weigh_rows_backward = cpu::weigh_rows_backward,
                                  .draw_mask = cpu::draw_mask,
                                  .dropout = cpu::dropout,
                                  .dropout_backward_add = cpu::dropout_backward_add,
                                  .short_conv = cpu::short_conv,
                                  .short_conv_backward = cpu::short_conv_backward,
                                  .delta_rule = cpu::delta_rule,
                                  .delta_rule_step = cpu::delta_rule_step,
                                  .delta_rule_backward = cpu::delta_rule_backward,
                                  .delta_rule_backward_bytes = cpu::delta_rule_backward_bytes,
                                  .attend_tiles = cpu::attend_tiles,
                                  .attention_backward = cpu::attention_backward,
                                  .attention_backward_bytes = cpu::attention_backward_bytes,
                                  .gemms = cpu::gemms,
                                  .add_outers = cpu::add_outers,
                                  .add_weight_gradient = cpu::add_weight_gradient,
                                  .dequantize = cpu::dequantize,
                                  .take_tile = cpu::take_tile,
                                  .take_row = cpu::take_row,
                                  .finish = cpu::finish,
                                  .tile_backward = cpu::tile_backward,
                                  .adamw = cpu::adamw,
                                  .block_sums_of_squares = cpu::block_sums_of_squares,
                                  .scale = cpu::scale,
                                  .keeps_ggml = true,
                                  .product_kernels = cpu::product_kernels,
                                  .product_limit = cpu::product_limit};
  return table;
}

}  // namespace hone::ops::backend
