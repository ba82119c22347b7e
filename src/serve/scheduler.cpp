#include "serve/scheduler.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/printable.h"

namespace hone::serve {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

std::exception_ptr stopped() {
  return std::make_exception_ptr(base::UserError({.where = "the server",
                                                  .expected = "a server that runs",
                                                  .found = "it is being stopped",
                                                  .fix = "ask again in a moment"}));
}

}  // namespace

struct Scheduler::Impl {
  Impl(const model::CausalLm& model, SchedulerOptions given)
      : options(given), engine(model, with_facts(given.engine)), thread([this] { loop(); }) {}

  rollout::EngineOptions with_facts(rollout::EngineOptions given) {
    given.draft_facts = &drafts;
    return given;
  }

  struct Job {
    JobId id = 0;
    SampleJob job;
    SampleFacts facts;
    Clock::time_point came;
    bool has_joined = false;
    std::size_t counted = 0;  // tokens
  };

  void loop();
  bool one_turn();
  void take_new();
  void decode();
  void tell();
  void tell_of_graphs();
  void pass();
  void count_out();  // of a job, before its last call
  void end(rollout::RequestId id);
  void drop_all();
  void publish();

  const SchedulerOptions options;
  rollout::DraftFacts drafts;  // of the compute thread
  rollout::Engine engine;

  mutable std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::deque<Job> came;
  std::vector<JobId> cancelled;
  std::deque<std::function<void()>> tasks;
  std::deque<std::pair<std::uint64_t, std::unique_ptr<Work>>> came_works;
  bool stops = false, has_stopped = false;
  JobId last = 0;
  std::uint64_t open_jobs = 0, open_works = 0;
  SchedulerFacts published;

  // of the compute thread alone
  std::map<rollout::RequestId, Job> running;
  std::map<JobId, rollout::RequestId> requests;
  std::map<std::uint64_t, std::deque<std::unique_ptr<Work>>> works;
  std::uint64_t last_queue = 0;
  SchedulerFacts facts;
  double owed = 0;  // seconds that works have had less than their share; while both wait
  bool has_decoded = false, has_told_of_graphs = false;

  std::thread thread;  // last: it uses the others
};

void Scheduler::Impl::take_new() {
  std::deque<Job> jobs;
  std::vector<JobId> dropped;
  std::deque<std::function<void()>> soon;
  {
    const std::lock_guard lock(mutex);
    jobs.swap(came);
    dropped.swap(cancelled);
    soon.swap(tasks);
    for (auto& [queue, work] : came_works) works[queue].push_back(std::move(work));
    came_works.clear();
  }
  for (Job& one : jobs) {
    try {
      const rollout::RequestId id = engine.add(std::move(one.job.request));
      requests[one.id] = id;
      running.emplace(id, std::move(one));
    } catch (...) {
      count_out();
      one.job.on_error(std::current_exception());
    }
  }
  for (const JobId id : dropped) {
    const auto place = requests.find(id);
    if (place != requests.end()) engine.cancel(place->second);
  }
  for (const auto& task : soon) task();
}

void Scheduler::Impl::count_out() {
  const std::lock_guard lock(mutex);
  --open_jobs;
}

void Scheduler::Impl::end(rollout::RequestId id) {
  const auto place = running.find(id);
  requests.erase(place->second.id);
  running.erase(place);
  engine.forget(id);
}

// What the engine has to say.
void Scheduler::Impl::tell() {
  for (const rollout::Event& event : engine.poll()) {
    const auto place = running.find(event.id);
    if (place == running.end()) continue;
    Job& one = place->second;
    const rollout::Completion& completion = engine.completion(event.id);
    if (event.has_token) {
      const std::size_t tokens = completion.ids.size();
      facts.sampled += tokens - one.counted;
      if (std::exchange(one.counted, tokens) == 0) {
        one.facts.first_seconds = seconds_since(one.came);
        one.facts.cached = engine.reused(event.id);
        facts.cached += static_cast<std::uint64_t>(one.facts.cached);
        facts.read += engine.tokens(event.id).size() - tokens;
      }
    }
    if (event.has_ended) count_out();
    one.job.on_token(completion, one.facts, event.has_ended);
    if (event.has_ended) end(event.id);
  }
}

void Scheduler::Impl::decode() {
  const auto begin = Clock::now();
  std::exception_ptr failure;
  try {
    engine.advance();
  } catch (...) {
    failure = std::current_exception();
  }
  for (auto& [id, one] : running) {
    if (one.has_joined || engine.requests_before(id)) continue;
    one.has_joined = true;
    one.facts.queue_seconds = std::chrono::duration<double>(begin - one.came).count();
  }
  if (failure) {
    // Logits that are not finite: such requests have ended as cancelled, and it is told whose they are. What
    // else fails would fail again: nobody is left waiting.
    std::vector<rollout::RequestId> failed, all;
    for (const auto& [id, one] : running) {
      all.push_back(id);
      if (engine.has_ended(id) && engine.completion(id).finish_reason == rollout::FinishReason::kCancelled)
        failed.push_back(id);
    }
    if (failed.empty()) failed = std::move(all);
    for (const rollout::RequestId id : failed) {
      count_out();
      running.at(id).job.on_error(failure);
      end(id);
    }
  }
  ++facts.decode_steps;
  const double took = seconds_since(begin);
  facts.decode_seconds += took;
  if (!works.empty()) owed += took * options.training_share / (1 - options.training_share);
}

// Once, in the server's log.
void Scheduler::Impl::tell_of_graphs() {
  if (has_told_of_graphs) return;
  const std::string note = ops::step_graphs_note();
  if (note.empty()) return;
  has_told_of_graphs = true;
  std::cerr << "graphs    " << base::printable(note) << std::endl;
}

// A pass of the queue behind the one that had the last.
void Scheduler::Impl::pass() {
  auto place = works.upper_bound(last_queue);
  if (place == works.end()) place = works.begin();
  last_queue = place->first;
  const auto begin = Clock::now();
  bool goes_on = false;
  try {
    goes_on = place->second.front()->step();
  } catch (...) {
    goes_on = false;
  }
  if (!goes_on) {
    place->second.pop_front();
    if (place->second.empty()) works.erase(place);
    const std::lock_guard lock(mutex);
    --open_works;
  }
  ++facts.work_steps;
  const double took = seconds_since(begin);
  facts.work_seconds += took;
  owed = std::max(owed - took, -10.0);
}

void Scheduler::Impl::publish() {
  facts.engine = engine.facts();
  facts.drafts = drafts;
  facts.graphs = ops::step_graph_facts();
  const std::lock_guard lock(mutex);
  published = facts;
}

// Whether there is more to do now.
bool Scheduler::Impl::one_turn() {
  take_new();
  tell();  // of what was cancelled
  const bool decodes = !running.empty();
  if (!decodes || works.empty()) owed = 0;
  if (!works.empty() && (!decodes || owed > 0)) {
    pass();
  } else if (decodes) {
    decode();
    tell();
    tell_of_graphs();
  }
  publish();
  return !running.empty() || !works.empty();
}

void Scheduler::Impl::loop() {
  const at::NoGradGuard no_grad;
  if (options.threads > 0) at::set_num_threads(options.threads);
  for (bool busy = false;;) {
    {
      std::unique_lock lock(mutex);
      const auto wakes = [&] {
        return busy || stops || !came.empty() || !cancelled.empty() || !tasks.empty() || !came_works.empty();
      };
      changed.wait(lock, wakes);
      if (stops) break;
    }
    busy = one_turn();
  }
  drop_all();
}

void Scheduler::Impl::drop_all() {
  for (auto& [id, one] : running) engine.cancel(id);
  tell();
  std::deque<Job> jobs;
  {
    const std::lock_guard lock(mutex);
    jobs.swap(came);
    came_works.clear();
    tasks.clear();
    has_stopped = true;
    open_jobs = open_works = 0;
  }
  for (Job& one : jobs) one.job.on_error(stopped());
  works.clear();
}

Scheduler::Scheduler(const model::CausalLm& model, SchedulerOptions options) {
  base::require(options.training_share > 0 && options.training_share < 1, "serve::Scheduler",
                "a share above 0 and below 1");
  if (options.threads == 0) options.threads = at::get_num_threads();
  impl_ = std::make_unique<Impl>(model, options);
}

Scheduler::~Scheduler() {
  stop();
}

JobId Scheduler::submit(SampleJob job) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->stops) {
      const JobId id = ++impl_->last;
      impl_->came.push_back({.id = id, .job = std::move(job), .facts = {}, .came = Clock::now()});
      ++impl_->open_jobs;
      impl_->changed.notify_one();
      return id;
    }
  }
  job.on_error(stopped());
  return 0;
}

void Scheduler::cancel(JobId id) {
  const std::lock_guard lock(impl_->mutex);
  impl_->cancelled.push_back(id);
  impl_->changed.notify_one();
}

void Scheduler::submit(std::unique_ptr<Work> work, std::uint64_t queue) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->stops) return;
  impl_->came_works.emplace_back(queue, std::move(work));
  ++impl_->open_works;
  impl_->changed.notify_one();
}

void Scheduler::run_soon(std::function<void()> task) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->stops) return;
  impl_->tasks.push_back(std::move(task));
  impl_->changed.notify_one();
}

void Scheduler::lose_keys() {
  impl_->engine.lose_keys();
}

SchedulerFacts Scheduler::facts() const {
  const std::lock_guard lock(impl_->mutex);
  SchedulerFacts out = impl_->published;
  out.jobs = impl_->open_jobs;
  out.works = impl_->open_works;
  return out;
}

void Scheduler::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stops = true;
    impl_->changed.notify_all();
  }
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace hone::serve
