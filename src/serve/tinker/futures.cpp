#include "serve/tinker/futures.h"

#include <algorithm>
#include <utility>

namespace hone::serve {

using base::Json;

HttpAnswer json_answer(const Json& value, int status) {
  return {.status = status, .body = base::dump_json(value)};
}

HttpAnswer detail(int status, const std::string& sentence) {
  return json_answer({{"detail", sentence}}, status);
}

bool Futures::open(const std::string& id, const std::string& owner, bool is_sample, std::size_t bytes) {
  Future future;
  future.owner = owner;
  future.is_sample = is_sample;
  future.bytes = bytes;
  const bool is_new = all_.emplace(id, std::move(future)).second;
  if (is_new) pending_ += 1;
  if (is_new) pending_bytes_ += bytes;
  return is_new;
}

bool Futures::is_pending(const std::string& id) const {
  const auto found = all_.find(id);
  return found != all_.end() && !found->second.is_done;
}

void Futures::finish(const std::string& id, const Json& result) {
  settle(id, json_answer(result), false);
}

void Futures::finish_protobuf(const std::string& id, std::string result) {
  settle(id, {.body = std::move(result), .type = "application/x-protobuf"}, false);
}

void Futures::fail(const std::string& id, const std::string& sentence, Blame blame) {
  settle(id, json_answer({{"error", sentence}, {"category", blame == Blame::kUser ? "user" : "server"}}),
         true);
}

void Futures::settle(const std::string& id, HttpAnswer result, bool is_failed) {
  const auto found = all_.find(id);
  if (found == all_.end() || found->second.is_done) return;
  Future& future = found->second;
  future.is_done = true;
  future.is_failed = is_failed;
  future.result = std::move(result);
  future.done_at = Steady::now();
  pending_ -= 1;
  pending_bytes_ -= future.bytes;
  Owner& owner = owners_[future.owner];
  if (future.is_sample) {
    samples_.push_back(id);
    sample_bytes_ += future.result.body.size();
    owner.finished.push_back(id);
  }
  for (const Waiting& poll : std::exchange(future.polls, {})) give(future, poll, future.done_at);
  if (future.is_sample)
    for (const OwnerPoll& poll : std::exchange(owner.polls, {})) give_owner(owner, poll);
  keep_within_bytes();
}

void Futures::give(Future& future, const Waiting& poll, Steady::time_point now) {
  if (poll.allows_metadata && future.result.body.size() >= limits_.large) {
    poll.exchange->answer(
        json_answer({{"status", "complete_metadata"}, {"response_payload_size", future.result.body.size()}}));
    return;
  }
  future.was_fetched = true;
  future.fetched_at = now;
  poll.exchange->answer(future.result);
}

void Futures::poll(std::shared_ptr<Exchange> exchange, const std::string& id, bool allows_metadata,
                   bool was_given, Steady::time_point now) {
  const auto found = all_.find(id);
  if (found == all_.end()) {
    exchange->answer(
        was_given
            ? detail(410, "the result of " + id + " is no longer kept")
            : detail(404,
                     "no request '" + id +
                         "' is known: the server has been started again, or its session has ended; load the "
                         "last tinker:// path that was saved"));
    return;
  }
  const Waiting waiting = {
      .exchange = std::move(exchange), .allows_metadata = allows_metadata, .until = now + limits_.poll};
  if (found->second.is_done) {
    give(found->second, waiting, now);
  } else {
    found->second.polls.push_back(waiting);
  }
}

void Futures::give_owner(const Owner& owner, const OwnerPoll& poll) const {
  Json completions = Json::array();
  for (std::size_t i = std::min(poll.cursor, owner.finished.size()); i < owner.finished.size(); ++i) {
    const auto found = all_.find(owner.finished[i]);
    if (found == all_.end()) continue;
    if (found->second.is_failed) {
      completions.push_back({{"state", "failed"}, {"request_id", found->first}});
    } else {
      completions.push_back({{"state", "finished"},
                             {"request_id", found->first},
                             {"response_payload_uncompressed_size", found->second.result.body.size()}});
    }
  }
  poll.exchange->answer(json_answer({{"completions", completions}, {"cursor", owner.finished.size()}}));
}

void Futures::poll_owner(std::shared_ptr<Exchange> exchange, const std::string& id, std::size_t cursor,
                         std::chrono::milliseconds wait, Steady::time_point now) {
  Owner& owner = owners_[id];
  const OwnerPoll poll = {
      .exchange = std::move(exchange), .cursor = cursor, .until = now + std::min(wait, limits_.poll)};
  if (owner.finished.size() > cursor || wait.count() == 0) {
    give_owner(owner, poll);
  } else {
    owner.polls.push_back(poll);
  }
}

void Futures::forget(std::map<std::string, Future>::iterator it) {
  Future& future = it->second;
  for (const Waiting& poll : future.polls)
    poll.exchange->answer(detail(410, "the session of " + it->first + " has ended"));
  if (!future.is_done) {
    pending_ -= 1;
    pending_bytes_ -= future.bytes;
  } else if (future.is_sample) {
    sample_bytes_ -= future.result.body.size();
  }
  all_.erase(it);
}

void Futures::drop_owner(const std::string& owner) {
  for (auto it = all_.begin(); it != all_.end();) {
    const auto here = it++;
    if (here->second.owner == owner) forget(here);
  }
  if (const auto found = owners_.find(owner); found != owners_.end()) {
    for (const OwnerPoll& poll : found->second.polls)
      poll.exchange->answer(detail(410, "the session has ended"));
    owners_.erase(found);
  }
}

void Futures::keep_within_bytes() {
  while (sample_bytes_ > limits_.sample_bytes && samples_.size() > 1) {
    const auto found = all_.find(samples_.front());
    samples_.pop_front();
    if (found != all_.end()) forget(found);
  }
}

void Futures::end_polls(Steady::time_point now) {
  for (auto& [id, future] : all_)
    for (Waiting& poll : future.polls) poll.until = now;
  for (auto& [id, owner] : owners_)
    for (OwnerPoll& poll : owner.polls) poll.until = now;
}

void Futures::tick(Steady::time_point now) {
  for (auto it = all_.begin(); it != all_.end();) {
    const auto here = it++;
    Future& future = here->second;
    std::erase_if(future.polls, [&](const Waiting& poll) {
      if (poll.exchange->gone()) return true;
      if (poll.until > now) return false;
      poll.exchange->answer(
          json_answer({{"type", "try_again"}, {"request_id", here->first}, {"queue_state", "active"}}, 408));
      return true;
    });
    if (!future.is_done) continue;
    const bool is_old = future.is_sample && future.done_at + limits_.keep_sample < now;
    if (is_old || (future.was_fetched && future.fetched_at + limits_.keep_fetched < now)) forget(here);
  }
  for (auto& [id, owner] : owners_) {
    std::erase_if(owner.polls, [&](const OwnerPoll& poll) {
      if (poll.exchange->gone()) return true;
      if (poll.until > now) return false;
      give_owner(owner, poll);
      return true;
    });
  }
  std::erase_if(samples_, [&](const std::string& id) { return !all_.contains(id); });
}

}  // namespace hone::serve
