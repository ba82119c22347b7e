// A sample request on its way: jobs that draw, and scores of what is to be told of prompt and samples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rollout/completion.h"
#include "serve/scheduler.h"
#include "serve/tinker/wire.h"
#include "serve/weights.h"

namespace hone::serve {

struct SampleRun {
  std::string future, session;
  Version version;
  std::vector<std::int32_t> prompt;
  rollout::RequestOptions options;
  rollout::DrawKey key;  // of the first sample
  std::int64_t samples = 1;
  bool prompt_logprobs = false;
  std::int64_t scored_from = 1;  // the first token of the prompt with a log-probability
  std::int64_t prompt_top = 0, sample_top = 0;

  std::vector<JobId> jobs = {};
  std::vector<rollout::Completion> completions = {};
  std::size_t outstanding = 0;  // jobs and scores that are not done
  bool has_failed = false;
  SampleAnswer answer = {};
};

}  // namespace hone::serve
