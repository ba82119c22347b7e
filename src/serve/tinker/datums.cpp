#include "serve/tinker/datums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/strings/suggest.h"

namespace hone::serve {
namespace {

[[noreturn]] void no_datum(const std::string& where, const std::string& expected, const std::string& found) {
  throw base::UserError({.where = where, .expected = expected, .found = found, .cause = {}, .fix = {}});
}

std::string shape_of(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (const std::int64_t size : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

std::vector<std::string> inputs_of(const LossSpec& spec) {
  if (spec.kind == LossKind::kCrossEntropy) return {"target_tokens", "weights"};
  return {"target_tokens", "logprobs", "advantages"};
}

const WireTensor& input(const WireDatum& datum, const std::string& name, const std::string& where) {
  const auto found = datum.inputs.find(name);
  if (found == datum.inputs.end()) no_datum(where, "loss_fn_inputs['" + name + "']", "none");
  return found->second;
}

// As `shape`, finite, in fp32.
std::vector<float> numbers(const WireTensor& tensor, const std::vector<std::int64_t>& shape,
                           const std::string& where) {
  if (tensor.shape != shape)
    no_datum(where, "the shape " + shape_of(shape) + " of target_tokens", shape_of(tensor.shape));
  std::vector<float> out;
  if (tensor.is_float()) {
    out = std::get<0>(tensor.values);
  } else {
    const auto& whole = std::get<1>(tensor.values);
    out.assign(whole.begin(), whole.end());
  }
  const auto bad = std::find_if(out.begin(), out.end(), [](float one) { return !std::isfinite(one); });
  if (bad != out.end())
    no_datum(where + " [" + std::to_string(bad - out.begin()) + "]", "finite numbers", std::to_string(*bad));
  return out;
}

void read_targets(const WireTensor& tensor, Datum& datum, const std::string& where) {
  if (tensor.is_float()) no_datum(where, "int64 token ids", "floating-point numbers");
  if (tensor.rows() != static_cast<std::int64_t>(datum.tokens.size()))
    no_datum(where,
             "a target, or a row of them, for each of the " + std::to_string(datum.tokens.size()) +
                 " tokens of model_input",
             "the shape " + shape_of(tensor.shape));
  datum.is_flat = tensor.shape.size() == 1;
  datum.columns = tensor.columns();
  if (datum.columns < 1) no_datum(where, "one target at least", "none");
  for (const std::int64_t target : std::get<1>(tensor.values)) {
    if (target < 0 || target > std::numeric_limits<std::int32_t>::max())
      no_datum(where, "token ids", std::to_string(target));
    datum.targets.push_back(static_cast<std::int32_t>(target));
  }
}

}  // namespace

Datum datum_of(const WireDatum& wire, const LossSpec& spec, bool trains, const std::string& where) {
  const std::vector<std::string> wanted = inputs_of(spec);
  for (const auto& [name, tensor] : wire.inputs) {
    if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) continue;
    std::string names;
    for (const std::string& each : wanted) names += (names.empty() ? "" : ", ") + each;
    no_datum(where + ", loss_fn_inputs", names, "'" + name + "'." + base::did_you_mean(name, wanted));
  }
  Datum out;
  out.tokens = wire.tokens;
  if (out.tokens.empty()) no_datum(where + ", model_input", "one token at least", "none");
  const WireTensor& targets = input(wire, "target_tokens", where);
  read_targets(targets, out, where + ", target_tokens");
  if (spec.kind == LossKind::kCrossEntropy) {
    if (!trains && !wire.inputs.contains("weights")) {
      out.weights.assign(out.targets.size(), 1);
    } else {
      out.weights = numbers(input(wire, "weights", where), targets.shape, where + ", weights");
    }
    return out;
  }
  if (!out.is_flat)
    no_datum(where + ", target_tokens", "one dimension, but for cross_entropy", shape_of(targets.shape));
  out.logprobs = numbers(input(wire, "logprobs", where), targets.shape, where + ", logprobs");
  out.advantages = numbers(input(wire, "advantages", where), targets.shape, where + ", advantages");
  return out;
}

}  // namespace hone::serve
