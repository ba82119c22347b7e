// The APIs share these: one base, its tokenizer, its weights' names, and who computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/causal_lm.h"
#include "serve/kept_versions.h"
#include "serve/scheduler.h"
#include "serve/task_thread.h"
#include "serve/weights.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tools/response_parser.h"

namespace hone::serve {

// GET /metrics. Thread-safe.
class Metrics {
 public:
  void count(const std::string& api, const std::string& path, int status);
  void first_token(double seconds);
  // Prometheus' text format, with what the scheduler and the network know.
  std::string text(const SchedulerFacts& facts, std::int64_t connections, const KeptFacts& kept) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> requests_;  // by their labels
  std::vector<std::uint64_t> first_ = std::vector<std::uint64_t>(kBounds.size() + 1);
  double first_sum_ = 0;
  static inline const std::vector<double> kBounds = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
};

struct Served {
  const model::CausalLm& model;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate* chat_template = nullptr;  // null: the tokenizer has none
  const tools::ResponseParser* parser = nullptr;      // null: turns with calls cannot be read
  std::string no_parser;                              // why
  base::Json template_variables;       // of the chat template, beside those of a request; an object or null
  std::vector<std::int64_t> stop_ids;  // where a text or a turn ends
  std::int64_t max_length = 0;         // tokens of a prompt and its completion
  std::uint64_t seed = 0;              // of requests that name none
  std::int64_t most_waiting = 1024;    // requests that are not answered yet; more are a 429
  bool raw_logprobs = true;            // at temperature 1; false: at the sampler's
  std::int64_t started = 0;            // seconds since 1970
  std::string fingerprint;             // version and instruction level
  std::string root;                    // what /v1/models says of the base: its name
  Weights& weights;
  Scheduler& scheduler;
  TaskThread& background;
  Metrics& metrics;
  std::atomic<std::int64_t> numbers = 0;    // log-probabilities that requests hold until they are answered
  std::atomic<std::uint64_t> requests = 0;  // that named no seed
  std::atomic<bool> drains = false;         // new work is a 503
  std::function<std::int64_t()> connections = [] { return std::int64_t{0}; };  // open now
  std::function<KeptFacts()> kept = [] { return KeptFacts(); };                // of sampling sessions
};

}  // namespace hone::serve
