#include "train/opening/model_reward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "adapters/peft_files.h"
#include "adapters/saved_vocabulary.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/stopwatch.h"
#include "config/datasets/trained_on.h"
#include "config/hub_names.h"
#include "data/records/record.h"
#include "model/causal_lm.h"
#include "model/fused_pass.h"
#include "ops/index_tensor.h"
#include "rewards/failure_tracker.h"
#include "train/opening/open_model.h"
#include "train/opening/score_source.h"

namespace hone::train {

namespace {

using base::Json;

constexpr std::size_t kPassTokens = 8192;  // of one pass, unless one conversation is longer

// What a reward is opened from: a model's folder, or an adapter's beside its base.
struct Place {
  base::fs::path model, adapter;  // adapter: empty for a whole model
  base::fs::path tokenizer;       // the adapter's own, where it has one
};

// The base that an adapter names. Of one trained on a GGUF that is the folder which `hone convert` would make
// beside it (run_setup.cpp): where it was not made, the GGUF itself.
base::fs::path base_of(const std::string& name) {
  constexpr std::string_view kConverted = "-hf";
  if (base::fs::exists(name)) return name;
  if (const auto snapshot = config::hub_snapshot(config::HubKind::kModel, name, "")) return *snapshot;
  if (!name.ends_with(kConverted)) return name;
  const base::fs::path gguf = name.substr(0, name.size() - kConverted.size()) + ".gguf";
  return base::fs::exists(gguf) ? gguf : base::fs::path(name);
}

Place place_of(const base::fs::path& folder, const base::fs::path& base) {
  if (!base::fs::exists(folder / adapters::kConfigFile))
    return {.model = folder, .adapter = {}, .tokenizer = folder};
  const std::string where = (folder / adapters::kConfigFile).string();
  const adapters::LoraConfig config =
      adapters::config_from_json(base::parse_json(base::read_text(where), where), where);
  adapters::require_kind(config, /*score_head=*/true, folder.string());
  const base::fs::path model = base.empty() ? base_of(config.base_model_name_or_path) : base;
  if (!base::fs::exists(model)) {
    throw base::UserError(
        {.where = where + ": base_model_name_or_path",
         .expected = "the reward model's base, on this disk",
         .found = "'" + model.string() + "' does not exist",
         .cause = model.is_relative() ? "the path is relative to the folder in which you run hone" : "",
         .fix = "write the path of the base there"});
  }
  return {.model = model,
          .adapter = folder,
          .tokenizer = base::fs::exists(folder / "tokenizer.json") ? folder : model};
}

// Of a model of the hub its own name, without the owner.
std::string name_of(const base::fs::path& folder) {
  if (const std::string id = config::hub_id_of(folder); !id.empty()) return id.substr(id.find('/') + 1);
  return folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
}

class ModelReward final : public rewards::Reward {
 public:
  ModelReward(const base::fs::path& folder, config::Precision precision, Json template_kwargs,
              at::Device device, const base::fs::path& base)
      : name_(name_of(folder)),
        place_(place_of(folder, base)),
        text_(open_text(place_.tokenizer, "")),
        template_kwargs_(std::move(template_kwargs)) {
    std::vector<base::fs::path> attached;
    if (!place_.adapter.empty()) attached.push_back(place_.adapter);
    const DecoderSource source(adapters::open_base(place_.model, attached));
    const model::DtypePolicy formats = dtype_policy(precision);
    const config::TrainedOn held =
        place_.adapter.empty() ? config::TrainedOn() : config::trained_on(place_.adapter.string());
    model_.emplace(source, formats, model::Storage::kPacked, quantize(held.base, held.nested, held.experts),
                   device);
    pad_ = text_.tokenizer.pad_id();
    if (!place_.adapter.empty()) {
      attach_frozen_adapters();
      adapter_.emplace(adapters::Adapter::load(*model_, place_.adapter));
      score_ = adapter_->score().detach();
      return;
    }
    const std::optional<at::Tensor> stored = source.score();
    if (!stored) {
      throw base::UserError(
          {.where = place_.model.string(),
           .expected = "a sequence-classification model with score.weight [1, hidden size] (RL-06)",
           .found = "no score.weight",
           .cause = "a language model, which gives no score",
           .fix = "name a reward model, or a function"});
    }
    score_ = stored->to(formats.linear).to(device, at::kFloat);
  }

  const std::string& name() const override { return name_; }

  rewards::Scores score(const rewards::Request& request) override {
    const auto start = base::Clock::now();
    base::require(request.prompts.size() == request.size(), name_, "a prompt of every completion");
    rewards::Scores out;
    out.values.assign(request.size(), rewards::kNone);
    data::Batch batch;
    std::vector<std::size_t> members;
    std::vector<std::int64_t> rows;
    const auto run = [&] {
      const std::vector<double> values = run_pass(batch, rows);
      for (std::size_t i = 0; i < members.size(); ++i) keep(request, members[i], values[i], out);
      batch = {};
      members.clear();
      rows.clear();
    };
    for (std::size_t i = 0; i < request.size(); ++i) {
      require_template(request.prompts[i]);
      std::vector<std::int32_t> ids;
      try {
        ids = encode(request.prompts[i], request.completions[i]);
      } catch (const base::UserError& error) {  // a conversation that the template refuses
        out.failures.push_back({request.first_sample + static_cast<std::int64_t>(i), error.text().found});
        continue;
      }
      if (ids.empty()) {
        out.failures.push_back({request.first_sample + static_cast<std::int64_t>(i), "no tokens to score"});
        continue;
      }
      if (!members.empty() && batch.ids.size() + ids.size() > kPassTokens) run();
      rows.push_back(append(batch, ids, i));
      members.push_back(i);
    }
    if (!members.empty()) run();
    out.broken = rewards::all_failed("reward " + name_, out, request.size());
    out.seconds = base::seconds_since(start);
    return out;
  }

 private:
  // An adapter that was trained above others says which.
  void attach_frozen_adapters() {
    const adapters::FrozenAdapters trained = adapters::read_frozen_adapters(place_.adapter);
    if (adapters::attach_frozen(*model_, trained.folders) == trained) return;
    throw base::UserError({.where = (place_.adapter / adapters::kFrozenAdaptersFile).string(),
                           .expected = "the adapters below it as in its training",
                           .found = "other weights in their folders",
                           .cause = "they were trained again afterwards",
                           .fix = "restore them, or train the reward model again"});
  }

  void require_template(const Json& prompt) const {
    if (!prompt.is_array() || text_.chat_template) return;
    throw base::UserError({.where = "reward " + name_,
                           .expected = "a chat template of the reward model, for conversations",
                           .found = "a tokenizer without one",
                           .fix = "give the prompts as text, or add the template to its folder"});
  }

  std::vector<std::int32_t> encode(const Json& prompt, const Json& completion) const {
    if (!prompt.is_array()) {
      const std::string rest = completion.is_string() ? completion.get<std::string>()
                                                      : completion.at(0).at("content").get<std::string>();
      return text_.tokenizer.encode(prompt.get<std::string>() + rest, false).ids;
    }
    Json messages = prompt;
    if (completion.is_array()) {
      messages.insert(messages.end(), completion.begin(), completion.end());
    } else {
      messages.push_back({{"role", "assistant"}, {"content", completion}});
    }
    return text::tokenize_chat(text_.tokenizer, *text_.chat_template,
                               {.messages = messages,
                                .tools = {},
                                .template_kwargs = template_kwargs_,
                                .add_generation_prompt = false})
        .ids;
  }

  // Lays the tokens out after the batch's others; returns the row of the last that is no pad token
  // (transformers takes the first token when all are).
  std::int64_t append(data::Batch& batch, const std::vector<std::int32_t>& ids, std::size_t sample) const {
    const auto begin = static_cast<std::int64_t>(batch.ids.size());
    std::int64_t last = 0;
    for (std::size_t j = 0; j < ids.size(); ++j) {
      if (!pad_ || ids[j] != *pad_) last = static_cast<std::int64_t>(j);
      batch.ids.push_back(ids[j]);
      batch.positions.push_back(static_cast<std::int64_t>(j));
      batch.labels.push_back(data::kIgnore);
    }
    batch.segments.push_back({.begin = begin,
                              .end = begin + static_cast<std::int64_t>(ids.size()),
                              .row = static_cast<std::int64_t>(sample)});
    return begin + last;
  }

  std::vector<double> run_pass(const data::Batch& batch, const std::vector<std::int64_t>& rows) const {
    const at::NoGradGuard no_grad;
    const ops::PassContext context = {.training = false, .adapters_on = adapter_.has_value()};
    model::FusedPass pass(*model_, batch, context);
    const at::Tensor hidden = pass.forward(ops::index_tensor(rows, at::kCPU), std::nullopt).to(at::kFloat);
    const at::Tensor scores = at::linear(hidden, score_).squeeze(1).to(at::kCPU, at::kDouble).contiguous();
    const double* const data = scores.const_data_ptr<double>();
    return {data, data + scores.numel()};
  }

  static void keep(const rewards::Request& request, std::size_t i, double value, rewards::Scores& out) {
    if (std::isfinite(value)) {
      out.values[i] = value;
    } else {
      out.failures.push_back(
          {request.first_sample + static_cast<std::int64_t>(i), "the score is not finite"});
    }
  }

  std::string name_;
  Place place_;
  OpenedText text_;
  Json template_kwargs_;
  std::optional<model::CausalLm> model_;
  std::optional<adapters::Adapter> adapter_;
  at::Tensor score_;  // [1, H] fp32
  std::optional<std::int32_t> pad_;
};

}  // namespace

std::unique_ptr<rewards::Reward> open_model_reward(const std::string& folder, config::Precision precision,
                                                   const Json& template_kwargs, at::Device device,
                                                   const base::fs::path& base) {
  return std::make_unique<ModelReward>(folder, precision, template_kwargs, device, base);
}

}  // namespace hone::train
