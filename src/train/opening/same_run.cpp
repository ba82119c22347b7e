#include "train/opening/same_run.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/files/crc32c.h"
#include "base/process/instruction_level.h"
#include "base/version.h"
#include "ops/machine/cuda.h"
#include "ops/machine/product_rates.h"
#include "train/opening/open_model.h"
#include "train/opening/open_run.h"

namespace hone::train {

namespace {

std::uint32_t hash_of(const at::Tensor& tensor, std::uint32_t before = 0) {
  const at::Tensor here = tensor.detach().cpu().contiguous();
  return base::crc32c({static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()}, before);
}

// Of what is small in the base: its norms, which differ between any two models.
std::uint32_t base_hash(const model::CausalLm& model) {
  std::uint32_t out = hash_of(model.final_norm());
  for (const model::DecoderLayer& layer : model.layers()) {
    for (const at::Tensor& norm : layer.stored.weights) {
      if (norm.defined() && norm.size(0) == model.config().hidden_size) out = hash_of(norm, out);
    }
  }
  return out;
}

std::string words_of(std::uint32_t hash) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "CRC %08x", hash);
  return text.data();
}

std::string exact(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

constexpr const char* kKernels = "kernels";

// "GenuineIntel"; "" where the processor does not say.
std::string processor_maker() {
#if defined(__x86_64__)
  unsigned a = 0;
  std::array<unsigned, 3> letters{};
  if (__get_cpuid(0, &a, &letters[0], &letters[2], &letters[1]) == 0) return "";
  return {reinterpret_cast<const char*>(letters.data()), sizeof letters};
#else
  return "";
#endif
}

// Numbers of ranks whose sums have the same bits have the same words (docs/ranks.md).
std::string ranks_words(const config::Plan& plan) {
  const std::int64_t ranks = plan.ranks;
  const bool same = plan.use_peft && (ranks == 1 || ranks == 2 || ranks == 4 || ranks == 8);
  return same ? "1, 2, 4 or 8" : std::to_string(ranks);
}

// What can be done about other kernels: those of the first run, where this machine has them.
std::string advice_for(const std::string& before) {
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (before != base::name_of(level)) continue;
    if (level > base::machine_level()) return "; this machine has no " + before;
    return std::string("; with --instructions ") + base::name_of(level) +
           " it goes on with the kernels that it began with";
  }
  return "";
}

}  // namespace

MachineFacts machine_facts(const config::Plan& plan) {
  MachineFacts out = {
      {"version of hone", base::kHoneVersion},
      {"version of libtorch", TORCH_VERSION},
      {"compiler", __VERSION__},
      {kKernels, base::name_of(base::instruction_level())},
      {"kernels of libtorch", at::get_cpu_capability()},
      {"products of bfloat16", ops::product_kernels(at::kBFloat16) == "avx512_bf16" ? "vdpbf16ps" : "others"},
      {"maker of the processor", processor_maker()},
      {"micro-batches of a step", std::to_string(plan.accumulation())},
      {"ranks", ranks_words(plan)}};
  const bool sums_of_libtorch = plan.use_bnb_nested_quant || plan.layer_form == config::LayerForm::kAutograd;
  if (sums_of_libtorch) out.emplace_back("threads", std::to_string(at::get_num_threads()));
  if (const at::Device here = device(plan); here.is_cuda()) {
    const ops::CudaState& cuda = ops::load_cuda();
    out.emplace_back("GPU", ops::describe(cuda.driver, here.index()));
    out.emplace_back("CUDA", ops::versions(cuda));
  }
  return out;
}

std::string changed_machine(const base::Json& saved, const MachineFacts& here) {
  std::string out, advice;
  for (const auto& [name, value] : here) {
    const base::Json before = saved.is_object() ? saved.value(name, base::Json()) : base::Json();
    if (!before.is_string() || before == value) continue;
    out += (out.empty() ? "" : ", ") + name + ": " + before.get<std::string>() + " -> " + value;
    if (name == kKernels) advice = advice_for(before.get<std::string>());
  }
  if (out.empty()) return "";
  return "differs from the checkpoint: " + out +
         ": sums differ in their last bits, so the resumed run is not equal to an uninterrupted one" + advice;
}

std::uint32_t parameter_hash(const adapters::Adapter& adapter) {
  return hash_of(adapter.flat());
}

void require_same_run(parallel::Ranks& ranks, const OpenedRun& run) {
  if (!ranks.several()) return;
  std::vector<parallel::SameValue> values = {{"version of hone", base::kHoneVersion},
                                             {"version of libtorch", TORCH_VERSION},
                                             {"kernels", base::name_of(base::instruction_level())}};
  for (const auto& [name, value] : run.plan.resolved) values.push_back({"option " + name, value});
  const RunState& state = run.resume_state->state;
  values.push_back(
      {"training rows", std::to_string(state.data_rows) + " with " + words_of(state.data_crc32c)});
  values.push_back({"base model", "norms with " + words_of(base_hash(*run.model))});
  const std::string& difference = run.shared_base.difference;
  values.push_back({"base of the host", difference.empty() ? "the same" : difference});
  if (const auto second = run.second_model.lock())
    values.push_back({"reference model", "norms with " + words_of(base_hash(*second))});
  if (run.moving_reference != nullptr)
    values.push_back({"reference model", words_of(hash_of(run.moving_reference->values()))});
  values.push_back({"parameters", words_of(parameter_hash(*run.adapter))});
  values.push_back({"first step", std::to_string(state.step)});
  parallel::require_same(
      ranks, values, "start of the run", "the ranks were started with different files or options",
      "start every rank with the same command, and give every host the same files and the same build");
}

void require_same_step(parallel::Ranks& ranks, double loss, double grad_norm, std::uint32_t hash) {
  parallel::require_same(
      ranks, {{"loss", exact(loss)}, {"grad_norm", exact(grad_norm)}, {"parameters", words_of(hash)}},
      "end of a step (DIST-03)",
      "a rank computes other numbers: other kernels, a fault of its memory, or files that changed",
      "continue from the last checkpoint without that host, or find what differs there");
}

}  // namespace hone::train
