#include "rewards/python/python_reward.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings/secrets.h"
#include "python/user_file.h"
#include "rewards/http/http_reward.h"
#include "rewards/http/judge.h"
#include "rewards/python/python_calls.h"
#include "rewards/python/worker_pool.h"

namespace hone::rewards {

using base::Json;

namespace {

constexpr double kLeastLoadSeconds = 120;
constexpr double kLeastTimeout = 0.001;  // what the clocks on both sides can hold
constexpr double kMaxTimeout = 1e8;

bool is_address(const std::string& word) {
  return word.starts_with("http://") || word.starts_with("https://");
}

// The entry of worker_script.h's "load".
Json parsed(const std::string& word) {
  if (is_address(word)) {
    if (base::is_redacted(word)) {
      throw base::UserError({.where = "reward " + word,
                             .expected = "the whole address",
                             .found = "*** instead of a secret",
                             .cause = "hone leaves secrets out of the plans that it writes",
                             .fix = "put the secret into an environment variable and write ${NAME} there"});
    }
    return {{"url", word}, {"secret", base::has_secrets(word)}};
  }
  const auto refuse = [&](const std::string& found) {
    throw base::UserError({.where = "reward " + word,
                           .expected = "path/to/file.py:function or package.module.function",
                           .found = found,
                           .cause = {},
                           .fix = "add the function's name"});
  };
  if (const std::size_t colon = word.rfind(':'); colon != std::string::npos) {
    const std::string function = word.substr(colon + 1);
    if (colon == 0 || function.empty()) refuse(colon == 0 ? "no file" : "no function");
    return {{"file", python::whole_path(word.substr(0, colon), "reward " + word)}, {"function", function}};
  }
  if (word.ends_with(".py")) refuse("no function");
  const std::size_t dot = word.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == word.size()) refuse("no module and function");
  return {{"module", word.substr(0, dot)}, {"function", word.substr(dot + 1)}};
}

std::shared_ptr<WorkerPool> open_pool(const std::vector<std::string>& words, std::vector<Json> functions,
                                      const OpenOptions& options) {
  std::vector<std::string> shown;
  for (const std::string& word : words) shown.push_back(base::redact_secrets(word));
  PoolOptions pool{.python = options.python,
                   .workers = std::max(1, options.workers),
                   .load_seconds = std::clamp(options.timeout, kLeastLoadSeconds, kMaxTimeout),
                   .functions = std::move(functions),
                   .words = std::move(shown)};
  return std::make_shared<WorkerPool>(std::move(pool));
}

std::shared_ptr<WorkerPool> open_pool(const std::vector<std::string>& words, const OpenOptions& options) {
  std::vector<Json> functions;
  for (const std::string& word : words) functions.push_back(parsed(word));
  return open_pool(words, std::move(functions), options);
}

class PythonReward : public Reward {
 public:
  PythonReward(std::shared_ptr<WorkerPool> pool, std::size_t function, const std::string& word,
               const OpenOptions& options)
      : pool_(std::move(pool)),
        function_(function),
        word_(base::redact_secrets(word)),
        timeout_(std::clamp(options.timeout, kLeastTimeout, kMaxTimeout)),
        is_address_(is_address(word)),
        endpoint_(options.retry) {}

  const std::string& name() const override { return pool_->functions()[function_].name; }
  int parallel_calls() const override { return pool_->workers(); }
  bool takes_batch() const override { return true; }

  std::vector<std::string> required_columns() const override { return pool_->functions()[function_].needed; }

  bool wants_environments() const override { return pool_->functions()[function_].wants_environments; }

  std::vector<std::string> read_columns() const override { return pool_->functions()[function_].reads; }

  void reset() override {
    endpoint_.reset();
    pool_->reset();
  }
  void give_up() override { endpoint_.give_up(); }

  Scores score(const Request& request) override {
    if (request.size() == 0) return {};
    WorkerPool::Lease lease(*pool_);
    CalledFunction function{.index = function_,
                            .word = word_,
                            .file = pool_->functions()[function_].file,
                            .timeout = timeout_,
                            .endpoint = is_address_ ? &endpoint_ : nullptr};
    return PythonCalls(lease, std::move(function), request).score();
  }

 private:
  std::shared_ptr<WorkerPool> pool_;
  std::size_t function_;
  std::string word_;
  double timeout_;
  bool is_address_;
  Endpoint endpoint_;
};

}  // namespace

std::vector<std::unique_ptr<Reward>> open_python_rewards(const std::vector<std::string>& words,
                                                         const OpenOptions& options) {
  std::vector<std::unique_ptr<Reward>> rewards;
  if (words.empty()) return rewards;
  const std::shared_ptr<WorkerPool> pool = open_pool(words, options);
  for (std::size_t i = 0; i < words.size(); ++i) {
    rewards.push_back(std::make_unique<PythonReward>(pool, i, words[i], options));
  }
  return rewards;
}

std::vector<std::string> python_required_columns(const std::string& word, const OpenOptions& options) {
  OpenOptions one = options;
  one.workers = 1;
  return open_pool({word}, one)->functions().front().needed;
}

std::unique_ptr<Reward> open_python_judge(const JudgeSpec& words, const OpenOptions& options) {
  Json function = parsed(words.word);
  function["judge"] = Json::object();
  if (function.contains("url")) {
    function["judge"] = {{"model", words.model}, {"prompt", words.prompt}, {"key", words.key_variable}};
  }
  const std::shared_ptr<WorkerPool> pool = open_pool({words.word}, {function}, options);
  return std::make_unique<PythonReward>(pool, 0, words.word, options);
}

std::unique_ptr<Reward> open_http_reward(const std::string& url, const OpenOptions& options) {
  return std::move(open_python_rewards({url}, options).front());
}

}  // namespace hone::rewards
