// Tests a reward on answers of known quality, for `hone reward-test`.
//
// The gold is the column that the reward reads (of several, answer, solution, ... first; GSM8K's after its
// ####). Without a tokenizer a completion's token ids are its words, numbered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rewards/reward.h"

namespace hone::rewards {

struct TrialData {
  std::vector<base::Json> prompts;  // text or messages
  base::Json columns = base::Json::object();
  std::int64_t long_words = 512;  // of the repeated answer
};

struct TrialRow {
  std::string kind;     // "gold", "gold in \boxed{}", "another row's gold", "empty", "junk", ...
  double mean = kNone;  // of what was scored
  std::int64_t rows = 0;
  std::int64_t none = 0;  // without a score, failures included
  std::int64_t failures = 0;
};

struct Trial {
  std::string name;
  std::string gold_column;  // empty: it reads none
  std::vector<TrialRow> rows;
  double seconds = 0;                   // of one call, the median
  std::vector<std::string> failures;    // the first ones
  std::vector<std::string> suspicious;  // sentences; empty: nothing
  // Says of a function that a run calls with whole batches whether rows alone get the same scores, so that
  // reward_by_group is safe. Empty: it is called by group anyway, or gave other scores for the same batch
  // too.
  std::optional<bool> safe_by_group;
  std::string printed;  // of the first call that printed
};

// `needed`: required_columns() of the reward's word.
Trial try_reward(Reward& reward, const std::vector<std::string>& needed, const TrialData& data);

}  // namespace hone::rewards
