#include "rewards/python/worker_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/active_python.h"
#include "rewards/python/worker_script.h"

namespace hone::rewards {

namespace {

constexpr int kLoadTries = 3;  // a worker may be killed by chance while it imports

base::Clock::time_point after(double seconds) {
  return base::Clock::now() +
         std::chrono::duration_cast<base::Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// "... ; it printed:\n    last line" of at most `most` bytes, whole lines.
std::string quoted(const std::string& printed, std::size_t most = 1500) {
  std::string_view text = printed;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return {};
  if (text.size() > most) {
    text.remove_prefix(text.size() - most);
    text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
  }
  return ". It printed:\n" + std::string(text);
}

}  // namespace

WorkerPool::WorkerPool(PoolOptions options) : options_(std::move(options)) {
  base::require(options_.workers >= 1 && options_.functions.size() == options_.words.size(), "WorkerPool",
                "at least one worker, and a name for each function");
  base::Json message{{"do", "load"}, {"functions", options_.functions}};
  load_message_ = base::dump_json(message);
  slots_ = std::vector<Slot>(static_cast<std::size_t>(options_.workers));
  for (Slot& slot : slots_) start(slot);
  load(slots_.front());
}

WorkerPool::~WorkerPool() {
  for (Slot& slot : slots_) {
    if (slot.process) slot.process->hang_up();
  }
  const base::Clock::time_point deadline = after(2);
  for (Slot& slot : slots_) {
    if (slot.process) slot.process->wait_for_end(deadline);
  }
}

void WorkerPool::reset() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    base::require(!slot.taken, "WorkerPool::reset", "no lease out");
    if (slot.called) start(slot);
  }
}

void WorkerPool::start(Slot& slot) const {
  slot.loaded = slot.called = false;
  slot.process = std::make_unique<python::WorkerProcess>(options_.python, worker_program());
  slot.process->post(load_message_);
}

void WorkerPool::load(Slot& slot) {
  try {
    for (int attempt = 1; !slot.loaded; ++attempt) {
      if (!slot.process) start(slot);
      try_to_load(slot, attempt == kLoadTries);
    }
  } catch (...) {
    slot.process.reset();
    throw;
  }
}

void WorkerPool::try_to_load(Slot& slot, bool last_try) {
  using Outcome = python::WorkerProcess::Outcome;
  std::string frame;
  const Outcome outcome = slot.process->exchange(after(options_.load_seconds), frame);
  if (outcome == Outcome::kAnswered) {
    LoadReply reply = parse_load_reply(frame, options_.functions.size());
    if (reply.fault) {
      base::ErrorText text = *reply.fault;
      text.where = "reward " + options_.words[reply.function];
      throw base::UserError(text);
    }
    if (functions_.empty()) functions_ = std::move(reply.functions);
    slot.loaded = true;
    return;
  }
  const bool late = outcome == Outcome::kLate;
  if (!late && !last_try) {
    slot.process.reset();
    return;
  }
  const std::string prints = late ? slot.process->ask_where() : slot.process->output_tail();
  const std::string found =
      late ? "no answer within " + std::to_string(static_cast<int>(options_.load_seconds)) + " s"
           : base::active_python(options_.python).program + " " + slot.process->how_it_ended();
  throw base::UserError(
      {.where = "reward " + joined(options_.words),
       .expected = "a Python interpreter (3.8 or later) that loads the reward functions",
       .found = found + quoted(prints),
       .cause = late ? "an import that hangs"
                     : "not a Python interpreter, or an import "
                       "that ends it",
       .fix = "import the file with this interpreter to see the error, or name yours with --python"});
}

WorkerPool::Lease::Lease(WorkerPool& pool) : pool_(pool), slot_(nullptr) {
  std::unique_lock lock(pool.mutex_);
  pool.given_back_.wait(lock, [&] {
    // One that is ready first, then one that is starting, then one that has to be started.
    for (Slot& slot : pool.slots_) {
      const auto readiness = [](const Slot& s) { return s.loaded ? 2 : s.process ? 1 : 0; };
      if (!slot.taken && (slot_ == nullptr || readiness(slot) > readiness(*slot_))) slot_ = &slot;
    }
    return slot_ != nullptr;
  });
  slot_->taken = true;
}

WorkerPool::Lease::~Lease() {
  {
    const std::lock_guard lock(pool_.mutex_);
    slot_->taken = false;
  }
  pool_.given_back_.notify_one();
}

void WorkerPool::Lease::make_ready() {
  if (!slot_->process || !slot_->loaded) pool_.load(*slot_);
}

void WorkerPool::Lease::drop() {
  slot_->loaded = false;
  slot_->process.reset();
}

CallResult WorkerPool::Lease::call(std::string_view message, double seconds) {
  using Outcome = python::WorkerProcess::Outcome;
  make_ready();
  CallResult result;
  Outcome outcome = Outcome::kGone;
  slot_->called = true;
  slot_->process->post(message);
  try {
    outcome = slot_->process->exchange(after(seconds), result.reply);
  } catch (const base::UserError& error) {  // a frame that cannot be
    result.how = "sent a broken message (" + error.text().found + ")";
    drop();
    return result;
  }
  result.printed = slot_->process->new_output();
  if (outcome == Outcome::kAnswered) {
    result.kind = CallResult::Kind::kAnswered;
    return result;
  }
  if (outcome == Outcome::kLate) {
    result.kind = CallResult::Kind::kLate;
    result.how = slot_->process->ask_where();
  } else {
    result.how = slot_->process->how_it_ended();
    result.words = slot_->process->output_tail();
  }
  drop();
  return result;
}

}  // namespace hone::rewards
