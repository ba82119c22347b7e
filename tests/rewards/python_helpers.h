// Reward functions written to a folder, and requests for them.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/helpers.h"
#include "rewards/python_reward.h"

namespace hone::rewards {

using base::expect_says;
using base::Json;
using base::message_of;
using base::UserError;

inline Request request_of(std::size_t n, std::int64_t first_sample = 0) {
  Request request;
  request.first_sample = first_sample;
  request.columns["answer"] = Json::array();
  for (std::size_t i = 0; i < n; ++i) {
    request.prompts.emplace_back("prompt " + std::to_string(i));
    request.completions.emplace_back(std::string(i, 'x'));
    request.completion_ids.push_back({static_cast<std::int32_t>(i), 7});
    request.columns["answer"].push_back(static_cast<std::int64_t>(10 * i));
  }
  return request;
}

// One file of functions in a folder of its own.
class PythonFile {
 public:
  explicit PythonFile(std::string_view text, OpenOptions options = {}) : options_(std::move(options)) {
    base::put(path(), text);
  }
  std::string path() const { return (folder_ / "reward.py").string(); }
  std::string word(const std::string& function) const { return path() + ":" + function; }
  std::filesystem::path folder() const { return folder_.path(); }
  OpenOptions& options() { return options_; }

  std::unique_ptr<Reward> open(const std::string& function) const {
    return std::move(open_python_rewards({word(function)}, options_).front());
  }
  Scores score(const std::string& function, const Request& request) const {
    return open(function)->score(request);
  }
  std::string refusal(const std::string& function) const {
    return message_of([&] { open(function); });
  }
  std::string fault(const std::string& function, std::size_t n = 3) const {
    return message_of([&] { score(function, request_of(n)); });
  }

 private:
  base::TempFolder folder_;
  OpenOptions options_;
};

inline bool is_none(double value) {
  return std::isnan(value);
}

inline OpenOptions with_timeout(double seconds, int workers = 1) {
  OpenOptions options;
  options.timeout = seconds;
  options.workers = workers;
  return options;
}

}  // namespace hone::rewards
