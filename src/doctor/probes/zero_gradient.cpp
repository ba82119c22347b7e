#include "doctor/probes/zero_gradient.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "doctor/probes/probe_state.h"
#include "model/config/mixer.h"
#include "train/opening/memory_inputs.h"
#include "train/passes/scored_pass.h"

namespace hone::doctor {

namespace {

using Tensors = std::vector<const adapters::TrainableTensor*>;

constexpr double kSmallB = 1e-6;          // of lora_B: too small to saturate a loss
constexpr double kLargeBeta = 100;        // TRL's defaults are 0.1 (Online DPO, DPO, KTO, CPO, ORPO) or 0
constexpr std::int64_t kPassTokens = 48;  // of two rows
constexpr std::int64_t kEmbeddingRows = 8192;  // at a time

bool is_zero(const at::Tensor& t) {
  return t.defined() && !t.ne(0).any().item<bool>();
}

bool is_zero(const ops::Weight& weight) {
  return weight.has_numbers() &&
         is_zero(weight.is_quantized() ? weight.dense() : weight.memory().front().second);
}

bool is_zero(const ops::Linear& linear) {
  return is_zero(linear.weight) && (!linear.bias.defined() || is_zero(linear.bias));
}

std::string zero_in_base(const std::string& name) {
  return name + " of the base is all 0";
}

// Nothing passes it: all 0, and nothing on it that learns.
bool is_shut(const ops::Linear& linear) {
  return !linear.lora && !linear.frozen_lora && !linear.trained_weight.defined() && is_zero(linear);
}

// What stops every gradient of the model; empty: nothing.
std::string zero_everywhere(const model::CausalLm& model) {
  if (is_zero(model.final_norm())) return zero_in_base("the final norm");
  if (!model.score_head().defined() && is_zero(model.head())) return zero_in_base("the head");
  for (std::int64_t begin = 0; begin < model.config().vocab_size; begin += kEmbeddingRows) {
    const std::int64_t end = std::min(begin + kEmbeddingRows, model.config().vocab_size);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
    std::iota(ids.begin(), ids.end(), begin);
    if (!is_zero(model.embed(ids))) return "";
  }
  return zero_in_base("the embedding");
}

// Whether no gradient came to the trained weights of this expert: no token of the batch was given to it.
bool is_idle(const std::vector<model::LinearStack>& stacks, std::size_t expert) {
  const auto silent = [](const ops::Linear* one) {
    const at::Tensor& weight = one->trained_weight;
    return !weight.defined() || !weight.grad().defined() || is_zero(weight.grad());
  };
  return std::all_of(stacks.begin(), stacks.end(), [&](const model::LinearStack& stack) {
    return std::all_of(stack.experts[expert].begin(), stack.experts[expert].end(), silent);
  });
}

// Says whether a trainable tensor of this name is of the linear.
bool is_of(const std::string& name, const ops::Linear& linear) {
  return name.find(linear.name + ".") != std::string::npos;
}

// Says that the router gave the expert of `name` nothing to learn from; empty: it did, or `name` is of no expert.
std::string zero_in_experts(const std::vector<model::LinearStack>& stacks, const ops::Linear& router,
                            const std::string& name) {
  for (const model::LinearStack& stack : stacks) {
    for (std::size_t e = 0; e < stack.experts.size(); ++e) {
      const bool here = std::any_of(stack.experts[e].begin(), stack.experts[e].end(),
                                    [&](const ops::Linear* linear) { return is_of(name, *linear); });
      if (here && is_idle(stacks, e)) return router.name + " gave this expert no token of the batch";
    }
  }
  return "";
}

// Says whether `name` is of one of the part's linears, or of experts that it has stacked.
bool is_of_part(const model::DecoderLayer& layer, const model::LayerPart& part, const std::string& name) {
  const auto is = [&](const ops::Linear* linear) { return is_of(name, *linear); };
  const std::vector<const ops::Linear*> linears = layer.linears(part);
  if (std::any_of(linears.begin(), linears.end(), is)) return true;
  if (layer.stacks(part).empty()) return false;
  const std::string& router = linears.front()->name;
  return name.find(router.substr(0, router.rfind('.') + 1)) != std::string::npos;
}

// The module of this part that stops the gradients of `name`, which is of it; empty: none.
std::string zero_in_part(const model::DecoderLayer& layer, const model::LayerPart& part,
                         const std::string& name) {
  const auto says = [](const ops::Linear& one) {
    return zero_in_base(one.name) + " and has no adapter: no gradient passes it";
  };
  const auto zero_norm = [&](std::optional<model::NormPlace> place) {
    return place && is_zero(layer.norms[*place]);
  };
  const std::vector<std::vector<const ops::Linear*>> readers = layer.readers(part);
  const ops::Linear &first = *readers.front().front(), &last = *readers.back().back();
  if (zero_norm(part.norms().before))
    return zero_in_base("the norm before " + first.name) + ": " + part.no_input(layer);
  if (zero_norm(part.norms().after))
    return zero_in_base("the norm after " + last.name) + ": no gradient passes it";
  if (!is_of(name, last) && is_shut(last)) return says(last);
  for (const model::PartStop& stop : part.stops(layer)) {
    if (stop.by == nullptr) {
      if (!layer.trained_tensors[stop.tensor].defined() && is_zero(layer.tensors[stop.tensor]))
        return zero_in_base(stop.name) + ": no gradient passes it";
      continue;
    }
    const bool stopped = stop.stopped == nullptr ? !is_of(name, *stop.by) : is_of(name, *stop.stopped);
    if (stopped && (is_shut(*stop.by) || zero_norm(stop.norm))) return says(*stop.by);
  }
  return zero_in_experts(layer.stacks(part), first, name);
}

// The module of this layer that stops the gradients of `name`; empty: none.
std::string zero_in_layer(const model::DecoderLayer& layer, const std::string& name) {
  for (const model::LayerPart* const part : layer.parts) {
    if (layer.readers(*part).empty() || !is_of_part(layer, *part, name)) continue;
    if (std::string found = zero_in_part(layer, *part, name); !found.empty()) return found;
  }
  return "";
}

std::string zero_of_base(const model::CausalLm& model, const std::string& name) {
  for (const model::DecoderLayer& layer : model.layers()) {
    if (std::string out = zero_in_layer(layer, name); !out.empty()) return out;
  }
  return "";
}

class ZeroGradientSearch {
 public:
  ZeroGradientSearch(const train::RunView& run, const std::vector<StartValue>& all, const Tensors& silent)
      : run_(run), silent_(silent), of_all_(all.size() == silent.size()) {
    for (const StartValue& one : all) start_[one.tensor->name] = one.value;
  }

  ZeroGradient look(std::int64_t scored, double loss) {
    out_.excluded.add("the data", grouped(scored) + " scored tokens, loss " + number(loss));
    explain_by_values();
    if (out_.unexplained.empty()) return finish();
    if (!has_causes_) {
      out_.excluded.add("an adapter of zeros", "A or B of these modules has values");
      out_.excluded.add("a base with zeros", "no norm or linear on their way is all 0");
    }
    if (is_saturated()) return finish();
    try_passes();
    return std::move(out_);
  }

 private:
  ZeroGradient finish() {
    out_.explained = true;
    out_.unexplained.clear();
    return std::move(out_);
  }

  void explain_by_values() {
    const std::string everywhere = of_all_ ? zero_everywhere(*run_.model) : "";
    if (!everywhere.empty()) out_.fix = "download the base again: a module of zeros is damaged";
    for (const adapters::TrainableTensor* one : silent_) {
      const std::string why = !everywhere.empty() ? everywhere : why_zero(*one);
      if (why.empty()) out_.unexplained.push_back(one->name);
      if (why.empty() || has_causes_) continue;
      has_causes_ = true;
      out_.cause = why;
    }
  }

  std::string why_zero(const adapters::TrainableTensor& tensor) {
    if (adapters::is_token_rows(tensor)) return why_no_token();
    if (is_empty_module(tensor.name)) {
      out_.fix = of_all_
                     ? "leave adapter_name_or_path out: a new adapter learns; or continue another checkpoint"
                     : "continue another checkpoint, or leave the module out of lora_target_modules";
      return "A and B of " + plain_name(tensor.name) +
             " are both 0 in the adapter to be continued, and each one's gradient is multiplied by the other";
    }
    std::string why = zero_of_base(*run_.model, tensor.name);
    if (!why.empty() && out_.fix.empty()) {
      out_.fix = "download the base again: a module of zeros is damaged";
      if (why.find("has no adapter") != std::string::npos)
        out_.fix += "; if it is meant to be 0, add it to lora_target_modules";
    }
    return why;
  }

  // Rows of a tied head have a gradient wherever something is scored; rows of an embedding only where their
  // tokens are read.
  std::string why_no_token() {
    if (run_.start.trained.tied_head) return "";
    out_.fix = "nothing, if GRAD-06 finds the tokens in the data";
    return "none of the tokens of trainable_token_indices is in the rows of the rehearsal (GRAD-06 checks "
           "all of the data)";
  }

  static std::string module_of(const std::string& name) { return name.substr(0, name.find(".lora_")); }
  static std::string plain_name(const std::string& name) {
    constexpr std::string_view kPeft = "base_model.model.";
    const std::string module = module_of(name);
    return module.starts_with(kPeft) ? module.substr(kPeft.size()) : module;
  }

  bool is_empty_module(const std::string& name) const {
    if (name.find(".lora_") == std::string::npos) return false;
    const std::string module = module_of(name) + ".lora_";
    bool any = false;
    for (auto at = start_.lower_bound(module); at != start_.end() && at->first.starts_with(module); ++at) {
      const bool magnitude = at->first.find("magnitude") != std::string::npos;
      if (!magnitude && !is_zero(at->second)) return false;
      any = true;
    }
    return any;
  }

  std::int64_t reached() const {
    return std::count_if(silent_.begin(), silent_.end(), [](const adapters::TrainableTensor* one) {
      const at::Tensor& gradient = one->value.grad();
      return gradient.defined() && gradient.ne(0).any().item<bool>();
    });
  }

  void scale_b(double factor) {
    const at::NoGradGuard no_grad;
    for (const auto& tensor : run_.adapter->tensors()) {
      at::Tensor value = tensor.value;
      if (is_b(tensor)) value.mul_(factor);
    }
  }

  // With lora_B near 0 no loss is saturated by what the adapter does.
  bool is_saturated() {
    scale_b(kSmallB);
    run_.adapter->zero_gradient();
    const train::Rehearsal found =
        run_.method->rehearse({.index = 1, .max_tokens = rehearsal_tokens(*run_.model)});
    const std::int64_t now = reached();
    const auto count = static_cast<std::int64_t>(silent_.size());
    if (now < count) {
      out_.excluded.add("a saturated loss",
                        count_of(count - now, count) + " stay 0 with lora_B a millionth as large");
      return false;
    }
    const auto& resolved = run_.plan.resolved;
    const auto beta = std::find_if(resolved.begin(), resolved.end(),
                                   [](const auto& option) { return option.first == "beta"; });
    const bool by_beta = beta != resolved.end() && std::strtod(beta->second.c_str(), nullptr) >= kLargeBeta;
    out_.cause =
        "the loss is saturated after one step: with lora_B a millionth as large all " + grouped(count) +
        " receive a gradient" +
        (by_beta ? "; beta " + beta->second + " multiplies the difference of log-probabilities" : "");
    out_.evidence = "loss " + number(found.loss) + " with that lora_B";
    out_.fix = by_beta ? "beta: 0.1 is TRL's default" : "lower learning_rate";
    return true;
  }

  // Whether a pass over a few rows reaches them, with another lora_B, without the method's own loss.
  std::int64_t reached_by_pass(const data::Batch& batch, bool is_fused) {
    run_.adapter->zero_gradient();
    train::PassForm form = train::pass_form(run_.start.memory);
    form.is_fused = is_fused;
    const auto n = static_cast<double>(std::max<std::int64_t>(1, train::scored_tokens(batch)));
    train::score_and_backward(*run_.model, batch, {}, n, form);
    return reached();
  }

  void try_passes() {
    out_.cause = "suspected: the loss has no path to them";
    const std::vector<data::Record> examples = short_examples(run_, 2, kPassTokens);
    if (examples.empty() || run_.model->score_head().defined()) return;
    const data::Batch batch = batch_of(examples);
    perturb(*run_.adapter, kPerturbation, 1);
    const auto count = static_cast<std::int64_t>(silent_.size());
    const bool fused = run_.start.memory.fused_layer;
    const std::int64_t own = reached_by_pass(batch, fused);
    const std::int64_t plain = fused ? reached_by_pass(batch, /*is_fused=*/false) : own;
    out_.evidence = "a pass without the method reaches " + count_of(own, count) + " of them" +
                    (fused ? ", in the autograd form " + count_of(plain, count) : "");
    if (own == count) {
      out_.cause = "the pass over the model reaches them; what the method makes of it does not";
    } else if (plain > own) {
      out_.cause = "the fused form of the layer loses them";
      out_.fix = "layer_form: plain, whose pass reaches them";
    } else {
      out_.cause = "no pass over this model reaches them";
    }
  }

  const train::RunView run_;
  const Tensors& silent_;
  bool of_all_, has_causes_ = false;
  std::map<std::string, at::Tensor> start_;
  ZeroGradient out_;
};

}  // namespace

ZeroGradient explain_zero_gradient(const train::RunView& run, const std::vector<StartValue>& all,
                                   const Tensors& silent, std::int64_t scored, double loss) {
  return ZeroGradientSearch(run, all, silent).look(scored, loss);
}

std::vector<std::string> zero_modules(const model::CausalLm& model) {
  std::vector<std::string> out;
  for (const model::DecoderLayer& layer : model.layers()) {
    for (const ops::Linear* linear : layer.linears()) {
      if (is_zero(*linear)) out.push_back(linear->name);
    }
    for (const model::LayerPart* const part : layer.parts) {
      const auto look = [&](std::optional<model::NormPlace> place, const char* where,
                            const ops::Linear& linear) {
        if (place && is_zero(layer.norms[*place]))
          out.push_back("the norm " + std::string(where) + " " + linear.name);
      };
      const auto readers = layer.readers(*part);
      if (readers.empty()) continue;
      look(part->norms().before, "before", *readers.front().front());
      look(part->norms().after, "after", *readers.back().back());
    }
  }
  return out;
}

}  // namespace hone::doctor
