// These are the last words of each rank on the board that all ranks share: where it is (`at/<rank>`, before
// and after each collective, and again every second), and why it ends (`error/<rank>`). The board outlives
// the ranks where a launcher keeps it, so the words of a rank that died can be read.
//
// A thread does all that waits for the board; a collective costs no message to it. A board that does not answer delays
// nothing but the reader, and that by its limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/link.h"

namespace hone::parallel {

// A process, for ranks of the same machine: whether it still exists.
struct ProcessName {
  std::string machine;  // machine_name()
  std::int64_t pid = 0;
  std::int64_t started = 0;  // of /proc/<pid>/stat: a number that was used again is another process
};
ProcessName this_process();

enum class ProcessState { kUnknown, kRunning, kStopped, kGone };
// kUnknown for a process of another machine.
ProcessState state_of(const ProcessName& process);

struct Words {
  std::string host;
  ProcessName process;
  std::int64_t step = 0, number = 0;  // of the collective
  std::string collective;             // empty: none yet
  bool inside = false;                // waits in it; false: has left it
  // When it came there: by the Unix clock, corrected with each pulse where that was set meanwhile; and in seconds since the machine's
  // start, which nobody sets, for ranks of the same machine.
  double since = 0, since_boot = 0;
  std::int64_t pulse = 0;  // rises every second while the process lives
  // Empty: no error. `blames`: the ranks that a rank saw fail, whose error is then a consequence; empty: its own.
  std::string error;
  std::vector<int> blames;
  bool done = false;  // needs the board no more

  bool own_error() const { return !error.empty() && blames.empty(); }
};

class LastWords {
 public:
  // Writes `self` under `rank`; every rank has done so before ranks make collectives.
  LastWords(std::shared_ptr<Board> board, int rank, int size, std::string host);
  ~LastWords();  // waits for the thread a moment; one that a dead board holds is left alone
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  void enter(std::int64_t step, std::string_view collective, std::int64_t number);
  void leave();
  // Returns when it is on the board, or after `limit`.
  void error(std::string_view text, std::vector<int> blames, std::chrono::milliseconds limit);
  // Returns the words of every rank, in order; nothing when the board does not answer within `limit`.
  std::optional<std::vector<Words>> read(std::chrono::milliseconds limit);
  // This rank needs the board no more. For the rank that keeps it: waits until the others have said the same or are gone.
  void done(bool keeps_board, std::chrono::milliseconds limit);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
};

// For tests: the bytes of a rank's words on the board.
std::string pack_words(const Words& words);
Words unpack_words(std::string_view bytes);

}  // namespace hone::parallel
