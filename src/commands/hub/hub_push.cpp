#include "commands/hub/hub_push.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "base/strings/printable.h"
#include "commands/python/hub_texts.h"
#include "config/commands/send_plans.h"
#include "config/hub_names.h"
#include "config/write_plan.h"
#include "report/model_card.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace fs = base::fs;
using base::Clock;
using base::Json;

namespace {

constexpr const char* kStaging = ".hone-push";  // in the run's folder, while an upload goes on
constexpr std::string_view kOurSentence = "It was trained with hone.";  // report/model_card.cpp

bool is_result_file(const std::string& name) {
  constexpr std::array<std::string_view, 8> kWhole = {
      "adapter_config.json", "adapter_model.safetensors", "base_adapters.json",     "merges.txt",
      "vocab.json",          train::kModelConfigFile,     "generation_config.json", train::kModelIndexFile};
  constexpr std::array<std::string_view, 4> kBeginnings = {"tokenizer", "special_tokens", "chat_template",
                                                           "added_tokens"};
  if (name.starts_with("model") && name.ends_with(".safetensors")) return true;  // whole, or a shard
  return std::ranges::find(kWhole, name) != kWhole.end() ||
         std::ranges::any_of(kBeginnings, [&](const auto& begin) { return name.starts_with(begin); });
}

// A name of the hub; empty for what is a path here.
std::string hub_name(const Json& value) {
  if (!value.is_string()) return "";
  const std::string word = value.get<std::string>();
  std::error_code none;
  return config::looks_like_hub_name(word) && !fs::exists(word, none) ? word : "";
}

Json json_of(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return Json::object();
  const Json out = Json::parse(base::read_text(path), nullptr, /*allow_exceptions=*/false);
  return out.is_object() ? out : Json::object();
}

Json value_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? Json() : *found;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> result_files(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (is_result_file(name) && entry.is_regular_file(none))
      out.emplace_back(name, fs::absolute(entry.path()).string());
  }
  std::ranges::sort(out);
  return out;
}

std::string model_card_of(const fs::path& run, const std::string& repository, const std::string& method,
                          const Json& options) {
  const fs::path metrics = run / train::kMetricsFile;
  std::error_code none;
  const Json templates = value_of(json_of(run / "tokenizer_config.json"), "chat_template");
  const bool chat =
      fs::exists(run / "chat_template.jinja", none) || templates.is_string() || templates.is_array();
  const bool full = !fs::exists(run / train::kAdapterConfigFile, none) && train::has_model_weights(run);
  report::ModelCard card{
      .name = repository,
      .base_model = hub_name(value_of(json_of(run / train::kAdapterConfigFile), "base_model_name_or_path")),
      .dataset = hub_name(value_of(options, "dataset_name")),
      .method = method,
      .full = full,
      .chat = chat,
      .options = options,
      .logged = Json::object()};
  if (card.base_model.empty()) card.base_model = hub_name(value_of(options, "model_name_or_path"));
  if (fs::is_regular_file(metrics, none)) card.logged = report::last_metrics(base::read_text(metrics));
  return report::model_card(card);
}

std::string write_model_card(const fs::path& folder, const std::string& card, bool keep) {
  const fs::path path = folder / "README.md";
  std::error_code none;
  const bool users =
      fs::exists(path, none) && (keep || base::read_text(path).find(kOurSentence) == std::string::npos);
  if (!users) base::write_file_atomic(path, card);
  return fs::absolute(path).string();
}

std::string repository_of(const std::string& hub_model_id, const std::string& folder) {
  if (!hub_model_id.empty()) return hub_model_id;
  const fs::path path = fs::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

void stage(HubUpload& upload, const fs::path& place) {
  std::error_code failed;
  upload.folder = place;
  fs::create_directories(place, failed);
  if (failed) {
    upload.folder = fs::temp_directory_path() / ("hone-push-" + std::to_string(getpid()));
    fs::create_directories(upload.folder);
  }
  for (const auto& [name, path] : upload.files) {
    const fs::path target = upload.folder / name;
    fs::create_directories(target.parent_path());
    fs::create_hard_link(path, target, failed);
    if (failed) fs::copy_file(path, target);
  }
}

HubProcess::HubProcess(const config::HubPlan& plan, const std::string& repository, const HubUpload& upload,
                       const std::string& python, bool shows_output)
    : process_({.python = python, .program = kHubPushPython, .shows_output = shows_output}),
      repository_(repository) {
  const auto maybe = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  process_.tell({{"repository", repository},
                 {"private", plan.hub_private_repo ? Json(*plan.hub_private_repo) : Json()},
                 {"token", maybe(plan.hub_token)},
                 {"revision", maybe(plan.hub_revision)},
                 {"message", upload.message},
                 {"folder", upload.folder.empty() ? Json() : Json(fs::absolute(upload.folder).string())}});
}

bool HubProcess::take(const std::vector<Json>& messages) {
  for (const Json& message : messages) {
    const auto text = [&](const char* name) {
      const Json value = value_of(message, name);
      return value.is_string() ? base::printable(value.get<std::string>()) : std::string();
    };
    failure_ = text("failed");
    url_ = text("url");
    if (failure_.empty() && !text("repository").empty()) repository_ = text("repository");
    answered_ = true;
  }
  if (answered_ || !process_.closed()) return answered_;
  process_.finish(Clock::now() + std::chrono::seconds(1));
  failure_ = "its Python " + (process_.failure().empty() ? "ended" : base::printable(process_.failure()));
  answered_ = true;
  return true;
}

bool HubProcess::poll() {
  return answered_ || take(process_.messages());
}

bool HubProcess::wait(Clock::time_point until, const std::atomic<bool>* stop) {
  while (!answered_ && !take(process_.wait(until, stop))) {
    if (Clock::now() >= until || (stop != nullptr && stop->load())) break;
  }
  return answered_;
}

void HubPush::on_start(const train::StartFacts& facts, const Say& say) {
  folder_ = facts.output_dir;
  repository_ = repository_of(plan_.hub_model_id, folder_.string());
  std::error_code none;
  fs::remove_all(folder_ / kStaging, none);  // of a run that was killed
  if (config::hub_is_offline()) {
    off_ = true;
    say("note      push_to_hub: HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so nothing is uploaded; `hone push " +
        folder_.string() + "` does it later");
    return;
  }
  // Now, so that a token that is refused is told before hours of training.
  waiting_.push_back({});
  start_next();
}

void HubPush::start_next() {
  if (process_ || waiting_.empty()) return;
  const HubUpload next = std::move(waiting_.front());
  waiting_.pop_front();
  uploaded_ = next.folder;
  process_ = std::make_unique<HubProcess>(plan_, repository_, next, plan_.policy.python, false);
}

// Queues what `make` gives. A full disk or a file that is gone ends no run.
template <typename Make>
void HubPush::add(const Make& make, const Say& say) {
  std::string failure;
  try {
    HubUpload upload = make();
    stage(upload, folder_ / kStaging / std::to_string(++staged_));
    waiting_.push_back(std::move(upload));
  } catch (const base::UserError& error) {
    failure = error.text().where + ": " + error.text().found;
  } catch (const fs::filesystem_error& error) {
    failure = error.path1().string() + ": " + error.code().message();
  }
  if (!failure.empty())
    say("note      push_to_hub: " + failure + "; `hone push " + folder_.string() + "` uploads the adapter");
}

// The process has said its word.
void HubPush::answered(const Say& say) {
  const std::string& failure = process_->failure();
  if (!failure.empty() && (failure != told_ || finishing_)) {
    say("note      push_to_hub: " + repository_ + ": " + failure + "; nothing is lost, and `hone push " +
        folder_.string() + "` uploads the adapter" + (finishing_ ? "" : " when the run has ended"));
  }
  told_ = failure;
  if (failure.empty()) {
    repository_ = process_->repository();
    if (!uploaded_.empty()) say("pushed    " + process_->url());
  }
  process_.reset();
  std::error_code none;
  fs::remove_all(uploaded_, none);
}

void HubPush::poll(const Say& say) {
  if (process_ && process_->poll()) answered(say);
  start_next();
}

HubUpload HubPush::of_checkpoint(const fs::path& folder, std::int64_t step) {
  HubUpload out{.files = result_files(folder),
                .message = "Training in progress, step " + std::to_string(step)};
  const std::string method(config::method_name(plan_.method));
  const std::string card =
      model_card_of(folder_, repository_, method, config::plan_values(config::write_plan(plan_)));
  out.files.emplace_back("README.md", write_model_card(folder_, card, /*keep=*/false));
  return out;
}

namespace {

// All files of a checkpoint, below `place` of the repository.
void add_folder(HubUpload& upload, const fs::path& folder, const std::string& place) {
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
    if (!entry.is_regular_file(none)) continue;
    upload.files.emplace_back(place + "/" + entry.path().lexically_relative(folder).generic_string(),
                              fs::absolute(entry.path()).string());
  }
}

}  // namespace

void HubPush::on_save(const std::string& folder, std::int64_t step, const Say& say) {
  poll(say);
  if (off_ || plan_.hub_strategy == config::HubStrategy::kEnd) return;
  const bool busy = (process_ && !uploaded_.empty()) || !waiting_.empty();
  if (busy && !plan_.hub_always_push) {
    skipped_.emplace_back(folder);
    return;
  }
  const auto make = [&] {
    HubUpload upload = of_checkpoint(folder, step);
    if (plan_.hub_strategy == config::HubStrategy::kCheckpoint) {
      add_folder(upload, folder, "last-checkpoint");
      skipped_.clear();  // it is newer
    }
    if (plan_.hub_strategy == config::HubStrategy::kAllCheckpoints)
      add_folder(upload, folder, fs::path(folder).filename().string());
    return upload;
  };
  add(make, say);
  start_next();
}

void HubPush::on_finish(bool interrupted, std::int64_t step, const Say& say) {
  if (off_) return;
  if (interrupted) {
    finish(Clock::now() + std::chrono::seconds(kInterruptedSeconds), say);
    return;
  }
  const auto make = [&] {
    HubUpload last = of_checkpoint(folder_, step);
    last.message = "End of training";
    const bool newest = plan_.hub_strategy == config::HubStrategy::kCheckpoint;
    if (newest && !skipped_.empty()) add_folder(last, skipped_.back(), "last-checkpoint");
    if (plan_.hub_strategy == config::HubStrategy::kAllCheckpoints) {
      for (const fs::path& folder : skipped_) add_folder(last, folder, folder.filename().string());
    }
    return last;
  };
  add(make, say);
  say("push      " + repository_ + ": uploading the adapter");
  finish(Clock::now() + std::chrono::hours(24), say);
}

void HubPush::finish(Clock::time_point until, const Say& say) {
  finishing_ = true;
  const bool stopped = stop_ != nullptr && stop_->load();  // then a Ctrl-C more ends hone
  for (start_next(); process_; start_next()) {
    if (process_->wait(until, stopped ? nullptr : stop_)) {
      answered(say);
      continue;
    }
    say("note      push_to_hub: " + repository_ + ": not uploaded yet, and ended; `hone push " +
        folder_.string() + "` does it");
    process_.reset();
    waiting_.clear();
  }
  std::error_code none;
  fs::remove_all(folder_ / kStaging, none);
}

}  // namespace hone::commands
