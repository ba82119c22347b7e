#include "doctor/watch/not_finite.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/strings/plural.h"
#include "doctor/excluded.h"
#include "doctor/number_format.h"
#include "doctor/watch/tensor_watch.h"
#include "model/config/layer_of.h"
#include "model/config/mixer.h"

namespace hone::doctor {

namespace {

using base::Level;
using base::Verdict;

constexpr std::int64_t kTokensAtOnce = 8192;
// bad ones: a single bad sample is another matter than all of them
constexpr std::int64_t kSamplesToTell = 2;

std::int64_t bad_count(const at::Tensor& values) {
  if (!values.defined()) return 0;
  return values.numel() - at::isfinite(values.detach()).sum().item<std::int64_t>();
}

// The first tensor of the base that holds a value that is not finite: "model.layers.3.mlp.up_proj.weight
// holds 12 ..."; empty: none. One matrix at a time, since those of a packed model are copies.
std::string bad_base_weight(const model::CausalLm& model) {
  const auto words = [](const std::string& name, std::int64_t count) {
    return "the base's " + name + " holds " + base::counted(count, "value that is", "values that are") +
           " not finite";
  };
  for (std::int64_t begin = 0; begin < model.config().vocab_size; begin += kTokensAtOnce) {
    std::vector<std::int64_t> ids(
        static_cast<std::size_t>(std::min(kTokensAtOnce, model.config().vocab_size - begin)));
    std::iota(ids.begin(), ids.end(), begin);
    const at::Tensor bad = at::isfinite(model.embed(ids)).all(1).logical_not();
    if (!bad.any().item<bool>()) continue;
    return "the base's embedding of token " +
           std::to_string(begin + bad.nonzero().min().item<std::int64_t>()) +
           " has values that are not finite";
  }
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    const model::DecoderLayer& layer = model.layers()[i];
    for (const ops::Linear* linear : layer.linears()) {
      const std::int64_t bad = linear->weight.has_numbers() ? bad_count(linear->weight.dense()) : 0;
      if (bad > 0) return words(linear->name + ".weight", bad);
      if (const auto count = bad_count(linear->bias)) return words(linear->name + ".bias", count);
    }
    for (const at::Tensor& norm : layer.norms.weights) {
      if (const auto count = bad_count(norm)) return words("norms of layer " + std::to_string(i), count);
    }
    for (const at::Tensor& tensor : layer.tensors.values) {
      if (const auto count = bad_count(tensor))
        return words(std::string(layer.mixer->words().tensors) + " of layer " + std::to_string(i), count);
    }
  }
  if (const model::PerLayerInputs* const inputs = model.per_layer()) {
    const ops::Weight& projection = inputs->projection.weight;
    const std::int64_t bad = projection.has_numbers() ? bad_count(projection.dense()) : 0;
    if (bad > 0) return words(inputs->projection.name + ".weight", bad);
    if (const auto count = bad_count(inputs->norm)) return words("norm of layers' inputs", count);
    const std::int64_t rows = inputs->embedding.has_numbers() ? inputs->embedding.out() : 0;
    for (std::int64_t begin = 0; begin < rows; begin += kTokensAtOnce) {
      const at::Tensor index = at::arange(begin, std::min(begin + kTokensAtOnce, rows),
                                          at::TensorOptions(at::kLong).device(model.device()));
      if (const auto count = bad_count(inputs->embedding.rows(index)))
        return words("embedding of layers' inputs", count);
    }
  }
  if (const auto count = bad_count(model.final_norm())) return words("final norm", count);
  if (const auto count = bad_count(model.head().dense())) return words("head", count);
  return "";
}

std::vector<std::string> bad_values(const adapters::Adapter& adapter) {
  std::vector<std::string> out;
  for (const auto& tensor : adapter.tensors()) {
    if (bad_count(tensor.value) > 0) out.push_back(tensor.name);
  }
  return out;
}

// The backward goes from the last layer down: the highest bad one is the first.
std::string bad_gradients(const adapters::Adapter& adapter) {
  std::vector<std::string> bad;
  std::int64_t highest = -1, top = -1;
  std::string first;
  for (const auto& tensor : adapter.tensors()) {
    const std::int64_t layer = model::layer_of(tensor.name);
    top = std::max(top, layer);
    if (!tensor.value.grad().defined() || bad_count(tensor.value.grad()) == 0) continue;
    bad.push_back(tensor.name);
    if (layer >= highest) {
      highest = layer;
      first = tensor.name;
    }
  }
  if (bad.empty()) return "no gradient of the adapter has one";
  std::string out = std::to_string(bad.size()) + " of " + std::to_string(adapter.tensors().size()) +
                    " gradients hold one; the backward met it first in " + first;
  if (highest >= 0 && highest < top) {
    out += " (layer " + std::to_string(highest) + "; those above it, to " + std::to_string(top) +
           ", are finite)";
  }
  return out;
}

struct BadSamples {
  std::vector<std::string> names;
  std::int64_t replayed = 0;
};

BadSamples find_samples(const train::RunView& run, std::int64_t step) {
  BadSamples out;
  run.adapter->zero_gradient();
  run.method->replay_samples(step - 1, [&](const train::ReplayedSample& one) {
    out.replayed += 1;
    const bool finite = std::isfinite(one.loss) && bad_count(run.adapter->flat_gradient()) == 0;
    if (!finite) out.names.push_back(one.name);
    run.adapter->zero_gradient();
    return static_cast<std::int64_t>(out.names.size()) < kSamplesToTell;
  });
  return out;
}

std::string describe_samples(const BadSamples& found) {
  if (found.replayed == 0) return "";
  if (found.names.empty()) {
    return found.replayed == 1
               ? "; its sample alone gives none"
               : "; none of its " + std::to_string(found.replayed) + " samples alone gives one";
  }
  if (static_cast<std::int64_t>(found.names.size()) < kSamplesToTell) {
    return "; of its " + std::to_string(found.replayed) + " samples run alone, only " + found.names.front() +
           " gives one";
  }
  return "; run alone, " + found.names[0] + " and " + found.names[1] + " both give one";
}

constexpr double kGrown = 10;  // of the newest norm over the usual one, as limits::kNormOverMedian
constexpr const char* kLowerRate = "resume from the last healthy checkpoint with a lower learning_rate";

bool has_grown(const RunPast& past) {
  return past.usual_norm > 0 && past.newest > kGrown * past.usual_norm;
}

std::string describe_norms(const RunPast& past) {
  if (past.usual_norm <= 0) return "";
  return ", gradient norm " + short_number(past.newest) + ", usual " + short_number(past.usual_norm);
}

std::string diverged_words(const train::RunView& run, const RunPast& past) {
  std::string out = "the run has diverged at learning_rate " + short_number(run.plan.learning_rate);
  if (!past.rate_warning.empty()) out += ", of which NUM-08 had warned: " + past.rate_warning;
  if (has_grown(past))
    out += (past.rate_warning.empty() ? ": " : "; ") + std::string("the gradient norm grew from ") +
           short_number(past.usual_norm) + " to " + short_number(past.newest) + " before";
  return out;
}

// The step's samples through the base alone. A model that is trained in full has no base beside it.
bool is_finite_without_adapter(const train::RunView& run, std::int64_t step) {
  const at::Tensor values = run.adapter->flat().detach().clone();
  bool any = false;
  {
    const at::NoGradGuard no_grad;
    for (const auto& tensor : run.adapter->tensors()) {
      at::Tensor value = tensor.value;
      if (!adapters::starts_at_zero(tensor)) continue;
      value.zero_();
      any = true;
    }
  }
  const BadSamples found = any ? find_samples(run, step) : BadSamples();
  const at::NoGradGuard no_grad;
  run.adapter->flat().copy_(values);
  return any && found.replayed > 0 && found.names.empty();
}

}  // namespace

Verdict check_adapter_finite(const adapters::Adapter& adapter) {
  if (std::isfinite(at::linalg_vector_norm(adapter.flat().detach()).item<double>())) return {};
  const std::vector<std::string> bad = bad_values(adapter);
  if (bad.empty()) return {};
  return {
      .code = "NUM-02",
      .level = Level::kFail,
      .part = "run",
      .what = "the adapter itself has values that are not finite",
      .evidence = base::counted(static_cast<std::int64_t>(bad.size()), "tensor") + ": " + first_names(bad),
      .cause = "updates were too large: the run has diverged",
      .fix = "resume from the last healthy checkpoint with a lower learning_rate"};
}

Verdict diagnose_not_finite(const train::RunView& run, std::int64_t step, double loss, double grad_norm,
                            const RunPast& past) {
  const std::string gradients = run.start.memory.layer_steps
                                    ? "the gradients were not kept: the optimizer steps layer by layer"
                                    : bad_gradients(*run.adapter);  // before they are cleared
  Verdict out{.code = "NUM-02",
              .level = Level::kFail,
              .part = "run",
              .what = "step " + std::to_string(step) + ": loss " + short_number(loss) + ", gradient norm " +
                      short_number(grad_norm)};
  const std::string base = bad_base_weight(*run.model);
  const Verdict adapter = check_adapter_finite(*run.adapter);
  const BadSamples samples = find_samples(run, step);
  out.evidence = gradients + describe_samples(samples);
  Excluded excluded;
  if (!base.empty()) {
    out.evidence = base + "; " + out.evidence;
    out.cause = "the model file has bad values";
    out.not_this =
        excluded.add("learning rate, warm-up or clipping", "no option of the run can fix a weight").text();
    out.fix = "download or convert the model again";
    return out;
  }
  excluded.add("the model file", "all of its values are finite");
  if (adapter.level == Level::kFail) {
    out.evidence = adapter.what + " (" + adapter.evidence + "); " + out.evidence;
    out.cause = diverged_words(run, past);
    out.fix = kLowerRate;
  } else if (!samples.names.empty() && is_finite_without_adapter(run, step)) {
    out.evidence += "; with lora_B at 0 all of them are finite";
    out.cause = diverged_words(run, past);
    out.fix = kLowerRate;
    excluded.add("the samples", "without the adapter they are finite");
  } else if (!past.rate_warning.empty() || has_grown(past)) {
    out.cause = diverged_words(run, past);
    out.fix = kLowerRate;
  } else if (samples.names.size() == 1 && samples.replayed > 1) {
    out.cause = "suspected: that sample (its length, or a token that the model rarely saw)";
    out.fix =
        "check that row and leave it out; dtype: float32 and bf16: false shows whether precision is the "
        "cause";
    excluded.add("learning_rate", "the step's other samples are finite" + describe_norms(past));
  } else {
    out.cause = "suspected: values overflow in this precision, or a kernel has wrong results on this machine";
    out.fix =
        "dtype: float32 with bf16: false shows whether precision is the cause; the step was not applied and "
        "earlier checkpoints are complete";
    if (past.usual_norm > 0) excluded.add("learning_rate", "no warning of it" + describe_norms(past));
  }
  out.not_this = excluded.text();
  return out;
}

}  // namespace hone::doctor
