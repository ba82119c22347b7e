#include "serve/training/modules.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "serve/training/trained_model.h"

namespace hone::serve {
namespace {

constexpr std::int64_t kMaxRank = 1024;

enum class Kind : std::uint8_t { kAttention, kMlp, kNone };

// By the module that holds the linear: "model.layers.0.mlp.gate_proj". What mixes tokens counts as attention.
Kind kind_of(const std::string& name) {
  if (name.find(".layers.") == std::string::npos) return Kind::kNone;
  for (const char* mlp : {"mlp", "feed_forward", "moe", "experts", "expert"})
    if (name.find(mlp) != std::string::npos) return Kind::kMlp;
  return name.find("per_layer") == std::string::npos ? Kind::kAttention : Kind::kNone;
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

std::string last_two(const std::string& name) {
  const std::size_t last = name.rfind('.');
  const std::size_t before = last == std::string::npos ? last : name.rfind('.', last - 1);
  return before == std::string::npos ? name : name.substr(before + 1);
}

void check(const LoraChoice& choice, const model::CausalLm& model) {
  if (choice.rank < 1 || choice.rank > kMaxRank) {
    throw base::UserError({.where = "lora_config.rank",
                           .expected = "a whole number from 1 to " + std::to_string(kMaxRank),
                           .found = std::to_string(choice.rank),
                           .cause = {},
                           .fix = {}});
  }
  if (!choice.attention && !choice.mlp && !choice.unembed) {
    throw base::UserError({.where = "lora_config",
                           .expected = "something to train",
                           .found = "train_attn, train_mlp and train_unembed false",
                           .cause = {},
                           .fix = {}});
  }
  const auto all = model.linears_and_head();
  const bool has_experts = std::any_of(all.begin(), all.end(), [](const ops::Linear* linear) {
    return linear->stacked > 1 || !linear->adapter_name.empty();
  });
  if (!choice.mlp || !has_experts) return;
  throw base::UserError({.where = "lora_config.train_mlp",
                         .expected = "false, for a model with experts",
                         .found = "true",
                         .cause = "a LoRA on stacked experts cannot be beside other adapters in a server",
                         .fix = "pass train_mlp=False, or train the experts with hone grpo or hone sft"});
}

}  // namespace

std::vector<std::string> target_modules(const LoraChoice& choice, const model::CausalLm& model) {
  check(choice, model);
  std::set<std::string> chosen, others;  // whole names
  for (const ops::Linear* linear : model.linears()) {
    const Kind kind = kind_of(linear->name);
    const bool wanted = (kind == Kind::kAttention && choice.attention) || (kind == Kind::kMlp && choice.mlp);
    (wanted ? chosen : others).insert(linear->name);
  }
  (choice.unembed ? chosen : others).insert(model.head_linear().name);
  std::set<std::string> taken, out;
  for (const std::string& other : others) taken.insert(last_part(other));
  for (const std::string& name : chosen)
    out.insert(taken.contains(last_part(name)) ? last_two(name) : last_part(name));
  return {out.begin(), out.end()};
}

}  // namespace hone::serve
