// The interface of everything that scores completions: Python functions of the user, built-in functions, HTTP
// endpoints and (in train/, since it needs a model) sequence-classification models.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace hone::rewards {

// TRL's None: this function does not score it
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// One call: n completions, whole groups, those of the same prompt adjacent, in the batch's order: a generation batch,
// or one group of it.
struct Request {
  std::vector<base::Json> prompts;      // [n] text, or the messages of a conversational data set
  std::vector<base::Json> completions;  // [n] text, or [{"role": "assistant", "content": text}]
  std::vector<std::vector<std::int32_t>> completion_ids;  // [n]
  base::Json columns = base::Json::object();        // the data's other columns: name -> array of n values
  base::Json trainer_state = base::Json::object();  // of transformers: global_step, max_steps, epoch, ...
  std::int64_t first_sample = 0;                    // of the generation batch: names samples in messages
  std::vector<base::Json> environments =
      {};  // [n] [name, number], the sample's instance (tools/tool_pool.h); empty: none

  std::size_t size() const { return completions.size(); }
};

// A sample that could not be scored: it counts as kNone, with a warning.
struct Failure {
  std::int64_t sample = 0;  // 0-based in the generation batch
  std::string what;         // "TypeError: ... (reward.py:12 in score)", "NaN", "no answer within 30 s"
};

// Holds what a function printed (stdout and stderr) during one call, as it is, and the samples of the call.
struct Printed {
  std::int64_t first = 0, count = 0;  // 0-based in the generation batch
  std::string text;
};

struct Scores {
  std::vector<double> values;  // [n], finite or kNone
  std::vector<Failure> failures;
  // log_extra(column, values) and log_metric(name, value), in the order of the calls.
  std::vector<std::pair<std::string, std::vector<base::Json>>> extra;  // [n] values each
  std::vector<std::pair<std::string, double>> metrics;
  // Errors that were recovered, for the report: "the worker was killed by SIGKILL ...; the call was
  // repeated".
  std::vector<std::string> notes;
  // When no sample was scored and every one is a Failure: the error of a run whose other calls go no better.
  // Whether they do is judged over a generation batch, and over batches (failure_tracker.h).
  std::optional<base::ErrorText> broken;
  std::vector<Printed> printed = {};
  double seconds = 0;
};

// Ends the run, even if the function has scored before: an endpoint that stays down beyond the limit of
// http_reward.h, or Ctrl-C while it is waited for.
class RewardUnavailable : public base::UserError {
 public:
  using base::UserError::UserError;
};

class Reward {
 public:
  virtual ~Reward() = default;
  // As TRL names it in rewards/<name>/mean: the function's __name__, the model folder's last part.
  virtual const std::string& name() const = 0;
  // Called from several threads at once. Failures of samples are in Scores::failures, and in Scores::broken
  // if all samples failed; a single bad row never throws. UserError for errors of every call: a missing
  // column, a wrong address, a worker that cannot start. Also RewardUnavailable.
  virtual Scores score(const Request& request) = 0;
  // Columns of the data that it requires, from its own code (required_columns of open_reward.h).
  virtual std::vector<std::string> required_columns() const { return {}; }
  // Columns that its source looks up where the data have them, `kwargs.get("answer")` or `answer=None`; a
  // function may read others too.
  virtual std::vector<std::string> read_columns() const { return {}; }
  // True: it can be called only with Request::environments, so no answer can be made up for it.
  virtual bool wants_environments() const { return false; }
  // The useful number of concurrent calls: the workers of a function, 1 for built-in ones.
  virtual int parallel_calls() const { return 1; }
  // Returns whether a score may depend on completions of other prompts, so that it wants the whole generation
  // batch at once, as TRL calls it: the user's own functions and endpoints. Otherwise a group is scored as
  // soon as it is there.
  virtual bool takes_batch() const { return false; }
  // Calls that wait for an endpoint, and later ones that would, throw RewardUnavailable at once: the run
  // ends.
  virtual void give_up() {}
  // Resets the state that earlier calls left in a function (counters, caches, the state of `random`): the
  // next call is like the first. No call may be running.
  virtual void reset() {}
};

}  // namespace hone::rewards
