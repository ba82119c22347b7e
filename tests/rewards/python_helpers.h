// Reward functions written to a folder, and requests for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/helpers.h"
#include "rewards/python/python_reward.h"

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

// The error of a request of which nothing could be scored.
inline void throw_broken(const Scores& scores) {
  if (scores.broken) throw UserError(*scores.broken);
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
  // One worker for all functions of the file.
  Scores score(const std::string& function, const Request& request) const {
    if (names_.empty()) find_names();
    if (all_.empty()) {
      std::vector<std::string> words;
      for (const std::string& name : names_) words.push_back(word(name));
      all_ = open_python_rewards(words, options_);
    }
    const auto at = std::find(names_.begin(), names_.end(), function) - names_.begin();
    return all_.at(static_cast<std::size_t>(at))->score(request);
  }
  std::string refusal(const std::string& function) const {
    return message_of([&] { open(function); });
  }
  std::string fault(const std::string& function, std::size_t n = 3) const {
    return message_of([&] { throw_broken(score(function, request_of(n))); });
  }
  void close() const { all_.clear(); }

 private:
  void find_names() const {
    const std::string text = base::read_text(path());
    for (std::size_t at = text.find("def "); at != std::string::npos; at = text.find("def ", at + 1)) {
      const std::size_t end = text.find('(', at);
      const bool outermost =
          at == 0 || text[at - 1] == '\n' || (at >= 7 && text.compare(at - 7, 7, "\nasync ") == 0);
      const bool reward =
          text.substr(end, text.find(')', end) - end).find("completions") != std::string::npos;
      if (outermost && reward) names_.push_back(text.substr(at + 4, end - at - 4));
    }
  }

  base::TempFolder folder_;
  OpenOptions options_;
  mutable std::vector<std::string> names_;
  mutable std::vector<std::unique_ptr<Reward>> all_;
};

inline bool is_none(double value) {
  return std::isnan(value);
}

// Endpoints are given up in a moment.
inline OpenOptions impatient(double timeout = 60) {
  OpenOptions options;
  options.timeout = timeout;
  options.retry = {.outage = 0.5, .absent = 0.3, .brief = 0.3};
  return options;
}

inline OpenOptions with_timeout(double seconds, int workers = 1) {
  OpenOptions options;
  options.timeout = seconds;
  options.workers = workers;
  return options;
}

}  // namespace hone::rewards
