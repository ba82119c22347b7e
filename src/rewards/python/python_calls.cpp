#include "rewards/python/python_calls.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iterator>

#include "base/error.h"
#include "base/stopwatch.h"
#include "python/frames.h"
#include "rewards/failure_tracker.h"

namespace hone::rewards {

using base::Json;
using base::seconds_since;

namespace {

constexpr int kMaxBatchCalls = 2;         // then the samples are called one by one
constexpr int kMaxDeaths = 8;             // of workers in one score(): starting them takes time too
constexpr double kEndpointGrace = 2;      // seconds: it tells its own time-out, which leaves the worker alive
constexpr double kLeastShare = 1.0 / 64;  // of the time-out; with less left, the rest is not tried

// "30", "0.5"
std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2g", value);
  if (value >= 10) std::snprintf(text.data(), text.size(), "%.0f", value);
  return text.data();
}

std::string in_parentheses(const std::string& text) {
  return text.empty() ? "" : " (" + text + ")";
}

// The beginning of a prompt or completion, as JSON writes it, cut between characters.
std::string beginning(const Json& value, std::size_t most = 160) {
  std::string text = base::dump_json(value);
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return text.substr(0, most) + "...";
}

}  // namespace

std::string PythonCalls::message(std::size_t begin, std::size_t end, double seconds) const {
  const auto part = [&](const auto& all) {
    return Json(std::vector(all.begin() + static_cast<std::ptrdiff_t>(begin),
                            all.begin() + static_cast<std::ptrdiff_t>(end)));
  };
  Json columns = Json::object();
  for (const auto& [name, values] : request_.columns.items()) {
    base::require(values.is_array() && values.size() == request_.size(), "PythonCalls",
                  "one value per sample in each column");
    columns[name] = part(values.get_ref<const Json::array_t&>());
  }
  const Json environments = request_.environments.empty() ? Json() : part(request_.environments);
  return base::dump_python_json(Json{{"do", "score"},
                                     {"function", function_.index},
                                     {"prompts", part(request_.prompts)},
                                     {"completions", part(request_.completions)},
                                     {"completion_ids", part(request_.completion_ids)},
                                     {"columns", std::move(columns)},
                                     {"environments", environments},
                                     {"trainer_state", request_.trainer_state},
                                     {"timeout", function_.timeout},
                                     {"seconds", seconds}});
}

PythonCalls::Answer PythonCalls::call_once(std::size_t begin, std::size_t end, double seconds) {
  lease_.make_ready();  // not on the function's clock
  const Clock::time_point start = Clock::now();
  CallResult result = lease_.call(message(begin, end, seconds),
                                  seconds + (function_.endpoint == nullptr ? 0 : kEndpointGrace));
  Answer answer{.kind = result.kind, .seconds = seconds_since(start)};
  if (!result.printed.empty()) {
    scores_.printed.push_back({.first = request_.first_sample + static_cast<std::int64_t>(begin),
                               .count = static_cast<std::int64_t>(end - begin),
                               .text = std::move(result.printed)});
  }
  if (result.kind == CallResult::Kind::kAnswered) {
    try {
      answer.reply = parse_score_reply(result.reply, end - begin);
      return answer;
    } catch (const base::UserError& error) {
      answer.kind = CallResult::Kind::kDied;
      result.how = "sent a broken message: " + error.text().found;
      lease_.drop();
    }
  }
  if (answer.kind == CallResult::Kind::kLate) {
    answer.what = in_parentheses(python::place_in_dump(result.how, function_.file));
  } else {
    ++deaths_;
    const std::string place = python::place_in_dump(result.words, function_.file);
    const std::string said = place.empty() ? python::last_line(result.words) : "";
    answer.what = "the worker " + result.how + in_parentheses(place) +
                  (said.empty() ? "" : "; its last output: " + said);
  }
  return answer;
}

PythonCalls::Answer PythonCalls::call(std::size_t begin, std::size_t end, double seconds, bool alone) {
  if (function_.endpoint == nullptr) return call_once(begin, end, seconds);
  Endpoint& endpoint = *function_.endpoint;
  RetryState patience(endpoint, function_.word, alone);
  for (;;) {
    Answer answer = call_once(begin, end, seconds);
    if (answer.kind != CallResult::Kind::kAnswered) return answer;
    ScoreReply& reply = answer.reply;
    // What an address that has answered says of itself may be an outage too: a proxy's page, a key that is
    // being renewed.
    if (reply.fault && reply.fault_may_pass && endpoint.has_answered()) {
      reply.later = RetryLater{.kind = RetryLater::Kind::kBusy, .what = reply.fault->found};
      reply.fault.reset();
    }
    if (!reply.later) {
      if (!reply.fault && !reply.raised) endpoint.answered();
      if (const std::string story = patience.story(); !story.empty()) {
        scores_.notes.push_back(story + ", and then answered");
      }
      return answer;
    }
    if (!patience.wait(*reply.later)) {
      reply.later->what = patience.story();
      return answer;
    }
  }
}

Scores PythonCalls::score() {
  const std::size_t n = request_.size();
  base::require(request_.prompts.size() == n && request_.completion_ids.size() == n, "PythonCalls",
                "a prompt and token ids for each completion");
  lease_.make_ready();
  const Clock::time_point start = Clock::now();
  scores_.values.assign(n, kNone);
  if (!try_batch()) try_individually();
  scores_.broken = broken();
  scores_.seconds = seconds_since(start);
  return std::move(scores_);
}

bool PythonCalls::try_batch() {
  const std::size_t n = request_.size();
  for (int attempt = 0; attempt < kMaxBatchCalls; ++attempt) {
    Answer answer = call(0, n, function_.timeout, /*alone=*/false);
    if (answer.kind == CallResult::Kind::kLate) {
      batch_was_ = "no answer within " + short_number(function_.timeout) + " s" + answer.what;
      scores_.notes.push_back(batch_was_ + "; samples are called one by one");
      return false;
    }
    if (answer.kind == CallResult::Kind::kDied) {
      scores_.notes.push_back(answer.what + "; the call is repeated");
      continue;
    }
    if (answer.reply.fault) throw_fault(*answer.reply.fault);
    std::string what;
    if (answer.reply.later) {
      what = answer.reply.later->what;
    } else if (answer.reply.raised) {
      what = answer.reply.raised->what + in_parentheses(answer.reply.raised->place);
    } else {
      take(answer.reply, 0);
      return true;
    }
    if (answer.reply.raised) raised(0, *answer.reply.raised);
    if (n > 1 && !(answer.reply.raised && answer.reply.raised->whole)) {
      batch_was_ = what;
      raised_ = 0;  // to be counted sample by sample
      scores_.notes.push_back(what + "; samples are called one by one");
      return false;
    }
    for (std::size_t sample = 0; sample < n; ++sample) fail(sample, what);
    return true;
  }
  return false;
}

void PythonCalls::raised(std::size_t sample, const PythonException& what) {
  if (raised_++ > 0) return;
  first_raised_ = sample;
  first_ = what;
}

void PythonCalls::try_individually() {
  for (std::size_t sample = 0; sample < request_.size(); ++sample) {
    const double left = function_.timeout - spent_;
    if (left < function_.timeout * kLeastShare) {
      fail(sample, "not called one by one: the time-out of " + short_number(function_.timeout) +
                       " s is used "
                       "up" +
                       in_parentheses(batch_was_));
    } else if (deaths_ >= kMaxDeaths) {
      fail(sample, "not tried: " + std::to_string(deaths_) + " workers have ended in this call");
    } else {
      try_sample(sample, sample + 1 == request_.size() ? left : left / 2);
    }
  }
  average_metrics();
}

void PythonCalls::try_sample(std::size_t sample, double seconds) {
  for (int attempt = 0;; ++attempt) {
    Answer answer = call(sample, sample + 1, seconds, /*alone=*/true);
    spent_ += answer.seconds;
    if (answer.kind == CallResult::Kind::kDied) {
      if (attempt == 0 && deaths_ < kMaxDeaths) {  // once by chance
        scores_.notes.push_back(answer.what + "; the call is repeated");
        continue;
      }
      return fail(sample, answer.what);
    }
    if (answer.kind == CallResult::Kind::kLate) {
      return fail(sample, "no answer within " + short_number(seconds) + " s" + answer.what);
    }
    if (answer.reply.fault) throw_fault(*answer.reply.fault);
    if (answer.reply.later) return fail(sample, answer.reply.later->what);
    if (answer.reply.raised) {
      raised(sample, *answer.reply.raised);
      return fail(sample, answer.reply.raised->what + in_parentheses(answer.reply.raised->place));
    }
    return take(answer.reply, sample);
  }
}

void PythonCalls::take(ScoreReply& reply, std::size_t begin) {
  std::copy(reply.rewards.begin(), reply.rewards.end(),
            scores_.values.begin() + static_cast<std::ptrdiff_t>(begin));
  for (auto& [sample, why] : reply.bad) fail(begin + sample, std::move(why));
  for (auto& [column, values] : reply.extra) {
    auto found = std::find_if(scores_.extra.begin(), scores_.extra.end(),
                              [&](const auto& e) { return e.first == column; });
    if (found == scores_.extra.end()) {
      scores_.extra.emplace_back(column, std::vector<Json>(request_.size()));
      found = std::prev(scores_.extra.end());
    }
    std::move(values.begin(), values.end(), found->second.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  std::move(reply.metrics.begin(), reply.metrics.end(), std::back_inserter(scores_.metrics));
}

// A metric of a batch that was called sample by sample is the mean of theirs.
void PythonCalls::average_metrics() {
  std::vector<std::pair<std::string, std::vector<double>>> gathered;
  for (const auto& [name, value] : scores_.metrics) {
    auto found = std::find_if(gathered.begin(), gathered.end(),
                              [&, &wanted = name](const auto& g) { return g.first == wanted; });
    if (found == gathered.end()) found = gathered.insert(gathered.end(), {name, {}});
    found->second.push_back(value);
  }
  scores_.metrics.clear();
  for (const auto& [name, values] : gathered) {
    double sum = 0;
    for (const double value : values) sum += value;
    scores_.metrics.emplace_back(name, sum / static_cast<double>(values.size()));
  }
}

void PythonCalls::fail(std::size_t sample, std::string what) {
  scores_.failures.push_back({request_.first_sample + static_cast<std::int64_t>(sample), std::move(what)});
}

void PythonCalls::throw_fault(const base::ErrorText& fault) const {
  base::ErrorText text = fault;
  text.where = "reward " + function_.word;
  throw base::UserError(text);
}

std::optional<base::ErrorText> PythonCalls::broken() const {
  if (raised_ == 0 || scores_.failures.size() < request_.size()) {
    return all_failed("reward " + function_.word, scores_, request_.size());
  }
  return base::ErrorText{
      .where = "reward " + function_.word,
      .expected = "a score",
      .found = first_.what + in_parentheses(first_.place) +
               (raised_ > 1 ? ", in all of " + std::to_string(raised_) + " samples" : "") + "; sample " +
               std::to_string(request_.first_sample + static_cast<std::int64_t>(first_raised_)) +
               ": prompt " + beginning(request_.prompts[first_raised_]) + ", completion " +
               beginning(request_.completions[first_raised_]),
      .cause = first_.trace,
      .fix = "correct the function"};
}

}  // namespace hone::rewards
