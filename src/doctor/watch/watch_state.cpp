#include "doctor/watch/watch_state.h"

#include <deque>
#include <vector>

#include "doctor/watch/tensor_watch.h"
#include "doctor/watch/watch_limits.h"
#include "doctor/watch/watch_rewards.h"
#include "doctor/watch/watch_steps.h"
#include "doctor/watch/watch_tools.h"

namespace hone::doctor {

using base::Json;

namespace {

constexpr std::size_t kMaxNames = 10'000;

}  // namespace

// ---- tensors

Json TensorWatch::state(const adapters::Adapter& adapter) const {
  Json counts = Json::object();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& one = tensors_[i];
    if (one.no_gradient == 0 && one.not_moved == 0) continue;
    counts[adapter.tensors()[i].name] = {{"no_gradient", one.no_gradient}, {"not_moved", one.not_moved}};
  }
  return {{"first_step", first_step_}, {"counts", counts}};
}

void TensorWatch::restore(const Json& state, const adapters::Adapter& adapter) {
  const StateReader in(state);
  first_step_ = in.count("first_step");
  const Json& counts = in.at("counts");
  const StateReader of(counts);
  tensors_.assign(adapter.tensors().size(), {});
  std::size_t found = 0;
  for (std::size_t i = 0; i < tensors_.size() && found < counts.size(); ++i) {
    const std::string& name = adapter.tensors()[i].name;
    if (!counts.contains(name)) continue;
    const StateReader one(of.at(name));
    tensors_[i].no_gradient = one.count("no_gradient");
    tensors_[i].not_moved = one.count("not_moved");
    ++found;
  }
}

void TensorWatch::reset_evidence(std::int64_t step) {
  first_step_ = step;
  tensors_.clear();
}

// ---- numbers of a step

Json PolicyWatch::state() const {
  return {{"low_entropy", low_entropy_},
          {"high_entropy", high_entropy_},
          {"high_kl", high_kl_},
          {"wide_gap", wide_gap_},
          {"no_gradient", no_gradient_}};
}

void PolicyWatch::restore(const Json& state) {
  const StateReader in(state);
  low_entropy_ = in.count("low_entropy");
  high_entropy_ = in.count("high_entropy");
  high_kl_ = in.count("high_kl");
  wide_gap_ = in.count("wide_gap");
  no_gradient_ = in.count("no_gradient");
}

void PolicyWatch::reset_evidence() {
  *this = PolicyWatch(setup_);
}

Json TrendWatch::state() const {
  return {{"past_unknown", past_unknown_},
          {"seen", seen_},
          {"initial", initial_},
          {"losses", losses_},
          {"norms", norms_},
          {"large_norms", large_norms_}};
}

void TrendWatch::restore(const Json& state) {
  const StateReader in(state);
  past_unknown_ = in.flag("past_unknown");
  seen_ = in.count("seen");
  initial_ = in.number("initial");
  losses_ = in.numbers<std::deque<double>>("losses", limits::kStepsAboveInitial);
  norms_ = in.numbers<std::deque<double>>("norms", limits::kNormHistory);
  large_norms_ = in.count("large_norms");
}

void TrendWatch::reset_evidence() {
  losses_.clear();
  large_norms_ = 0;
}

Json PreferenceWatch::state() const {
  return {{"past_unknown", past_unknown_},
          {"stuck", stuck_},
          {"seen", seen_},
          {"first_chosen", first_chosen_},
          {"first_margin", first_margin_},
          {"chosen", chosen_},
          {"margin", margin_}};
}

void PreferenceWatch::restore(const Json& state) {
  const StateReader in(state);
  past_unknown_ = in.flag("past_unknown");
  stuck_ = in.count("stuck");
  seen_ = in.count("seen");
  first_chosen_ = in.number("first_chosen");
  first_margin_ = in.number("first_margin");
  chosen_ = in.number("chosen");
  margin_ = in.number("margin");
}

void PreferenceWatch::reset_evidence() {
  stuck_ = 0;
}

// ---- generation batches

Json RewardWatch::Batch::state() const {
  return {{"samples", samples},
          {"scored", scored},
          {"groups", groups},
          {"dead", dead},
          {"unscored", unscored},
          {"cut", cut},
          {"cut_scored", cut_scored},
          {"at_highest", at_highest},
          {"long_enough", long_enough},
          {"repeating", repeating},
          {"reward", reward},
          {"reward_squares", reward_squares},
          {"cut_reward", cut_reward},
          {"cut_at_lowest", cut_at_lowest},
          {"parts", parts}};
}

RewardWatch::Batch RewardWatch::Batch::of(const Json& state) {
  const StateReader in(state);
  return {.samples = in.count("samples"),
          .groups = in.count("groups"),
          .dead = in.count("dead"),
          .scored = in.count(state.contains("scored") ? "scored" : "samples"),
          .unscored = state.contains("unscored") ? in.count("unscored") : 0,
          .cut = in.count("cut"),
          .cut_scored = in.count(state.contains("cut_scored") ? "cut_scored" : "cut"),
          .at_highest = in.count("at_highest"),
          .long_enough = in.count("long_enough"),
          .repeating = in.count("repeating"),
          .reward = in.number("reward"),
          .reward_squares = in.number("reward_squares"),
          .cut_reward = in.number("cut_reward"),
          .cut_at_lowest = in.flag("cut_at_lowest"),
          .parts = in.numbers<std::vector<double>>("parts", kMaxNames)};
}

Json RewardWatch::state() const {
  Json batches = Json::array(), components = Json::array();
  for (const Batch& one : batches_) batches.push_back(one.state());
  for (const Component& one : components_) {
    components.push_back({{"name", one.name},
                          {"count", one.count},
                          {"first", one.first},
                          {"varied", one.varied},
                          {"skipped", one.skipped},
                          {"sample", one.sample}});
  }
  return {{"past_unknown", past_unknown_},
          {"batches", batches},
          {"components", components},
          {"streak", streak_.state()},
          {"streak_batches", streak_batches_},
          {"ever_live", ever_live_},
          {"lowest", lowest_},
          {"highest", highest_},
          {"seen_batches", seen_batches_},
          {"baseline", baseline_.state()},
          {"repeated", repeated_}};
}

void RewardWatch::restore(const Json& state) {
  const StateReader in(state);
  past_unknown_ = in.flag("past_unknown");
  batches_.clear();
  for (const Json& one : in.list("batches", limits::kBatchesInWindow)) batches_.push_back(Batch::of(one));
  components_.clear();
  for (const Json& one : in.list("components", kMaxNames)) {
    const StateReader component(one);
    components_.push_back({.name = component.text("name"),
                           .count = component.count("count"),
                           .first = component.number("first"),
                           .varied = component.flag("varied"),
                           .skipped = one.contains("skipped") && component.flag("skipped"),
                           .sample = component.text("sample")});
  }
  streak_ = Batch::of(in.at("streak"));
  streak_batches_ = in.count("streak_batches");
  ever_live_ = in.flag("ever_live");
  lowest_ = in.number("lowest");
  highest_ = in.number("highest");
  seen_batches_ = in.count("seen_batches");
  baseline_ = Batch::of(in.at("baseline"));
  repeated_ = in.text("repeated");
}

void RewardWatch::reset_evidence() {
  batches_.clear();
  streak_ = {};
  streak_batches_ = 0;
}

// ---- dialogues with tools

Json ToolWatch::Batch::state() const {
  Json of_tools = Json::object();
  for (const auto& [name, one] : tools) of_tools[name] = {{"calls", one.calls}, {"failed", one.failed}};
  return {{"samples", samples},   {"calling", calling}, {"calls", calls},    {"unparsed", unparsed},
          {"unread", unread},     {"capped", capped},   {"groups", groups},  {"repeating", repeating},
          {"dead", dead},         {"alike", alike},     {"tools", of_tools}, {"alike_at_top", alike_at_top},
          {"sampling", sampling}, {"waiting", waiting}};
}

ToolWatch::Batch ToolWatch::Batch::of(const Json& state) {
  const StateReader in(state);
  Batch out{.samples = in.count("samples"),
            .calling = in.count("calling"),
            .calls = in.count("calls"),
            .unparsed = in.count("unparsed"),
            .unread = in.count("unread"),
            .capped = in.count("capped"),
            .repeating = in.count("repeating"),
            .groups = in.count("groups"),
            .dead = in.count("dead"),
            .alike = in.count("alike"),
            .alike_at_top = in.count("alike_at_top"),
            .sampling = in.number("sampling"),
            .waiting = in.number("waiting")};
  const Json& tools = in.at("tools");
  if (!tools.is_object() || tools.size() > kMaxNames) StateReader::refuse("tools");
  for (const auto& [name, one] : tools.items()) {
    const StateReader of(one);
    out.tools[name] = {.calls = of.count("calls"), .failed = of.count("failed")};
  }
  return out;
}

Json ToolWatch::state() const {
  Json batches = Json::array();
  for (const Batch& one : batches_) batches.push_back(one.state());
  return {{"batches", batches},
          {"ever_called", ever_called_},
          {"lowest", lowest_},
          {"highest", highest_},
          {"seen_reward", seen_reward_}};
}

void ToolWatch::restore(const Json& state) {
  const StateReader in(state);
  batches_.clear();
  for (const Json& one : in.list("batches", limits::kBatchesInWindow)) batches_.push_back(Batch::of(one));
  ever_called_ = in.flag("ever_called");
  lowest_ = in.number("lowest");
  highest_ = in.number("highest");
  seen_reward_ = in.flag("seen_reward");
}

}  // namespace hone::doctor
