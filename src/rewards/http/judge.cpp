#include "rewards/http/judge.h"

#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "rewards/failure_tracker.h"
#include "rewards/python/python_reward.h"

namespace hone::rewards {

using base::Json;

namespace {

constexpr double kCannotTell = -1;  // as TRL's judges say it

// Every second value of what stands twice beside itself.
template <typename Values>
Values of_pairs(const Values& values) {
  Values out;
  for (std::size_t i = 0; i < values.size(); i += 2) out.push_back(values[i]);
  return out;
}

template <typename Values>
Values twice(const Values& values) {
  Values out;
  for (const auto& value : values) out.insert(out.end(), 2, value);
  return out;
}

Request request_of_pairs(const Request& request) {
  Request out;
  out.prompts = of_pairs(request.prompts);
  for (std::size_t i = 0; i < request.size(); i += 2) {
    out.completions.push_back(Json::array({request.completions[i], request.completions[i + 1]}));
  }
  out.completion_ids.resize(out.completions.size());  // a judge reads text
  for (const auto& [name, values] : request.columns.items()) {
    out.columns[name] = of_pairs(values.get_ref<const Json::array_t&>());
  }
  out.trainer_state = request.trainer_state;
  return out;
}

class Judge final : public Reward {
 public:
  explicit Judge(std::unique_ptr<Reward> inner) : inner_(std::move(inner)) {}

  const std::string& name() const override { return inner_->name(); }
  int parallel_calls() const override { return inner_->parallel_calls(); }
  bool takes_batch() const override { return inner_->takes_batch(); }
  void reset() override { inner_->reset(); }
  void give_up() override { inner_->give_up(); }

  Scores score(const Request& request) override {
    base::require(request.size() % 2 == 0, "Judge", "pairs of completions");
    Scores found = inner_->score(request_of_pairs(request));
    Scores out{
        .metrics = std::move(found.metrics), .notes = std::move(found.notes), .seconds = found.seconds};
    const auto fail = [&](std::size_t pair, std::string what) {
      out.failures.push_back({request.first_sample + static_cast<std::int64_t>(2 * pair), std::move(what)});
    };
    for (Failure& one : found.failures) fail(static_cast<std::size_t>(one.sample), std::move(one.what));
    for (std::size_t pair = 0; pair < found.values.size(); ++pair) {
      const double value = found.values[pair];
      const bool told = value == 0 || value == 1;
      if (!told && !std::isnan(value) && value != kCannotTell) {
        fail(pair, "a verdict of " + std::to_string(value) + ", neither 0 nor 1");
      }
      out.values.push_back(told ? 1 - value : kNone);
      out.values.push_back(told ? value : kNone);
    }
    out.broken =
        found.broken ? std::move(found.broken) : all_failed("judge " + name(), out, found.values.size());
    for (Printed& one : found.printed) {  // its samples are pairs
      out.printed.push_back({.first = request.first_sample + 2 * one.first,
                             .count = 2 * one.count,
                             .text = std::move(one.text)});
    }
    for (const auto& [column, values] : found.extra) out.extra.emplace_back(column, twice(values));
    return out;
  }

 private:
  std::unique_ptr<Reward> inner_;
};

}  // namespace

std::unique_ptr<Reward> open_judge(const JudgeSpec& words, const OpenOptions& options) {
  return std::make_unique<Judge>(open_python_judge(words, options));
}

}  // namespace hone::rewards
