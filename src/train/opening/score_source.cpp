#include "train/opening/score_source.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "base/rng.h"

namespace hone::train {

DecoderSource::DecoderSource(std::unique_ptr<model::WeightSource> folder)
    : folder_(std::move(folder)), config_(folder_->config()) {
  config_.has_head = false;
}

std::vector<std::string> DecoderSource::names() const {
  std::vector<std::string> out = folder_->names();
  std::erase_if(out, is_head);
  return out;
}

std::optional<at::Tensor> DecoderSource::score() const {
  if (!folder_->has(kScoreWeight)) return std::nullopt;
  const auto shape = folder_->shape(kScoreWeight);
  if (shape.size() == 2 && shape[0] == 1 && shape[1] == config_.hidden_size)
    return folder_->read(kScoreWeight, at::kFloat);
  const std::string rows = shape.empty() ? "0" : std::to_string(shape[0]);
  throw base::UserError({.where = path().string() + ": " + kScoreWeight,
                         .expected = "one label, which is the reward (RL-06)",
                         .found = rows + " labels",
                         .cause = "a classifier of several classes",
                         .fix = "take a reward model with num_labels 1"});
}

at::Tensor new_score_head(const model::ModelConfig& config, std::uint64_t seed) {
  const base::Json& text = config.wrapped ? config.json.at("text_config") : config.json;
  const auto range = text.find("initializer_range");
  const bool said = range != text.end() && range->is_number();
  const double deviation = said ? range->get<double>() : 0.02;
  constexpr std::uint64_t kSubstream = 0x5C0E;  // no linear's name hashes here but by chance of 2^-48
  const base::Stream stream(seed, base::Purpose::kLoraInit, 0, kSubstream);
  at::Tensor out = at::empty({1, config.hidden_size}, at::kFloat);
  float* values = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < config.hidden_size; ++i)
    values[i] = static_cast<float>(deviation) * stream.normal(static_cast<std::uint64_t>(i));
  return out;
}

}  // namespace hone::train
