// push_to_hub: a run's adapter, its tokenizer and a model card, uploaded by the user's own Python (huggingface_hub), which has
// the token. An upload that fails loses nothing: it is told in a sentence, with the command that repeats it.
//
// What is uploaded, in one commit each:
//   adapter_config.json, adapter_model.safetensors, base_adapters.json (or, of full fine-tuning, config.json,
//   generation_config.json, model*.safetensors and their index), the tokenizer's files and chat template, README.md
//   last-checkpoint/ (hub_strategy checkpoint), checkpoint-N/ (all_checkpoints): all of that folder
// Neither metrics nor completions nor plan.yaml are, but for those in checkpoints.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/process/python_process.h"
#include "config/plan.h"
#include "report/terminal/run_follower.h"

namespace hone::commands {

// A commit to be made.
struct HubUpload {
  std::vector<std::pair<std::string, std::string>> files;  // path in the repository, path here
  std::string message;
  base::fs::path folder;  // that stage() has made; empty: the repository only
};

// Makes upload.folder, at `place` or, where that cannot be written, below the system's temporary folder: links to the files, else
// copies, because a checkpoint may be deleted while it is uploaded. Whoever calls it removes the folder.
void stage(HubUpload& upload, const base::fs::path& place);

// The result files of `folder` (the list above) that are there, without README.md.
std::vector<std::pair<std::string, std::string>> result_files(const base::fs::path& folder);

// The card of `repository`, by what is in `run`; `method` may be empty.
std::string model_card_of(const base::fs::path& run, const std::string& repository, const std::string& method,
                          const base::Json& options);
// Writes it as `folder`/README.md, which a checkpoint's is not, since its files are counted. A README.md that is there is kept: with
// `keep` any, else one that does not hold hone's own sentence, which a user has written. Its path.
std::string write_model_card(const base::fs::path& folder, const std::string& card, bool keep);

// The name that is uploaded to: hub_model_id, else that of the folder, as in transformers.
std::string repository_of(const std::string& hub_model_id, const std::string& folder);

// One upload in a process of its own, from its start to its one answer.
class HubProcess {
 public:
  // `shows_output`: progress bars go to stderr.
  HubProcess(const config::HubPlan& plan, const std::string& repository, const HubUpload& upload,
             const std::string& python, bool shows_output);
  bool poll();  // whether it has answered; never waits
  bool wait(base::Clock::time_point until, const std::atomic<bool>* stop);  // the same, after waiting
  // After that: why it failed, "" when it did not; where the user finds it; the whole name.
  const std::string& failure() const { return failure_; }
  const std::string& url() const { return url_; }
  const std::string& repository() const { return repository_; }

 private:
  bool take(const std::vector<base::Json>& messages);

  base::PythonProcess process_;
  std::string failure_, url_, repository_;
  bool answered_ = false;
};

// A run with push_to_hub. hub_strategy and hub_always_push mean what they mean in transformers' Trainer._push_from_checkpoint.
class HubPush final : public report::RunFollower {
 public:
  // `stop`, where there is one, ends the wait for the last upload; both outlive this.
  HubPush(const config::Plan& plan, const std::atomic<bool>* stop) : plan_(plan), stop_(stop) {}

  void on_start(const train::StartFacts& facts, const Say& say) override;
  void on_save(const std::string& folder, std::int64_t step, const Say& say) override;
  void poll(const Say& say) override;
  // Waits until all is uploaded, or until `stop`; after an interrupted run for kInterruptedSeconds at most.
  void on_finish(bool interrupted, std::int64_t step, const Say& say) override;

  static constexpr int kInterruptedSeconds = 30;

 private:
  void start_next();
  void answered(const Say& say);
  HubUpload of_checkpoint(const base::fs::path& folder, std::int64_t step);
  template <typename Make>
  void add(const Make& make, const Say& say);
  void finish(base::Clock::time_point until, const Say& say);

  const config::Plan& plan_;
  const std::atomic<bool>* stop_;
  bool off_ = false;  // connections are forbidden
  base::fs::path folder_;
  std::string repository_;
  std::deque<HubUpload> waiting_;
  std::unique_ptr<HubProcess> process_;  // the one that goes on
  base::fs::path uploaded_;              // its folder
  std::int64_t staged_ = 0;              // how many there were
  bool finishing_ = false;               // the run has ended
  std::string told_;                     // how the newest one failed, told once
  std::vector<base::fs::path> skipped_;  // checkpoints that were saved while an upload went on
};

}  // namespace hone::commands
