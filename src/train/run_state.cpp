#include "train/run_state.h"

#include <algorithm>
#include <cmath>

namespace hone::train {

using base::Json;

namespace {

// JSON has no NaN; transformers writes Python's NaN, which strict readers refuse. null is read by both.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace

void MetricMeans::add(const std::string& name, double value) {
  auto found = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& one) { return one.name == name; });
  if (found == sums_.end()) found = sums_.insert(sums_.end(), Sum{.name = name});
  if (std::isnan(value)) return;
  found->sum += value;
  found->count += 1;
}

std::vector<NamedValue> MetricMeans::values() const {
  std::vector<NamedValue> out;
  // 0 / 0 is the NaN of a name without values.
  for (const Sum& one : sums_) out.emplace_back(one.name, one.sum / static_cast<double>(one.count));
  return out;
}

Json MetricMeans::to_json() const {
  Json out = Json::array();
  for (const Sum& one : sums_) out.push_back({one.name, one.sum, one.count});
  return out;
}

MetricMeans MetricMeans::from_json(const Json& json) {
  MetricMeans out;
  for (const Json& one : json) {
    out.sums_.push_back({.name = one.at(0).get<std::string>(),
                         .sum = one.at(1).get<double>(),
                         .count = one.at(2).get<std::int64_t>()});
  }
  return out;
}

Json RunState::to_json() const {
  return {{"step", step},
          {"num_tokens", num_tokens},
          {"total_loss", total_loss},
          {"loss_sum", loss_sum},
          {"steps_since_log", steps_since_log},
          {"metrics", metrics.to_json()},
          {"log_history", log_history},
          {"data_rows", data_rows},
          {"data_crc32c", data_crc32c}};
}

RunState RunState::from_json(const Json& json) {
  RunState state;
  state.step = json.at("step").get<std::int64_t>();
  state.num_tokens = json.at("num_tokens").get<std::int64_t>();
  state.total_loss = json.at("total_loss").get<double>();
  state.loss_sum = json.at("loss_sum").get<double>();
  state.steps_since_log = json.at("steps_since_log").get<std::int64_t>();
  state.metrics = MetricMeans::from_json(json.at("metrics"));
  state.log_history = json.at("log_history");
  state.data_rows = json.value("data_rows", std::int64_t{0});
  state.data_crc32c = json.value("data_crc32c", std::uint32_t{0});
  return state;
}

Json trainer_state_json(const RunState& state, const TrainerStateFacts& facts) {
  return {{"best_global_step", nullptr},
          {"best_metric", nullptr},
          {"best_model_checkpoint", nullptr},
          {"epoch", facts.epoch},
          {"eval_steps", facts.eval_steps},
          {"global_step", state.step},
          {"is_hyper_param_search", false},
          {"is_local_process_zero", true},
          {"is_world_process_zero", true},
          {"log_history", state.log_history},
          {"logging_steps", facts.logging_steps},
          {"max_steps", facts.max_steps},
          {"num_input_tokens_seen", state.num_tokens},
          {"num_train_epochs", static_cast<std::int64_t>(std::ceil(facts.num_train_epochs))},
          {"save_steps", facts.save_steps},
          {"stateful_callbacks", Json::object()},
          {"total_flos", 0.0},
          {"train_batch_size", facts.train_batch_size},
          {"trial_name", nullptr},
          {"trial_params", nullptr}};
}

Json log_history_entry(const LogRecord& record) {
  std::vector<std::pair<std::string, Json>> values;
  for (const auto& [name, value] : record.values) values.emplace_back(name, number(value));
  values.emplace_back("epoch", number(record.epoch));
  values.emplace_back("step", record.step);
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json entry = Json::object();
  for (auto& [name, value] : values) entry[name] = std::move(value);
  return entry;
}

}  // namespace hone::train
