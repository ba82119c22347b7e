// This watches dialogues with tools: a model that does not call (TOOL-06), calls that do not parse (TOOL-07), tools that fail (TOOL-08),
// one failing call again and again and dialogues that end at a bound (TOOL-09), results that do not fit (TOOL-03), waiting for tools
// (TOOL-10), groups that are dead since all their completions call alike (TOOL-11).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "base/json.h"
#include "doctor/watch/finding.h"
#include "train/facts/step_facts.h"

namespace hone::doctor {

class ToolWatch {
 public:
  struct Setup {
    std::int64_t group_size = 1;
    std::int64_t most_rounds = -1;      // max_tool_calling_iterations; below 0: no bound
    std::int64_t failures_to_stop = 0;  // tool_failures_to_stop
    std::int64_t most_tokens = 0;       // max_completion_length
  };
  explicit ToolWatch(Setup setup) : setup_(setup) {}

  Findings see(const train::RolloutFacts& rollouts);

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState (watch_state.h)
  void reset_evidence();                  // the window

 private:
  struct OfTool {
    std::int64_t calls = 0, failed = 0;
  };
  // A generation batch in sums.
  struct Batch {
    std::int64_t samples = 0, calling = 0, calls = 0;
    std::int64_t unparsed = 0;   // completions that begin a call of which nothing was read
    std::int64_t unread = 0;     // completions that end before the results of calls that were made
    std::int64_t capped = 0;     // completions whose last call is left unanswered, at the cap
    std::int64_t repeating = 0;  // completions that make one failing call several times
    std::int64_t groups = 0, dead = 0, alike = 0, alike_at_top = 0;  // alike: dead, and all call the same
    double sampling = 0, waiting = 0;                                // seconds
    std::map<std::string, OfTool> tools;
    void add(const Batch& other);
    base::Json state() const;
    static Batch of(const base::Json& state);
  };

  Batch sums_of(const train::RolloutFacts& rollouts);
  void add_completion(const train::CompletionFacts& one, Batch& to);
  void add_groups(const train::RolloutFacts& rollouts, Batch& to);
  void judge_calling(const Batch& all, Findings& out) const;
  void judge_failures(const Batch& all, Findings& out) const;
  void judge_loops(const Batch& all, Findings& out) const;
  void judge_room(const Batch& all, Findings& out) const;
  void judge_waiting(const Batch& all, Findings& out) const;
  void judge_groups(const Batch& all, Findings& out) const;

  Setup setup_;
  std::deque<Batch> batches_;  // the window, newest last
  bool ever_called_ = false;
  double lowest_ = 0, highest_ = 0;  // sums of rewards so far
  bool seen_reward_ = false;
  std::map<std::string, std::string> errors_;  // by tool: what the newest failed call was answered
  std::string repeated_, unparsed_;            // the newest of each, as text
};

}  // namespace hone::doctor
