#include "ops/backend/cuda.h"
#include "ops/backend/cuda/cuda_operators.h"
#include "ops/machine/cuda.h"

namespace hone::ops::backend {
namespace {

const KvLayout kPooledKeys = {.is_pooled = true};

}  // namespace

const Operators& cuda_operators() {
  // The plan of the head's memory counts what the reference holds where there is no take_tile. Without copy_blocks nobody gathers
  // blocks.
  static const bool has_own = own_kernels_missing().empty();
  static const Operators table = {
      .name = "cuda",
      .keys_and_values = &kPooledKeys,
      .rms_norm = cuda::rms_norm,
      .rms_norm_backward = cuda::rms_norm_backward,
      .rms_norm_backward_cast = cuda::rms_norm_backward_cast,
      .norm_rope = cuda::norm_rope,
      .norm_rope_backward = cuda::norm_rope_backward,
      .swiglu = cuda::swiglu,
      .swiglu_backward = cuda::swiglu_backward,
      .sum_routed_rows = cuda::sum_routed_rows,
      .weigh_rows = cuda::weigh_rows,
      .weigh_rows_backward = cuda::weigh_rows_backward,
      .add_rows = cuda::add_rows,
      .gather_rows = cuda::gather_rows,
      .copy_blocks = has_own ? cuda::copy_blocks : nullptr,
      .dropout = cuda::dropout,
      .dropout_backward_add = cuda::dropout_backward_add,
      .attend_packed = cuda::attend_packed,
      .attend_tiles = cuda::attend_tiles,
      .attention_backward = cuda::attention_backward,
      .log_sums_by_head = true,
      .attention_backward_bytes = cuda::attention_backward_bytes,
      .join_attention = cuda::join_attention,
      .gemms = cuda::gemms,
      .add_outers = cuda::add_outers,
      .dequantize = cuda::dequantize,
      .group_multiple = cuda::group_multiple,
      .grouped_products = cuda::grouped_products,
      .grouped_outers = cuda::grouped_outers,
      .take_tile = has_own ? cuda::take_tile : nullptr,
      .take_row = has_own ? cuda::take_row : nullptr,
      .tile_backward = has_own ? cuda::tile_backward : nullptr,
      .adamw = cuda::adamw,
      .adamw_codes = cuda::adamw_codes,
      .lion = cuda::lion,
      .lion_codes = cuda::lion_codes,
      .block_sums_of_squares = cuda::block_sums_of_squares,
      .scale = cuda::scale,
      .roundings = 2,
      .keeps_ggml = has_own,
      .joins_linears = true,
      .head_rows = 8192,
      .head_columns = 16384,
      .norm_rows = 8192,
  };
  return table;
}

}  // namespace hone::ops::backend
