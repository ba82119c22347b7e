#include "commands/verify/hypotheses.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "model/config/layer_of.h"
#include "serve/prompt_scores.h"

namespace hone::commands {

namespace {

constexpr float kLeastLikely = -10;
constexpr std::int64_t kLeastTokens = 16;  // of a share's error

bool is_attention(const std::string& name) {
  return name.find("attn") != std::string::npos || name.find("attention") != std::string::npos ||
         name.find(".conv.") != std::string::npos || name.find("mamba") != std::string::npos;
}

bool is_expert(const std::string& name) {
  return name.find(".experts") != std::string::npos;
}

// The tensors alone: what is cached of them beside a scale is made again under another scale.
ops::LoraWeights tensors_of(const ops::LoraWeights& side) {
  ops::LoraWeights out;
  out.a = side.a.detach(), out.b = side.b.detach();
  if (side.magnitude.defined()) out.magnitude = side.magnitude.detach();
  out.scale = side.scale;
  return out;
}

constexpr const char* kMerge = "merge it (hone merge) and serve the merged model";

}  // namespace

Hypotheses::Hypotheses(model::CausalLm& model, const adapters::Adapter& adapter)
    : model_(model), rows_(model.token_rows()), parts_(model.trained_parts()) {
  for (ops::Linear* const linear : model_.linears_and_head())
    if (linear->lora) sides_.emplace_back(linear, tensors_of(*linear->lora));
  add({.code = kApplied, .words = "the adapter is applied", .cause = {}, .fix = {}},
      {.share = [](const ops::Linear&) { return 1.0; }});
  add({.code = kBaseOnly,
       .words = "the base answers: the adapter is not applied",
       .cause = "the server dropped its tensors without an error, or the request names the base",
       .fix =
           "compare the names of its tensors with the server's rules above, and ask for the adapter by its name"},
      {.share = [](const ops::Linear&) { return 0.0; }, .with_parts = false});
  add_halves();
  add_scales(adapter.config());
  if (!sides_.empty() && (parts_.any() || rows_.defined()))
    add({.code = "lora_only",
         .words = "its LoRA is applied, and what was trained in full is not",
         .cause = "the server skips embeddings, heads or norms of an adapter",
         .fix = kMerge},
        {.share = [](const ops::Linear&) { return 1.0; }, .with_parts = false});
}

Hypotheses::~Hypotheses() {
  restore();
}

void Hypotheses::add(Hypothesis hypothesis, Weights weights) {
  all_.push_back(std::move(hypothesis));
  weights_.push_back(std::move(weights));
}

// Parts of the adapter alone, and all but one of them.
void Hypotheses::add_halves() {
  const auto half = [this](const char* code, const char* words, const char* cause, const auto& keeps) {
    std::size_t kept = 0;
    for (const auto& [linear, side] : sides_) kept += keeps(*linear) ? 1 : 0;
    if (kept == 0 || kept == sides_.size()) return;
    add({.code = code, .words = words, .cause = cause, .fix = kMerge},
        {.share = [keeps](const ops::Linear& linear) { return keeps(linear) ? 1.0 : 0.0; }});
  };
  const ops::Linear* const head = &model_.head_linear();
  const std::int64_t middle = (model_.config().num_hidden_layers + 1) / 2;
  const auto in_attention = [head](const ops::Linear& linear) {
    return &linear != head && is_attention(linear.named_in_adapters());
  };
  const auto in_mlp = [head](const ops::Linear& linear) {
    return &linear != head && !is_attention(linear.named_in_adapters());
  };
  const char* const kNames = "the other half's names match no module of the server's";
  half("attention_only", "half of it is applied: attention alone", kNames, in_attention);
  half("mlp_only", "half of it is applied: MLPs alone", kNames, in_mlp);
  half("lower_layers_only", "half of it is applied: the lower layers alone",
       "the server splits the layers, and a part of it has no adapter",
       [middle](const ops::Linear& linear) { return model::layer_of(linear.named_in_adapters()) < middle; });
  half("upper_layers_only", "half of it is applied: the upper layers alone",
       "the server splits the layers, and a part of it has no adapter",
       [middle](const ops::Linear& linear) { return model::layer_of(linear.named_in_adapters()) >= middle; });
  half("no_experts", "its experts are not applied",
       "names or shapes of stacked experts do not fit the server's",
       [](const ops::Linear& linear) { return !is_expert(linear.named_in_adapters()); });
  half("no_head", "its LoRA of the head is not applied", "the server has no LoRA on the head",
       [head](const ops::Linear& linear) { return &linear != head; });
}

void Hypotheses::add_scales(const adapters::LoraConfig& config) {
  const auto root = [](const ops::Linear& linear) {
    return std::sqrt(static_cast<double>(linear.lora->a.size(-2)));
  };
  const auto scaled = [this](const char* code, const char* words, const char* cause, const char* fix,
                             Share share) {
    const bool changes = std::any_of(sides_.begin(), sides_.end(),
                                     [&](const auto& one) { return std::abs(share(*one.first) - 1) > 1e-6; });
    if (changes) add({.code = code, .words = words, .cause = cause, .fix = fix}, {.share = std::move(share)});
  };
  if (config.rslora)
    scaled("rslora_ignored", "its scale is too small: rsLoRA is ignored",
           "the server, or a conversion, reads alpha / r and not alpha / sqrt(r)",
           "write lora_alpha * sqrt(r) as lora_alpha, with use_rslora false",
           [root](const ops::Linear& linear) { return 1 / root(linear); });
  else
    scaled("rslora_invented", "its scale is too large: it is taken for rsLoRA",
           "the server, or a conversion, reads alpha / sqrt(r) and not alpha / r",
           "compare use_rslora of the adapter_config.json that is served with that of the training",
           [root](const ops::Linear& linear) { return root(linear); });
  if (!config.rank_pattern.empty() || !config.alpha_pattern.empty()) {
    const double whole = config.rslora ? config.alpha / std::sqrt(static_cast<double>(config.r))
                                       : config.alpha / static_cast<double>(config.r);
    scaled("patterns_ignored", "its scale is wrong: rank_pattern or alpha_pattern is ignored",
           "the server, or a conversion, has one scale for all modules", kMerge,
           [whole](const ops::Linear& linear) { return whole / linear.lora->scale; });
  }
  scaled("twice", "it is applied twice, or with twice its alpha",
         "the base that is served has it merged already, or lora_alpha was changed",
         "serve the base without the adapter in it, or the merged model without the adapter",
         [](const ops::Linear&) { return 2.0; });
}

void Hypotheses::restore() {
  for (const auto& [linear, side] : sides_) linear->lora = side;
  model_.set_token_rows(rows_);
  model_.set_trained_parts(parts_);
}

void Hypotheses::put(std::size_t index) {
  const Weights& weights = weights_.at(index);
  restore();
  for (const auto& [linear, side] : sides_) {
    const double share = weights.share(*linear);
    if (share == 0) {
      linear->lora.reset();
    } else {
      linear->lora->scale *= share;
    }
  }
  if (weights.with_parts) return;
  model_.set_token_rows({});
  model_.set_trained_parts({});
}

std::vector<float> own_logprobs(const model::CausalLm& model, const ServedScores& scores) {
  if (scores.logprobs.empty()) return {};
  std::vector<float> out;
  std::exception_ptr failure;
  serve::ScoreJob job{.ids = scores.ids,
                      .from = scores.from,
                      .top = 0,
                      .version = nullptr,
                      .on_done = [&out](serve::PromptScores found) { out = std::move(found.logprobs); },
                      .on_error = [&failure](std::exception_ptr error) { failure = std::move(error); }};
  serve::score_prompt(model, std::move(job))->step();
  if (failure) std::rethrow_exception(failure);
  return out;
}

namespace {

// The mean of `of(text, token)` over the tokens that count; 0 without any.
template <typename Of>
double mean_over(const std::vector<ServedScores>& served, const Of& of) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < served.size(); ++i) {
    for (std::size_t j = 0; j < served[i].logprobs.size(); ++j) {
      if (!(served[i].logprobs[j] >= kLeastLikely)) continue;
      sum += of(i, j);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

double distance(const std::vector<ServedScores>& served, const std::vector<std::vector<float>>& own) {
  return mean_over(served, [&](std::size_t i, std::size_t j) {
    return std::abs(static_cast<double>(served[i].logprobs[j]) - own[i].at(j));
  });
}

double distance(const std::vector<ServedScores>& served, const std::vector<std::vector<float>>& own,
                const std::vector<std::vector<float>>& other) {
  return mean_over(served, [&](std::size_t i, std::size_t j) {
    return std::abs(static_cast<double>(own[i].at(j)) - other[i].at(j));
  });
}

Along along(const std::vector<ServedScores>& served, const std::vector<std::vector<float>>& from,
            const std::vector<std::vector<float>>& to) {
  const auto way = [&](std::size_t i, std::size_t j) {
    return static_cast<double>(to[i].at(j)) - from[i].at(j);
  };
  const auto rest = [&](std::size_t i, std::size_t j) {
    return static_cast<double>(served[i].logprobs[j]) - from[i].at(j);
  };
  const double length = mean_over(served, [&](auto i, auto j) { return way(i, j) * way(i, j); });
  const double common = mean_over(served, [&](auto i, auto j) { return way(i, j) * rest(i, j); });
  const double whole = mean_over(served, [&](auto i, auto j) { return rest(i, j) * rest(i, j); });
  const std::int64_t tokens = counted_tokens(served);
  if (!(length > 0) || !std::isfinite(length) || tokens < kLeastTokens)
    return {.share = HUGE_VAL, .error = HUGE_VAL};
  const double across = std::max(0.0, whole - common * common / length);
  return {.share = common / length, .error = std::sqrt(across / length / static_cast<double>(tokens - 1))};
}

std::int64_t counted_tokens(const std::vector<ServedScores>& served) {
  std::int64_t out = 0;
  for (const ServedScores& one : served)
    out += std::count_if(one.logprobs.begin(), one.logprobs.end(), [](float p) { return p >= kLeastLikely; });
  return out;
}

}  // namespace hone::commands
