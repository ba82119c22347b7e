// The program that called this one (the Python package's hone.trl): it is told what happens in a run, and asked after each event
// whether the run goes on.
//
// Its Unix socket is named by HONE_CALLER (program_paths.h). Lines of JSON; each of ours is answered by {"stop": bool}, and the
// run waits for that answer, so that a stop after step 7 is one after step 7:
//   {"event": "begin", "first_step", "total_steps", "steps_per_epoch", "output_dir"}
//   {"event": "step", "step", "epoch", "total_steps", "num_tokens"}
//   {"event": "log", "record": a line of metrics.jsonl}
//   {"event": "save", "step", "folder"}
//   {"event": "end", "step", "folder", "interrupted"}
// A caller that dies ends the run as SIGTERM does: after its step, saved. One that closes the socket is told no more.
#pragma once

#include <string>

#include "base/files/file.h"
#include "base/json.h"
#include "train/facts/step_facts.h"

namespace hone::commands {

// Passes every event on to `inner`, then tells the caller.
class CallerLink final : public train::RunListener {
 public:
  // An empty `socket`: there is no caller. `inner` outlives this. UserError when nobody listens at it.
  CallerLink(train::RunListener& inner, const base::fs::path& socket);
  CallerLink(const CallerLink&) = delete;
  CallerLink& operator=(const CallerLink&) = delete;
  ~CallerLink() override;

  void on_start(const train::StartFacts& facts) override;
  void on_verdict(const base::Verdict& verdict, std::int64_t step) override;
  void on_rollout(const train::RolloutFacts& facts) override;
  void on_samples(const train::SampleFacts& facts) override;
  void on_step(const train::StepFacts& facts, std::int64_t total_steps) override;
  void on_log(const train::LogRecord& record) override;
  void on_memory(const train::MemoryFacts& facts) override;
  void on_save(const std::string& folder, std::int64_t step) override;
  void on_finish(const std::string& folder, bool interrupted, std::int64_t step) override;

 private:
  void tell(const base::Json& event);
  bool send_all(const std::string& text);
  void take_answer();
  void hang_up();

  train::RunListener& inner_;
  int socket_ = -1;
  std::string incoming_;
};

}  // namespace hone::commands
