#include "train/saves/run_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone::train {

using base::Json;

namespace {

// JSON has no NaN; transformers writes Python's NaN, which strict readers refuse. null is read by both.
Json finite_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

constexpr std::int64_t kMaxWhole = std::int64_t{1} << 53U;

[[noreturn]] void refuse_state(const std::string& where, const std::string& expected, const Json* found) {
  throw BadState({.where = where,
                  .expected = expected,
                  .found = found == nullptr ? "no entry of that "
                                              "name"
                                            : base::dump_json(*found).substr(0, 200),
                  .cause = "the file was edited, or is from another version",
                  .fix = "resume from another checkpoint-N folder"});
}

const Json& member(const Json& json, const std::string& name, const std::string& where,
                   const std::string& expected) {
  if (!json.is_object()) refuse_state(where, "an object with " + name, &json);
  const auto found = json.find(name);
  if (found == json.end()) refuse_state(where + " " + name, expected, nullptr);
  return *found;
}

bool is_whole(const Json& json) {
  if (json.is_number_unsigned()) return json.get<std::uint64_t>() <= std::uint64_t{kMaxWhole};
  return json.is_number_integer() && json.get<std::int64_t>() >= 0;
}

double real_of(const Json& json, const std::string& where) {
  if (json.is_number()) return json.get<double>();
  // Older hones wrote null for a number that is not finite.
  if (json.is_null() || json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  refuse_state(where, "a number", &json);
}

Json json_of_plateau(const learn::PlateauState& state) {
  Json window = Json::array();
  for (const double value : state.window) window.push_back(json_of_number(value));
  return {{"rate", state.rate},
          {"initial", state.initial},
          {"best", json_of_number(state.best)},
          {"bad", state.bad},
          {"good", state.good},
          {"cooldown", state.cooldown},
          {"warmup", state.warmup},
          {"reset_left", state.reset_left},
          {"window", window},
          {"window_sum", json_of_number(state.window_sum)}};
}

learn::PlateauState plateau_of(const Json& json, const std::string& where) {
  learn::PlateauState out;
  out.rate = real_number(json, "rate", where);
  out.initial = real_number(json, "initial", where);
  out.best = real_number(json, "best", where);
  out.bad = whole_number(json, "bad", where);
  out.good = whole_number(json, "good", where);
  out.cooldown = whole_number(json, "cooldown", where);
  out.warmup = whole_number(json, "warmup", where);
  out.reset_left = whole_number(json, "reset_left", where);
  const Json& window = member(json, "window", where, "a list");
  if (!window.is_array()) refuse_state(where + " window", "a list of numbers", &window);
  for (const Json& value : window) out.window.push_back(real_of(value, where + " window"));
  out.window_sum = real_number(json, "window_sum", where);
  return out;
}

}  // namespace

std::int64_t whole_number(const Json& json, const std::string& name, const std::string& where) {
  constexpr const char* kExpected = "a whole number, 0 or more";
  const Json& found = member(json, name, where, kExpected);
  if (!is_whole(found)) refuse_state(where + " " + name, kExpected, &found);
  return found.get<std::int64_t>();
}

double real_number(const Json& json, const std::string& name, const std::string& where) {
  return real_of(member(json, name, where, "a number"), where + " " + name);
}

Json json_of_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

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
  for (const Sum& one : sums_) out.push_back({one.name, json_of_number(one.sum), one.count});
  return out;
}

MetricMeans MetricMeans::from_json(const Json& json, const std::string& where) {
  constexpr const char* kExpected = "metrics: a list of [name, sum, count]";
  MetricMeans out;
  if (!json.is_array()) refuse_state(where, kExpected, &json);
  for (const Json& one : json) {
    if (!one.is_array() || one.size() != 3 || !one[0].is_string() || !is_whole(one[2]))
      refuse_state(where, kExpected, &one);
    out.sums_.push_back({.name = one[0].get<std::string>(),
                         .sum = real_of(one[1], where),
                         .count = one[2].get<std::int64_t>()});
  }
  return out;
}

Json RunState::to_json() const {
  Json out = {{"step", step},
              {"num_tokens", num_tokens},
              {"total_loss", json_of_number(total_loss)},
              {"loss_sum", json_of_number(loss_sum)},
              {"steps_since_log", steps_since_log},
              {"metrics", metrics.to_json()},
              {"log_history", log_history},
              {"data_rows", data_rows},
              {"data_crc32c", data_crc32c},
              {"evaluation_due", evaluation_due}};
  if (plateau) out["plateau"] = json_of_plateau(*plateau);
  if (best.metric) out["best"] = best.to_json();
  if (!inputs.empty()) out["inputs"] = inputs;
  if (!machine.empty()) out["machine"] = machine;
  return out;
}

RunState RunState::from_json(const Json& json, const std::string& where) {
  const auto whole = [&](const char* name) { return whole_number(json, name, where); };
  RunState state;
  state.step = whole("step");
  state.num_tokens = whole("num_tokens");
  state.total_loss = real_number(json, "total_loss", where);
  state.loss_sum = real_number(json, "loss_sum", where);
  state.steps_since_log = whole("steps_since_log");
  state.metrics = MetricMeans::from_json(member(json, "metrics", where, "a list"), where);
  state.log_history = member(json, "log_history", where, "a list");
  const bool records =
      state.log_history.is_array() && std::all_of(state.log_history.begin(), state.log_history.end(),
                                                  [](const Json& one) { return one.is_object(); });
  if (!records) refuse_state(where + " log_history", "a list of objects", &state.log_history);
  if (json.contains("data_rows")) state.data_rows = whole("data_rows");
  if (json.contains("data_crc32c")) {
    const std::int64_t crc = whole("data_crc32c");
    if (crc > std::numeric_limits<std::uint32_t>::max())
      refuse_state(where + " data_crc32c", "a checksum of 32 bits", &json["data_crc32c"]);
    state.data_crc32c = static_cast<std::uint32_t>(crc);
  }
  if (json.contains("inputs")) {
    state.inputs = json["inputs"];
    if (!state.inputs.is_object()) refuse_state(where + " inputs", "an object", &state.inputs);
  }
  if (json.contains("machine")) {
    state.machine = json["machine"];
    if (!state.machine.is_object()) refuse_state(where + " machine", "an object", &state.machine);
  }
  if (json.contains("plateau")) state.plateau = plateau_of(json["plateau"], where + " plateau");
  if (json.contains("best")) state.best = BestCheckpoint::from_json(json["best"], where + " best");
  if (json.contains("evaluation_due")) {
    const Json& due = json["evaluation_due"];
    if (!due.is_boolean()) refuse_state(where + " evaluation_due", "true or false", &due);
    state.evaluation_due = due.get<bool>();
  }
  return state;
}

Json trainer_state_json(const RunState& state, const TrainerStateFacts& facts) {
  const Json best_metric = state.best.metric ? finite_or_null(*state.best.metric) : Json(nullptr);
  const Json best_step = state.best.step > 0 ? Json(state.best.step) : Json(nullptr);
  const std::string& folder = facts.best_model_checkpoint;
  return {{"best_global_step", best_step},
          {"best_metric", best_metric},
          {"best_model_checkpoint", folder.empty() ? Json(nullptr) : Json(folder)},
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
  for (const auto& [name, value] : record.values) values.emplace_back(name, finite_or_null(value));
  values.emplace_back("epoch", finite_or_null(record.epoch));
  values.emplace_back("step", record.step);
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json entry = Json::object();
  for (auto& [name, value] : values) entry[name] = std::move(value);
  return entry;
}

}  // namespace hone::train
