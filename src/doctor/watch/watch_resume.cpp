// What a checkpoint keeps of the watch as a whole, and how a resumed run takes it up (watch_state.h).
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "base/json.h"
#include "doctor/watch/watch.h"
#include "doctor/watch/watch_state.h"
#include "train/opening/run_view.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {

using base::Json;
using base::Level;

namespace {

constexpr const char* kFormat = "hone-watch-1";
constexpr std::size_t kMaxTold = 10'000;

// Options under which another number is watched: a loss that begins elsewhere, another reward.
constexpr std::array<std::string_view, 18> kJudged = {"loss_type",
                                                      "loss_weights",
                                                      "beta",
                                                      "label_smoothing",
                                                      "reward_funcs",
                                                      "reward_weights",
                                                      "judge",
                                                      "replay",
                                                      "num_generations",
                                                      "max_completion_length",
                                                      "max_new_tokens",
                                                      "temperature",
                                                      "max_length",
                                                      "completion_only_loss",
                                                      "assistant_only_loss",
                                                      "truncation_mode",
                                                      "desirable_weight",
                                                      "undesirable_weight"};

// What the numbers of the run are of, as a checksum: the address of a reward may hold a secret.
std::uint32_t judged_of(const train::RunView& run) {
  std::string out = std::to_string(run.resume_state->state.data_rows) + " " +
                    std::to_string(run.resume_state->state.data_crc32c) + "\n";
  for (const auto& [name, value] : run.plan.resolved) {
    if (std::find(kJudged.begin(), kJudged.end(), name) == kJudged.end()) continue;
    out += name + ": " + value + "\n";
  }
  return base::crc32c(std::as_bytes(std::span(out)));
}

std::map<std::string, Level> told_of(const Json& json) {
  if (!json.is_object() || json.size() > kMaxTold) StateReader::refuse("told");
  std::map<std::string, Level> out;
  for (const auto& [key, level] : json.items()) {
    const std::int64_t value = StateReader(json).count(key);
    if (value < static_cast<int>(Level::kNote) || value > static_cast<int>(Level::kFail))
      StateReader::refuse(key);
    out.emplace(key, static_cast<Level>(value));
  }
  return out;
}

}  // namespace

train::StateFiles Watch::state_files() const {
  if (!run_) return {};
  const bool suspected = before_ ? before_->suspected : suspected_;
  const std::optional<RewardWatch>& rewards = before_ ? before_->rewards : rewards_;
  const std::optional<SaturationWatch>& saturation = before_ ? before_->saturation : saturation_;
  const DepthWatch& depth = before_ ? before_->depth : depth_;
  const std::optional<ToolWatch>& tools = before_ ? before_->tools : tools_;
  Json told = Json::object();
  for (const auto& [key, level] : before_ ? before_->told : reported_) {
    if (key != kMemoryKey) told[key] = static_cast<int>(level);
  }
  Json out = {{"format", kFormat},
              {"judged", judged_of(*run_)},
              {"told", told},
              {"suspected", suspected},
              {"healthy", suspected ? healthy_checkpoint_ : -1},
              {"loss_explained", loss_explained_},
              {"last_reward", last_reward_},
              {"tensors", tensors_->state(*run_->adapter)},
              {"trend", trend_->state()},
              {"preference", preference_.state()}};
  if (spikes_) out["spikes"] = spikes_->state();
  if (rewards) out["rewards"] = rewards->state();
  if (saturation) out["saturation"] = saturation->state();
  if (depth.has_seen()) out["depth"] = depth.state();
  if (tools) out["tools"] = tools->state();
  if (policy_) out["policy"] = policy_->state();
  return {{kWatchStateFile, base::dump_json(out) + "\n"}};
}

// Checkpoints without it (of an older hone, or of a run that nothing watched) leave the beginning unknown.
void Watch::resume() {
  const auto& files = run_->resume_state->method_files;
  const auto found = files.find(kWatchStateFile);
  if (found == files.end()) return;
  std::string reason;
  try {
    restore_state(base::parse_json(found->second, kWatchStateFile));
    return;
  } catch (const BadWatchState& error) {
    reason = error.what();
  } catch (const base::UserError&) {
    reason = "no JSON";
  }
  report_.on_verdict({.level = Level::kNote,
                      .part = "run",
                      .what = "the watch's state in the checkpoint cannot be read: the watch restarts",
                      .evidence = std::string(kWatchStateFile) + ": " + reason,
                      .cause = "the file was edited, or is from another version of hone"},
                     run_->resume_state->state.step);
}

// All or nothing: BadWatchState leaves everything as it is.
void Watch::restore_state(const Json& json) {
  const StateReader in(json);
  if (in.text("format") != kFormat) StateReader::refuse("format");
  TensorWatch tensors = *tensors_;
  TrendWatch trend = *trend_;
  PreferenceWatch preference = preference_;
  std::optional<SpikeWatch> spikes = spikes_;
  std::optional<RewardWatch> rewards = rewards_;
  std::optional<SaturationWatch> saturation = saturation_;
  DepthWatch depth = depth_;
  std::optional<ToolWatch> tools = tools_;
  std::optional<PolicyWatch> policy = policy_;
  std::map<std::string, Level> told;
  const bool suspected = in.flag("suspected"), loss_explained = in.flag("loss_explained");
  const std::int64_t healthy = in.count("healthy", -1);
  double last_reward = last_reward_;
  tensors.restore(in.at("tensors"), *run_->adapter);
  if (in.count("judged") == std::int64_t{judged_of(*run_)}) {
    told = told_of(in.at("told"));
    last_reward = in.number("last_reward");
    trend.restore(in.at("trend"));
    preference.restore(in.at("preference"));
    if (spikes && json.contains("spikes")) spikes->restore(in.at("spikes"));
    if (rewards) rewards->restore(in.at("rewards"));
    if (saturation && json.contains("saturation")) saturation->restore(in.at("saturation"));
    if (json.contains("depth")) depth.restore(in.at("depth"));
    if (tools && json.contains("tools")) tools->restore(in.at("tools"));
    if (policy) policy->restore(in.at("policy"));
  }
  reported_ = std::move(told);
  tensors_ = std::move(tensors);
  trend_ = std::move(trend);
  preference_ = preference;
  spikes_ = std::move(spikes);
  rewards_ = std::move(rewards);
  saturation_ = std::move(saturation);
  depth_ = depth;
  tools_ = std::move(tools);
  policy_ = policy;
  loss_explained_ = loss_explained;
  last_reward_ = last_reward;
  suspected_ = suspected;
  if (suspected) healthy_checkpoint_ = is_here(healthy) && healthy <= state_.step ? healthy : -1;
  // Who goes on after a failure that pauses has changed something, or has not: the next one needs evidence
  // of its own.
  if (on_fault_ == config::OnFault::kWarn) return;
  if (std::erase_if(reported_, [](const auto& one) { return one.second == Level::kFail; }) == 0) return;
  tensors_->reset_evidence(state_.step);
  trend_->reset_evidence();
  preference_.reset_evidence();
  if (rewards_) rewards_->reset_evidence();
  if (saturation_) saturation_->reset_evidence();
  depth_.reset_evidence();
  if (tools_) tools_->reset_evidence();
  if (policy_) policy_->reset_evidence();
}

bool Watch::is_here(std::int64_t checkpoint) const {
  const auto steps = train::checkpoint_steps(run_->directory.output_dir());
  return std::find(steps.begin(), steps.end(), checkpoint) != steps.end();
}

}  // namespace hone::doctor
