// The state of a run: everything besides parameters and moments that the next step depends on. Randomness is
// counter-based and the data's order a function of the step, so it is little more than a step number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "learn/plateau.h"
#include "train/facts/step_facts.h"
#include "train/saves/best_checkpoint.h"

namespace hone::train {

// Part of a saved state is not what hone writes there: gone, of another type, out of range.
class BadState : public base::UserError {
 public:
  using UserError::UserError;
};

// The whole number from 0 to 2^53 that `json` has under `name`, and any number; `where` names the file.
// Numbers that JSON cannot hold are the texts "inf", "-inf" and "nan". BadState for everything else.
std::int64_t whole_number(const base::Json& json, const std::string& name, const std::string& where);
double real_number(const base::Json& json, const std::string& name, const std::string& where);
base::Json json_of_number(double value);  // as real_number reads it

// Means of named numbers, in the order in which the names first came. NaN is left out, as TRL's log does; a
// name that was only NaN has the mean NaN.
class MetricMeans {
 public:
  void add(const std::string& name, double value);
  std::vector<NamedValue> values() const;
  void clear() { sums_.clear(); }

  base::Json to_json() const;
  static MetricMeans from_json(const base::Json& json, const std::string& where);

 private:
  struct Sum {
    std::string name;
    double sum = 0;
    std::int64_t count = 0;
  };
  std::vector<Sum> sums_;
};

struct RunState {
  std::int64_t step = 0;        // optimizer steps done
  std::int64_t num_tokens = 0;  // tokens seen since the start
  double total_loss = 0;        // sum of all steps' losses, for train_loss
  // since the last log; TRL logs means over steps (loss) and over micro-batches (metrics)
  double loss_sum = 0;
  std::int64_t steps_since_log = 0;
  MetricMeans metrics;
  base::Json log_history = base::Json::array();  // transformers' own records
  // The training file: another one under a resumed run is worth a note. 0 rows: an older hone did not say.
  std::int64_t data_rows = 0;
  std::uint32_t data_crc32c = 0;
  // What the run reads besides its rows, each with a checksum (input_files.h); empty: an older hone did not say.
  base::Json inputs = base::Json::object();
  // What decides bits and is no option (machine_facts() of same_run.h): an object of texts; empty: an older
  // hone did not say.
  base::Json machine = base::Json::object();
  std::optional<learn::PlateauState> plateau;  // of reduce_lr_on_plateau and greedy
  BestCheckpoint best;                         // where metric_for_best_model is set
  bool evaluation_due = false;  // of this step, which an error cut short: a resumed run begins with it

  base::Json to_json() const;  // doubles round-trip exactly
  // BadState, with `where`, for what to_json() does not write.
  static RunState from_json(const base::Json& json, const std::string& where);
};

// The numbers that transformers' TrainerState holds besides log_history.
struct TrainerStateFacts {
  std::int64_t max_steps = 0, logging_steps = 0, eval_steps = 0, save_steps = 0;
  std::int64_t train_batch_size = 0;
  double num_train_epochs = 0;
  double epoch = 0;
  std::string best_model_checkpoint = {};  // the folder; empty: none
};

// trainer_state.json as transformers 5.23 writes it.
base::Json trainer_state_json(const RunState& state, const TrainerStateFacts& facts);

// A record as it stands in log_history: values, then epoch and step, keys sorted as transformers' json.dumps
// does.
base::Json log_history_entry(const LogRecord& record);

}  // namespace hone::train
