#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"
#include "rollout/engine.h"

namespace hone::paper {
namespace {

std::vector<std::string> calls;

void write_tensor(std::ostringstream& out, const at::Tensor& x) {
  if (!x.defined() || !x.is_cuda()) return;
  out << ' ' << (x.has_storage() ? x.const_data_ptr() : nullptr) << ' ' << x.sizes() << x.strides();
}

void write_value(std::ostringstream& out, const c10::IValue& value) {
  if (value.isTensor()) {
    write_tensor(out, value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& one : value.toTensorVector()) write_tensor(out, one);
  }
}

std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& /*call*/) {
  return nullptr;
}

// An operator, and where its results lie on the card. What operators and hone's own kernels read came from others, or stays.
void ended(const at::RecordFunction& call, at::ObserverContext* /*context*/) {
  std::ostringstream out;
  out << call.name();
  for (const c10::IValue& one : call.outputs()) write_value(out, one);
  calls.push_back(out.str());
}

std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto [one, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return (one == a.end() ? "nothing" : *one) + " | " + (other == b.end() ? "nothing" : *other);
}

}  // namespace

int steps_on_card(const std::vector<std::string>& words, at::Device card) {
  base::require(words.size() == 2, "paper_drive steps", "a model's folder and a batch");
  const auto source = model::open_weights(words[0]);
  model::CausalLm model(*source, {.linear = at::kBFloat16, .residual = at::kFloat}, model::Storage::kPacked,
                        {}, card);
  model.join_linears();
  const std::int64_t batch = std::stoll(words[1]);
  rollout::Engine engine(model, {.batch_size = batch});
  rollout::RequestOptions options;
  options.max_new_tokens = 40;
  options.sampler.temperature = 1;
  for (std::int64_t i = 0; i < batch; ++i)
    engine.add({.ids = std::vector<std::int32_t>(9, static_cast<std::int32_t>(3 + i)), .options = options});
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(begun, ended).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
  // All before the page is full: 9 and 40 tokens of 64.
  std::vector<std::vector<std::string>> lists;
  std::vector<std::string> orders;
  for (std::int64_t i = 0; i < options.max_new_tokens - 4; ++i) {
    calls.clear();
    follow();
    engine.advance();
    orders.push_back(followed());
    lists.push_back(calls);
  }
  at::removeCallback(handle);
  constexpr std::size_t kFirst = 8;  // by then memory that steps keep is there
  std::int64_t compared = 0, equal = 0, kernels = 0;
  std::string difference;
  for (std::size_t i = kFirst; i + 1 < lists.size(); ++i) {
    const bool same = lists[i] == lists[i + 1] && orders[i] == orders[i + 1];
    compared += 1;
    equal += same ? 1 : 0;
    if (!same && difference.empty()) difference = first_difference(lists[i], lists[i + 1]);
  }
  kernels = std::count(orders.back().begin(), orders.back().end(), 'k');
  std::cout << Json{{"event", "steps"},        {"compared", compared},
                    {"equal", equal},          {"calls", lists.back().size()},
                    {"kernels", kernels},      {"order", orders.back()},
                    {"difference", difference}}
                   .dump()
            << std::endl;
  return 0;
}

}  // namespace hone::paper
