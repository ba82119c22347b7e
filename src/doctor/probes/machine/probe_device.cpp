// Probe P13 (docs/design.md): a pass of the first layers, on the run's device and on the CPU.
#include <cmath>

#include "base/process/process_memory.h"
#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/machine/device_machine.h"
#include "doctor/probes/machine/device_pass.h"
#include "doctor/probes/probe_state.h"
#include "ops/machine/device_memory.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr std::int64_t kTokens = 64;  // in all, so that the CPU's pass takes seconds

// Both models with their gradients, and the pass: an upper bound, for a note instead of a run without memory.
std::int64_t bytes_of(const model::CausalLm& model, std::int64_t layers) {
  const model::ModelConfig& config = model.config();
  const std::int64_t vocabulary = config.vocab_size * config.hidden_size * 8;
  const std::int64_t all = model.parameter_bytes();
  return all / std::max<std::int64_t>(1, config.num_hidden_layers) * layers + vocabulary + (256LL << 20);
}

std::string shape_text(const model::ModelConfig& config, std::int64_t layers, std::int64_t tokens) {
  return grouped(tokens) + " tokens through " + count_of(layers, config.num_hidden_layers) +
         " layers of width " + grouped(config.hidden_size) + ", vocabulary " + grouped(config.vocab_size);
}

base::Verdict disagreement(const PassDifference& found, const std::vector<std::string>& guilty,
                           const std::string& shape, at::Device device) {
  std::string names;
  for (const std::string& one : guilty) names += (names.empty() ? "" : ", ") + one;
  const std::string where = device.str();
  const Excluded excluded = Excluded()
                                .add("your data and options", "both passes have the same ones")
                                .add("dropout", "its masks are drawn from the same numbers");
  return {
      .code = "NUM-04",
      .level = Level::kFail,
      .what = (names.empty() ? "" : names + ": ") + where + " computes other numbers than the CPU",
      .evidence = found.what + " is " + number(found.device) + " on " + where + " and " + number(found.cpu) +
                  " on the CPU (off by " + number(found.error) + ", bound " + number(found.bound) + "); " +
                  shape +
                  (names.empty() ? "; no single operator of hone's explains it"
                                 : "; without " + names + " of the device they agree"),
      .cause = names.empty()
                   ? "a kernel of libtorch, a library or a driver that does not support this card correctly"
                   : "the operator " + names + " of " + where + " is wrong for these shapes",
      .not_this = excluded.text(),
      .fix = report_fix(excluded, "device: cpu"),
      .cost = "a run with wrong results"};
}

}  // namespace

Verdicts probe_device(const train::RunView& run) {
  const at::Device device = run.model->device();
  const std::int64_t layers = looked_at_layers(*run.model), bytes = bytes_of(*run.model, layers);
  const std::int64_t of_device = ops::device_memory(device).free, of_host = base::free_memory();
  if ((of_device > 0 && of_device < bytes) || (of_host > 0 && of_host < 2 * bytes)) {
    return {{.code = "NUM-04",
             .level = Level::kNote,
             .what = "the device's numbers were not compared with the CPU's",
             .evidence = "two more copies of the first layers have no room beside the run",
             .fix = "hone doctor compares them where more memory is free"}};
  }
  const data::Batch batch = batch_of(short_examples(run, 4, kTokens));
  const bool bf16 = run.model->dtypes().linear == at::kBFloat16;
  const auto tokens = static_cast<std::int64_t>(batch.ids.size());
  const std::string shape = shape_text(run.model->config(), layers, tokens);
  const PassNumbers cpu = FirstLayers(run, layers, at::kCPU).pass(batch);
  Verdicts out;
  {
    FirstLayers there(run, layers, device);
    const PassDifference found = difference_of(cpu, there.pass(batch), bf16);
    if (found.is_right()) {
      out.push_back({.code = "NUM-04",
                     .what = device.str() + " computes the CPU's loss and gradients, within tolerance",
                     .evidence = "loss " + number(cpu.loss) + "; " + found.what + " is furthest off, by " +
                                 number(found.error) + ", bound " + number(found.bound) + "; " + shape});
    } else {
      const std::vector<std::string> guilty = guilty_operators(there, device, batch, cpu, bf16);
      out.push_back(disagreement(found, guilty, shape, device));
    }
  }
  ops::release_device_memory(device);
  return out;
}

}  // namespace hone::doctor
