#include "train/facts/device_facts.h"

#include <algorithm>

#include "config/method_traits.h"
#include "model/config/mixer.h"
#include "ops/machine/cuda.h"
#include "ops/machine/device_memory.h"

namespace hone::train {

namespace {

// Of layers with attention in bf16: FlashAttention-2's own limits (takes() of ops/backend/cuda).
void add_attention(const model::ModelConfig& model, bool shares_prompts, std::vector<std::string>& out) {
  constexpr std::int64_t kMultiple = 8, kWidest = 256;
  bool windows = false, odd = false;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    if (!model.mixer(layer).attends()) continue;
    const model::LayerAttention attention = model.attention_of(layer);
    windows = windows || attention.window > 0;
    odd = odd || attention.head_dim % kMultiple != 0 || attention.head_dim > kWidest;
  }
  if (model.attention_soft_cap > 0) {
    out.emplace_back("attention with soft caps");
    return;
  }
  if (odd) out.emplace_back("attention of heads that are no multiple of 8, or above 256");
  if (windows && shares_prompts) out.emplace_back("sliding windows behind a shared prompt (share_prompt)");
}

}  // namespace

std::vector<std::string> reference_forms(const model::ModelConfig& model, at::ScalarType linear,
                                         const config::Plan& plan) {
  std::vector<std::string> out;
  if (linear == at::kFloat) {
    out.emplace_back("products, norms and attention in float32");
  } else {
    add_attention(model, plan.share_prompt && config::method_traits(plan.method).shares_prompts, out);
  }
  for (const model::Mixer* const mixer : model::mixers_of(model))
    if (const std::string_view words = mixer->words().reference; !words.empty()) out.emplace_back(words);
  if (model.experts.count > 0) out.emplace_back("experts, which the host counts");
  return out;
}

DeviceFacts device_facts(const model::CausalLm& model, const config::Plan& plan) {
  DeviceFacts out;
  const at::Device device = model.device();
  if (ops::is_host(device)) return out;
  out.name = device.str();
  if (!device.is_cuda()) return out;
  const ops::CudaState& cuda = ops::load_cuda();
  out.name += ", " + ops::describe(cuda.driver, device.index());
  out.driver = ops::versions(cuda);
  if (!ops::grows_by_pages(device)) {
    const std::string variable = ops::allocator_variable();
    out.memory = "memory in blocks, which leave holes, and not by pages: " +
                 (variable.empty() ? "the card maps none" : variable + " is set");
  }
  out.reference_forms = reference_forms(model.config(), model.dtypes().linear, plan);
  return out;
}

}  // namespace hone::train
