// The processes that `hone launch` starts on one host: started, watched, told of signals, ended together.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace hone::commands {

// EX_TEMPFAIL of sysexits.h, with which a rank ends too after others were lost: starting again may help.
constexpr int kLostRank = 75;

struct RankCommand {
  int rank = 0;
  std::vector<std::string> words;  // program and arguments
  std::vector<std::pair<std::string, std::string>>
      variables;                // beside ours, which lose those of other launchers
  std::vector<int> processors;  // empty: all of ours
};

struct RankEnd {
  int rank = 0;
  int status = 0;      // of waitpid
  bool by_us = false;  // after `hone launch` itself ended it
  bool shown = false;  // what it printed was shown
  std::string said;    // the end of what it printed to stderr, where that was not shown
};

struct RankRules {
  std::chrono::milliseconds grace{
      60'000};  // for the others, after one has ended with an error; then SIGTERM, then SIGKILL
  bool all_output = false;
};

struct LaunchedRanks {
  std::vector<RankEnd> ends;  // in the order in which they ended
  bool stop_asked = false;    // by a signal
};

// Starts all, and returns when all have ended. The first rank's output is ours unless
// all_output. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 go to each rank once (commands/process/run_signals.h). UserError when
// one does not start. Call it with those signals and SIGCHLD blocked (LaunchSignals).
LaunchedRanks run_launched(const std::vector<RankCommand>& commands, const RankRules& rules, int signals);

// Blocks the signals of run_launched in this thread and those that it starts, and reads them from a descriptor.
class LaunchSignals {
 public:
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Returns what the launcher ends with: 0 when all ranks did; else the code of the first rank that ended with
// an error of its own. A rank that was killed from outside, or only saw others go, gives kLostRank; one that
// crashed gives kOurBug.
int exit_code_of(const std::vector<RankEnd>& ends);

// The ends that the user has not been told of: errors of their own, and the first rank that saw others go where nobody else said so.
std::vector<const RankEnd*> ends_to_tell(const std::vector<RankEnd>& ends);

std::string end_text(const RankEnd& end);  // "ended with code 2", "was killed by SIGKILL"

// Returns the share of rank `local` of `count` in `all` processors; one of them where there are fewer than
// ranks.
std::vector<int> processor_share(const std::vector<int>& all, int local, int count);
std::vector<int> own_processors();

}  // namespace hone::commands
