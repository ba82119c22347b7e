#include "ops/cases/without.h"

#include "base/error.h"
#include "ops/backend/operators.h"

namespace hone::ops::cases {
namespace without_parts {

using backend::Operators;

struct Row {
  const char* name;
  bool (*has)(const Operators& table);
  void (*drop)(Operators& table);
};

template <auto Function>
constexpr Row row(const char* name) {
  return {name, [](const Operators& table) { return table.*Function != nullptr; },
          [](Operators& table) { table.*Function = nullptr; }};
}

// Those that compute something; tests/house/cases_test.py holds the list against operators.h.
constexpr Row kRows[] = {
    row<&Operators::rms_norm>("rms_norm"),
    row<&Operators::rms_norm_backward>("rms_norm_backward"),
    row<&Operators::rms_norm_backward_cast>("rms_norm_backward_cast"),
    row<&Operators::norm_rope>("norm_rope"),
    row<&Operators::norm_rope_backward>("norm_rope_backward"),
    row<&Operators::swiglu>("swiglu"),
    row<&Operators::swiglu_backward>("swiglu_backward"),
    row<&Operators::sigmoid_gate>("sigmoid_gate"),
    row<&Operators::sigmoid_gate_backward>("sigmoid_gate_backward"),
    row<&Operators::soft_cap>("soft_cap"),
    row<&Operators::soft_cap_backward>("soft_cap_backward"),
    row<&Operators::sum_routed_rows>("sum_routed_rows"),
    row<&Operators::weigh_rows>("weigh_rows"),
    row<&Operators::weigh_rows_backward>("weigh_rows_backward"),
    row<&Operators::add_rows>("add_rows"),
    row<&Operators::gather_rows>("gather_rows"),
    row<&Operators::copy_blocks>("copy_blocks"),
    row<&Operators::draw_mask>("draw_mask"),
    row<&Operators::dropout>("dropout"),
    row<&Operators::dropout_backward_add>("dropout_backward_add"),
    row<&Operators::short_conv>("short_conv"),
    row<&Operators::short_conv_backward>("short_conv_backward"),
    row<&Operators::delta_rule>("delta_rule"),
    row<&Operators::delta_rule_step>("delta_rule_step"),
    row<&Operators::delta_rule_backward>("delta_rule_backward"),
    row<&Operators::attend_packed>("attend_packed"),
    row<&Operators::attend_tiles>("attend_tiles"),
    row<&Operators::attention_backward>("attention_backward"),
    row<&Operators::join_attention>("join_attention"),
    row<&Operators::gemms>("gemms"),
    row<&Operators::add_outers>("add_outers"),
    row<&Operators::add_weight_gradient>("add_weight_gradient"),
    row<&Operators::dequantize>("dequantize"),
    row<&Operators::grouped_products>("grouped_products"),
    row<&Operators::grouped_outers>("grouped_outers"),
    row<&Operators::take_tile>("take_tile"),
    row<&Operators::take_row>("take_row"),
    row<&Operators::finish>("finish"),
    row<&Operators::tile_backward>("tile_backward"),
    row<&Operators::adamw>("adamw"),
    row<&Operators::adamw_codes>("adamw_codes"),
    row<&Operators::lion>("lion"),
    row<&Operators::lion_codes>("lion_codes"),
    row<&Operators::block_sums_of_squares>("block_sums_of_squares"),
    row<&Operators::scale>("scale"),
};

}  // namespace without_parts

struct Without::Tables {
  const backend::Operators* before;
  backend::Operators without;
};

std::string table_name(at::Device device) {
  return backend::operators_of(device).name;
}

std::vector<std::string> own_operators(at::Device device) {
  std::vector<std::string> out;
  for (const without_parts::Row& row : without_parts::kRows)
    if (row.has(backend::operators_of(device))) out.emplace_back(row.name);
  return out;
}

Without::Without(at::Device device, const std::string& name)
    : tables_(new Tables{&backend::operators_of(device), backend::operators_of(device)}),
      type_(device.type()) {
  bool found = false;
  for (const without_parts::Row& row : without_parts::kRows) {
    if (name != row.name) continue;
    row.drop(tables_->without);
    found = true;
  }
  base::require(found, "ops::cases::Without", "an operator of the table");
  backend::register_operators(type_, &tables_->without);
}

Without::~Without() {
  backend::register_operators(type_, tables_->before);
}

}  // namespace hone::ops::cases
