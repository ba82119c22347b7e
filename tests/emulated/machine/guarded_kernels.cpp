#include "emulated/machine/guarded_kernels.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "emulated/machine/guarded_memory.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::emulated {
namespace {

namespace kernels = ops::cuda::kernels;

const Kernels* inner = nullptr;
Opener opener = nullptr;
std::int64_t calls = 0;

std::map<std::string, std::int64_t>& calls_by_name() {
  static std::map<std::string, std::int64_t> all;
  return all;
}

// A function of the table; its name is what the compiler says of the pointer to it, "&...::Kernels::dropout; ...".
template <auto Function>
struct Counted {
  static std::string name() {
    const std::string_view said = __PRETTY_FUNCTION__;
    const std::size_t begin = said.rfind("Kernels::") + std::string_view("Kernels::").size();
    return std::string(said.substr(begin, said.find_first_of(";]", begin) - begin));
  }
  static inline std::int64_t& calls = calls_by_name()[name()];
};

std::int64_t bytes_of(kernels::Dtype dtype) {
  return dtype == kernels::Dtype::kFloat ? 4 : 2;
}

// Moves the tensors of a call.
class Mover {
 public:
  explicit Mover(GuardedMemory& memory) : memory_(memory) {}

  void rows(kernels::Rows& x, std::int64_t count, std::int64_t width, Access access, const char* name) {
    const std::int64_t bytes = bytes_of(x.dtype);
    x.data = memory_.take(
        x.data, {.outer = count, .outer_bytes = x.stride * bytes, .row_bytes = width * bytes}, access, name);
  }
  void heads(kernels::Heads& x, std::int64_t tokens, std::int64_t heads, std::int64_t dim, Access access,
             const char* name) {
    const std::int64_t bytes = bytes_of(x.dtype);
    x.data = memory_.take(x.data,
                          {.outer = tokens,
                           .outer_bytes = x.token_stride * bytes,
                           .inner = heads,
                           .inner_bytes = x.head_stride * bytes,
                           .row_bytes = dim * bytes},
                          access, name);
  }
  void head_numbers(kernels::HeadNumbers& x, std::int64_t tokens, std::int64_t heads, Access access,
                    const char* name) {
    constexpr std::int64_t kBytes = sizeof(float);
    if (x.data == nullptr) return;
    x.data = static_cast<float*>(memory_.take(x.data,
                                              {.outer = tokens,
                                               .outer_bytes = x.token_stride * kBytes,
                                               .inner = heads,
                                               .inner_bytes = x.head_stride * kBytes,
                                               .row_bytes = kBytes},
                                              access, name));
  }
  void dense(const void*& data, std::int64_t bytes, const char* name) {
    if (data == nullptr) return;
    data = memory_.take(const_cast<void*>(data), {.outer = 1, .row_bytes = bytes}, Access::kRead, name);
  }
  void written(void*& data, std::int64_t bytes, const char* name) {
    data = memory_.take(data, {.outer = 1, .row_bytes = bytes}, Access::kWritten, name);
  }
  void vector(kernels::Vector& x, std::int64_t width, const char* name) {
    dense(x.data, width * bytes_of(x.dtype), name);
  }
  template <typename T>
  void numbers(T*& x, std::int64_t count, const char* name) {
    if (x == nullptr) return;
    const auto bytes = count * static_cast<std::int64_t>(sizeof(T));
    x = static_cast<T*>(memory_.take(const_cast<std::remove_const_t<T>*>(x), {.outer = 1, .row_bytes = bytes},
                                     std::is_const_v<T> ? Access::kRead : Access::kWritten, name));
  }

 private:
  GuardedMemory& memory_;
};

void move(kernels::Dropout& x, Mover& to) {
  to.rows(x.out, x.tokens, x.features, Access::kWritten, "out");
  to.rows(x.x, x.tokens, x.features, Access::kRead, "x");
  to.numbers(x.rows, x.tokens, "rows");
  to.numbers(x.positions, x.tokens, "positions");
}

void move(kernels::RmsNorm& x, Mover& to) {
  to.rows(x.out, x.tokens, x.width, Access::kWritten, "out");
  to.rows(x.x, x.tokens, x.width, Access::kRead, "x");
  to.vector(x.weight, x.width, "weight");
}

void move(kernels::RmsNormBackward& x, Mover& to) {
  to.rows(x.dx, x.tokens, x.width, Access::kWritten, "dx");
  if (x.cast.data != nullptr) to.rows(x.cast, x.tokens, x.width, Access::kWritten, "cast");
  to.rows(x.dy, x.tokens, x.width, Access::kRead, "dy");
  to.rows(x.x, x.tokens, x.width, Access::kRead, "x");
  to.vector(x.weight, x.width, "weight");
}

void move(kernels::NormRope& x, Mover& to) {
  to.heads(x.out, x.tokens, x.heads, x.dim, Access::kWritten, "out");
  to.heads(x.x, x.tokens, x.heads, x.dim, Access::kRead, "x");
  to.vector(x.weight, x.dim, "weight");
  to.vector(x.cos, x.tokens * x.rotated, "cos");
  to.vector(x.sin, x.tokens * x.rotated, "sin");
}

void move(kernels::Swiglu& x, Mover& to) {
  to.rows(x.out, x.tokens, x.width, Access::kWritten, "out");
  to.rows(x.gate, x.tokens, x.width, Access::kRead, "gate");
  to.rows(x.up, x.tokens, x.width, Access::kRead, "up");
}

void move(kernels::SwigluBackward& x, Mover& to) {
  to.rows(x.gate, x.tokens, x.width, Access::kWritten, "gate");
  to.rows(x.up, x.tokens, x.width, Access::kWritten, "up");
  to.rows(x.d, x.tokens, x.width, Access::kRead, "d");
}

void move(kernels::SoftmaxTile& x, Mover& to) {
  to.rows(x.logits, x.tokens, x.width, Access::kRead, "logits");
  if (x.probabilities.data != nullptr)
    to.rows(x.probabilities, x.tokens, x.width, Access::kWritten, "probabilities");
  if (x.accumulator.data != nullptr)
    to.rows(x.accumulator, x.tokens, x.hidden, Access::kWritten, "accumulator");
  to.numbers(x.targets, x.tokens, "targets");
  to.numbers(x.first, x.tokens, "first");
  to.numbers(x.peak, x.tokens, "peak");
  to.numbers(x.target, x.tokens, "target");
  to.numbers(x.sum, x.tokens, "sum");
  to.numbers(x.dot, x.tokens, "dot");
  to.numbers(x.squares, x.tokens, "squares");
}

void move(kernels::SoftmaxBackward& x, Mover& to) {
  to.rows(x.out, x.tokens, x.width, Access::kWritten, "out");
  to.rows(x.logits, x.tokens, x.width, Access::kRead, "logits");
  to.numbers(x.targets, x.tokens, "targets");
  to.numbers(x.log_sum, x.tokens, "log_sum");
  to.numbers(x.upstream, x.tokens, "upstream");
}

void move(kernels::Adamw& x, Mover& to) {
  to.numbers(x.p, x.size, "p");
  to.numbers(x.g, x.size, "g");
  to.numbers(x.m, x.size, "m");
  to.numbers(x.v, x.size, "v");
}

void move(kernels::SquareSums& x, Mover& to) {
  to.numbers(x.sums, (x.size + kernels::kSquaresBlock - 1) / kernels::kSquaresBlock, "sums");
  to.numbers(x.x, x.size, "x");
}

void move(kernels::Scale& x, Mover& to) {
  to.numbers(x.x, x.size, "x");
}

void move(kernels::Dequantize& x, Mover& to) {
  const std::int64_t numbers = x.rows * x.in, blocks = (numbers + x.block - 1) / x.block;
  const bool is_narrow = x.table != nullptr, nested = x.scale_codes != nullptr;
  to.rows(x.out, x.rows, x.in, Access::kWritten, "out");
  to.dense(x.codes, is_narrow ? (numbers + 1) / 2 : numbers, "codes");
  to.numbers(x.table, 16, "table");
  to.numbers(x.scales,
             !is_narrow ? x.rows
             : nested   ? (blocks + x.nested_block - 1) / x.nested_block
                        : blocks,
             "scales");
  to.numbers(x.scale_codes, blocks, "scale_codes");
  to.numbers(x.scale_table, 256, "scale_table");
  to.numbers(x.offsets, blocks / x.blocks_of_matrix, "offsets");
}

void move(kernels::DequantizePanels& x, Mover& to) {
  const std::int64_t numbers = x.rows * x.in, of_line = x.has_minimum ? 2 : 1;
  to.rows(x.out, x.rows, x.in, Access::kWritten, "out");
  to.numbers(x.low, x.bits == 8 ? numbers : numbers / 2, "low");
  if (x.bits == 5 || x.bits == 6) to.numbers(x.high, numbers * (x.bits - 4) / 8, "high");
  to.numbers(x.halves, numbers / x.block * 2 * of_line, "halves");
  to.numbers(x.factors, numbers / x.group * of_line, "factors");
}

void move(kernels::AddRows& x, Mover& to) {
  const std::int64_t added = x.starts[x.groups];
  to.rows(x.out, *std::max_element(x.rows, x.rows + x.groups) + 1, x.width, Access::kWritten, "out");
  to.rows(x.d, *std::max_element(x.from, x.from + added) + 1, x.width, Access::kRead, "d");
  to.numbers(x.rows, x.groups, "rows");
  to.numbers(x.starts, x.groups + 1, "starts");
  to.numbers(x.from, added, "from");
}

void move(kernels::CopyBlocks& x, Mover& to) {
  for (int i = 0; i < x.count; ++i) {
    kernels::BlockCopy& one = x.blocks[i];
    to.rows(one.out, one.rows, one.columns, Access::kWritten, "out");
    to.rows(one.x, one.transposed ? one.columns : one.rows, one.transposed ? one.rows : one.columns,
            Access::kRead, "x");
  }
}

void move(kernels::JoinAttention& x, Mover& to) {
  to.heads(x.out, x.all_tokens, x.heads, x.dim, Access::kWritten, "out");
  to.heads(x.own, x.all_tokens, x.heads, x.dim, Access::kRead, "own");
  to.heads(x.part, x.tokens, x.heads, x.dim, Access::kRead, "part");
  to.head_numbers(x.own_lse, x.all_tokens, x.heads, Access::kRead, "own_lse");
  to.head_numbers(x.part_lse, x.tokens, x.heads, Access::kRead, "part_lse");
  to.head_numbers(x.lse, x.all_tokens, x.heads, Access::kWritten, "lse");
  to.numbers(x.rows, x.tokens, "rows");
}

void move_moment(kernels::CodedMoment& one, std::int64_t size, Mover& to) {
  to.numbers(one.codes, size, "codes");
  to.numbers(one.scales, (size + kernels::kCodeBlock - 1) / kernels::kCodeBlock, "scales");
  to.numbers(one.values, 256, "values");
  to.numbers(one.places, 65536, "places");
}

void move(kernels::AdamwCodes& x, Mover& to) {
  to.numbers(x.p, x.size, "p");
  to.numbers(x.g, x.size, "g");
  move_moment(x.first, x.size, to);
  move_moment(x.second, x.size, to);
}

void move(kernels::Lion& x, Mover& to) {
  to.numbers(x.p, x.size, "p");
  to.numbers(x.g, x.size, "g");
  to.numbers(x.m, x.size, "m");
}

void move(kernels::LionCodes& x, Mover& to) {
  to.numbers(x.p, x.size, "p");
  to.numbers(x.g, x.size, "g");
  move_moment(x.moment, x.size, to);
}

void move(kernels::GatherRows& x, Mover& to) {
  const std::int64_t rows = x.tokens == 0 ? 0 : *std::max_element(x.ids, x.ids + x.tokens) + 1;
  to.rows(x.out, x.tokens, x.width, Access::kWritten, "out");
  to.rows(x.table, rows, x.width, Access::kRead, "table");
  to.numbers(x.ids, x.tokens, "ids");
}

void move(kernels::SampleTokens& x, Mover& to) {
  constexpr std::int64_t kWord = 32;
  to.rows(x.logits, x.rows, x.vocabulary, Access::kRead, "logits");
  to.numbers(x.rules, x.rows, "rules");
  to.numbers(x.stop_ids, x.all_stops, "stop_ids");
  to.numbers(x.seen, x.rows * ((x.vocabulary + kWord - 1) / kWord), "seen");
  to.numbers(x.masses, x.rows * ((x.vocabulary + ops::kMassTokens - 1) / ops::kMassTokens), "masses");
  to.numbers(x.drawn, x.rows, "drawn");
  to.numbers(x.ids, x.rows, "ids");
  to.numbers(x.states, x.rows, "states");
  to.numbers(x.sampled_logprobs, x.rows, "sampled_logprobs");
  to.numbers(x.logprobs, x.rows, "logprobs");
  to.numbers(x.entropies, x.rows, "entropies");
}

void move(kernels::AttendPages& x, Mover& to) {
  const std::int64_t memory = x.all_pages * x.kv_heads * ops::kPageTokens * x.dim * bytes_of(x.q.dtype);
  to.heads(x.out, x.tokens, x.heads, x.dim, Access::kWritten, "out");
  to.heads(x.q, x.tokens, x.heads, x.dim, Access::kRead, "q");
  to.dense(x.keys, memory, "keys");
  to.dense(x.values, memory, "values");
  to.numbers(x.parts, x.wide + x.narrow, "parts");
  to.numbers(x.rows, x.listed_rows, "rows");
  to.numbers(x.pages, x.listed_pages, "pages");
  to.numbers(x.results_of, x.tokens + 1, "results_of");
  to.numbers(x.partial, x.results * x.heads * x.dim, "partial");
  to.numbers(x.partial_lse, x.results * x.heads, "partial_lse");
  to.head_numbers(x.lse, x.tokens, x.heads, Access::kWritten, "lse");
}

void move(kernels::StepHeads& x, Mover& to) {
  const std::int64_t memory = x.all_pages * x.kv_heads * ops::kPageTokens * x.dim * bytes_of(x.qkv.dtype);
  to.heads(x.qkv, x.tokens, x.heads + 2 * x.kv_heads, x.dim, Access::kWritten, "qkv");
  to.vector(x.q_weight, x.dim, "q_weight");
  to.vector(x.k_weight, x.dim, "k_weight");
  to.vector(x.cos, x.tokens * x.rotated, "cos");
  to.vector(x.sin, x.tokens * x.rotated, "sin");
  to.written(x.keys, memory, "keys");
  to.written(x.values, memory, "values");
  to.numbers(x.pages, x.tokens, "pages");
  to.numbers(x.places, x.tokens, "places");
}

// Tensors lie with their ends at a closed page, and in every other call with their beginnings.
template <auto Function, typename Call>
int between_guards(const Call& call, void* stream) {
  ++Counted<Function>::calls;
  const std::shared_ptr<void> opened = opener == nullptr ? nullptr : opener(&call, sizeof call);
  GuardedMemory memory(++calls % 2 == 0 ? Side::kBegin : Side::kEnd);
  Mover mover(memory);
  Call moved = call;
  move(moved, mover);
  const int error = (inner->*Function)(moved, stream);
  memory.give_back();
  return error;
}

}  // namespace

const Kernels& emulated_kernels() {
  return kernels::all_kernels();
}

const Kernels& guarded(const Kernels& some, Opener open) {
  static constexpr Kernels kTable = {
      .dropout = between_guards<&Kernels::dropout, kernels::Dropout>,
      .rms_norm = between_guards<&Kernels::rms_norm, kernels::RmsNorm>,
      .rms_norm_backward = between_guards<&Kernels::rms_norm_backward, kernels::RmsNormBackward>,
      .norm_rope = between_guards<&Kernels::norm_rope, kernels::NormRope>,
      .norm_rope_backward = between_guards<&Kernels::norm_rope_backward, kernels::NormRope>,
      .swiglu = between_guards<&Kernels::swiglu, kernels::Swiglu>,
      .swiglu_backward = between_guards<&Kernels::swiglu_backward, kernels::SwigluBackward>,
      .softmax_tile = between_guards<&Kernels::softmax_tile, kernels::SoftmaxTile>,
      .softmax_backward = between_guards<&Kernels::softmax_backward, kernels::SoftmaxBackward>,
      .adamw = between_guards<&Kernels::adamw, kernels::Adamw>,
      .squares = between_guards<&Kernels::squares, kernels::SquareSums>,
      .scale = between_guards<&Kernels::scale, kernels::Scale>,
      .dequantize = between_guards<&Kernels::dequantize, kernels::Dequantize>,
      .add_rows = between_guards<&Kernels::add_rows, kernels::AddRows>,
      .copy_blocks = between_guards<&Kernels::copy_blocks, kernels::CopyBlocks>,
      .join_attention = between_guards<&Kernels::join_attention, kernels::JoinAttention>,
      .adamw_codes = between_guards<&Kernels::adamw_codes, kernels::AdamwCodes>,
      .lion = between_guards<&Kernels::lion, kernels::Lion>,
      .lion_codes = between_guards<&Kernels::lion_codes, kernels::LionCodes>,
      .gather_rows = between_guards<&Kernels::gather_rows, kernels::GatherRows>,
      .dequantize_panels = between_guards<&Kernels::dequantize_panels, kernels::DequantizePanels>,
      .sample_tokens = between_guards<&Kernels::sample_tokens, kernels::SampleTokens>,
      .attend_pages = between_guards<&Kernels::attend_pages, kernels::AttendPages>,
      .step_heads = between_guards<&Kernels::step_heads, kernels::StepHeads>};
  inner = &some;
  opener = open;
  return kTable;
}

std::int64_t guarded_calls() {
  return calls;
}

std::map<std::string, std::int64_t> guarded_calls_by_name() {
  return calls_by_name();
}

}  // namespace hone::emulated
