// What scores completions. One interface for functions of the user's Python, native ones, HTTP endpoints and
// (in train/, since it needs a model) sequence-classification models.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace hone::rewards {

constexpr double kNone =
    std::numeric_limits<double>::quiet_NaN();  // TRL's None: this function does not score it

// One call: n completions, whole groups of the same prompt beside each other, in the batch's order.
struct Request {
  std::vector<base::Json> prompts;      // [n] text, or the messages of a conversational data set
  std::vector<base::Json> completions;  // [n] text, or [{"role": "assistant", "content": text}]
  std::vector<std::vector<std::int32_t>> completion_ids;  // [n]
  base::Json columns = base::Json::object();        // the data's other columns: name -> array of n values
  base::Json trainer_state = base::Json::object();  // of transformers: global_step, max_steps, epoch, ...
  std::int64_t first_sample = 0;                    // of the generation batch: names samples in messages

  std::size_t size() const { return completions.size(); }
};

// A sample that could not be scored: it counts as kNone, and the run says so.
struct Failure {
  std::int64_t sample = 0;  // 0-based in the generation batch
  std::string what;         // "TypeError: ... (reward.py:12 in score)", "NaN", "no answer within 30 s"
};

struct Scores {
  std::vector<double> values;  // [n], finite or kNone
  std::vector<Failure> failures;
  // log_extra(column, values) and log_metric(name, value), in the order of the calls.
  std::vector<std::pair<std::string, std::vector<base::Json>>> extra;  // [n] values each
  std::vector<std::pair<std::string, double>> metrics;
  // What went wrong and was mended, for the run to tell: "the worker was killed by SIGKILL ...; the call was
  // repeated".
  std::vector<std::string> notes;
  double seconds = 0;
};

class Reward {
 public:
  virtual ~Reward() = default;
  // As TRL names it in rewards/<name>/mean: the function's __name__, the model folder's last part.
  virtual const std::string& name() const = 0;
  // Called from several threads at once. What a sample does wrong is in Scores::failures; UserError for what
  // is wrong with the function itself: another number of scores than completions, every sample failed, a
  // worker that cannot start.
  virtual Scores score(const Request& request) = 0;
  // How many calls at once are worth it: workers of a function, 1 for native ones.
  virtual int parallel_calls() const { return 1; }
  // Leaves behind what earlier calls have left in a function (counters, caches, the state of `random`): the
  // next call is as the first. No call may be under way.
  virtual void begin_anew() {}
};

}  // namespace hone::rewards
