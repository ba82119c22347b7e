// These read what a reward worker answers, in frames of python/frames.h. It is not trusted: every field is
// checked before it is used.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "python/frames.h"

namespace hone::rewards {

inline constexpr const char* kRewardWorker = "reward worker";  // in messages

// A function as a worker has loaded it.
struct LoadedFunction {
  std::string name;                 // __name__
  std::vector<std::string> needed;  // columns without a default
  std::vector<std::string> reads;   // columns that its source looks up where they are there; no proof
  bool wants_environments = false;  // it cannot be called without them
  std::string file;                 // that its code is in, as Python names it in tracebacks; may be empty
};

struct PythonException {
  std::string what;    // "TypeError: ..."
  std::string place;   // "reward.py:12 in score"; may be empty
  std::string trace;   // Python's traceback
  bool whole = false;  // about the call as a whole (a wrong count): samples alone would not tell
};

// An endpoint that may answer when it is asked again (endpoint.h).
struct RetryLater {
  enum class Kind { kBusy, kAbsent, kShaky, kSlow };
  Kind kind = Kind::kShaky;
  std::string what;    // "503 Service Unavailable, ..."
  double seconds = 0;  // that it asks to wait; finite, at least 0
};

struct LoadReply {
  std::vector<LoadedFunction> functions;
  std::optional<base::ErrorText> fault;  // without `where`
  std::size_t function = 0;              // whose fault
};

struct ScoreReply {
  std::vector<double> rewards;  // [n] finite or kNone
  std::vector<std::pair<std::size_t, std::string>> bad;
  std::vector<std::pair<std::string, std::vector<base::Json>>> extra;  // [n] values each
  std::vector<std::pair<std::string, double>> metrics;
  std::optional<PythonException> raised;  // the rest is empty
  std::optional<RetryLater> later;        // the rest is empty
  std::optional<base::ErrorText> fault;   // without `where`; the rest is empty
  bool fault_may_pass = false;
};

// UserError for an answer that is not as worker_script.h says, for `functions` functions or `samples`
// samples.
LoadReply parse_load_reply(std::string_view frame, std::size_t functions);
ScoreReply parse_score_reply(std::string_view frame, std::size_t samples);

}  // namespace hone::rewards
