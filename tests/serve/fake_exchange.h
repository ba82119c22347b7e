// An exchange without a network: it keeps what it is answered with.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/json.h"
#include "serve/http.h"

namespace hone::serve {

class FakeExchange : public Exchange {
 public:
  using Exchange::Exchange;

  int answer(HttpAnswer given) override {
    const std::lock_guard lock(mutex_);
    ++answers;
    answered = std::move(given);
    if (is_full) answered = {.status = 503, .body = "{}"};
    is_over_ = true;
    changed_.notify_all();
    return answered.status;
  }
  void begin_stream(int status, std::string type) override {
    const std::lock_guard lock(mutex_);
    ++answers;
    answered = {.status = status, .body = "", .type = std::move(type)};
  }
  void part(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    answered.body += bytes;
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  bool gone() const override { return is_gone; }
  void when_gone(std::function<void()> given) override {
    const std::lock_guard lock(mutex_);
    left_ = std::move(given);
  }

  // Until it is answered, or the stream has ended; the answer's body as JSON.
  base::Json wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_; });
    return answered.type == "application/json" ? base::parse_json(answered.body, "answer") : base::Json();
  }

  // Returns what when_gone() was given last.
  std::function<void()> left() {
    const std::lock_guard lock(mutex_);
    return left_;
  }

  HttpAnswer answered;  // to be read behind wait()
  std::atomic<int> answers = 0;
  bool is_gone = false;
  bool is_full = false;  // no answer fits in HttpOptions::all_answer_bytes

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::function<void()> left_;
};

inline HttpRequest asked(std::string method, std::string path, std::string body = "", Headers headers = {}) {
  headers.emplace_back("content-type", "application/json");
  return {.id = 1,
          .method = std::move(method),
          .path = std::move(path),
          .query = "",
          .headers = std::move(headers),
          .body = std::move(body)};
}

}  // namespace hone::serve
