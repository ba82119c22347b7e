// One request from its wish to its last byte: jobs of the scheduler, and the answer or the stream that they
// become.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/http.h"
#include "serve/openai/answers.h"
#include "serve/openai/stream.h"

namespace hone::serve::openai {

class Sampling : public std::enable_shared_from_this<Sampling> {
 public:
  // `ended` is told the status once. `served` must outlive it.
  Sampling(Served& served, Wish wish, std::shared_ptr<Exchange> exchange, std::string id,
           std::function<void(int)> ended);
  void start();

 private:
  rollout::Request request_of(Choice& choice) const;
  void submit_choice(std::size_t index);
  void submit_scores(std::size_t prompt);
  // On the compute thread.
  void take(Choice& choice, const rollout::Completion& completion, const SampleFacts& facts, bool has_ended);
  void one_done();
  void fail(const std::exception_ptr& failure);
  void cancel();
  void finish();
  void count(std::int64_t tokens);  // whose log-probabilities are told; a Refusal when they are too many
  void end(int status);

  Served& served_;
  const Wish wish_;
  const std::shared_ptr<Exchange> exchange_;
  const std::uint64_t number_;  // keys the randomness of a request without a seed
  const Told told_;
  const std::function<void(int)> ended_;
  std::vector<Choice> choices_;
  std::unique_ptr<Stream> stream_;  // null: one answer
  std::atomic<std::size_t> left_ = 0;
  std::atomic<std::int64_t> numbers_ = 0;  // of told log-probabilities, as Served::numbers counts them
  std::atomic<bool> failed_ = false, cancelled_ = false, has_first_ = false;
  std::mutex mutex_;
  std::vector<JobId> jobs_;
};

}  // namespace hone::serve::openai
