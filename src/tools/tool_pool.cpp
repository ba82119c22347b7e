#include "tools/tool_pool.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/process/active_python.h"
#include "base/process/stop_request.h"
#include "python/worker_process.h"
#include "tools/tool_spec.h"
#include "tools/worker/host_program.h"

namespace hone::tools {

using base::Json;
using python::WorkerProcess;

namespace {

constexpr double kLeastToolLoad = 120;            // seconds that imports and factories have
constexpr double kHostGrace = 60;                 // that the host has beyond any limit of its own
constexpr double kLongestTimeout = 1e8;           // what the clocks on both sides can hold
constexpr int kMostDeaths = 3;                    // of the host, without an answer in between
constexpr double kMostWeight = 10;                // of all its deaths: each weighs 1, of which
constexpr double kForgiven = 0.02;                // every answer takes this much away
constexpr std::size_t kMostCharacters = 8000000;  // of a result: a frame has to hold it

base::Clock::time_point seconds_from_now(double seconds) {
  return base::Clock::now() +
         std::chrono::duration_cast<base::Clock::duration>(std::chrono::duration<double>(seconds));
}

// A server of OpenEnv (hone/tools/_openenv.py).
bool is_address(const std::string& word) {
  constexpr std::array<std::string_view, 4> kSchemes = {"ws://", "wss://", "http://", "https://"};
  return std::ranges::any_of(kSchemes, [&](std::string_view scheme) { return word.starts_with(scheme); });
}

Json entry_of(const std::string& word, const std::string& option) {
  if (option == "environment" && is_address(word))
    return {{"word", word},
            {"module", "hone.tools._openenv"},
            {"names", Json::array({"openenv"})},
            {"url", word}};
  const ToolFile parsed = parse_tool_word(word, option);
  return {
      {"word", word}, {parsed.is_file ? "file" : "module", parsed.file_or_module}, {"names", parsed.names}};
}

}  // namespace

struct ToolPool::State {
  explicit State(PoolOptions given);

  std::string option_of(const std::string& word) const;  // "tools search.py:f"
  void start();
  [[noreturn]] void cannot_load(WorkerProcess::Outcome outcome);
  void host_died(const std::string& how);
  std::uint64_t ask(Json message);
  void take(std::string_view frame);

  PoolOptions options;
  double load_seconds = kLeastToolLoad;
  Json load_message;
  std::unique_ptr<WorkerProcess> host;
  Loaded loaded;
  std::set<std::pair<std::string, std::int64_t>> instances;  // that have been reset
  std::set<std::uint64_t> open;                              // tickets
  std::vector<Done> finished;
  std::uint64_t next_ticket = 1;
  int deaths = 0, all_deaths = 0;  // without an answer since; in the run
  double weight = 0;               // of all
};

ToolPool::State::State(PoolOptions given) : options(std::move(given)) {
  options.timeout = std::clamp(options.timeout, 0.001, kLongestTimeout);
  load_seconds = std::max(kLeastToolLoad, options.timeout);
  Json tools = Json::array();
  for (const std::string& word : options.tools) tools.push_back(entry_of(word, "tools"));
  Json environments = Json::object();
  for (const auto& [name, word] : options.environments) {
    Json entry = entry_of(word, "environment");
    if (entry["names"].size() != 1) {
      throw base::UserError({.where = "environment " + word,
                             .expected = "one factory",
                             .found = std::to_string(entry["names"].size()) + " names",
                             .cause = {},
                             .fix = "several environments are a map of names: {a: env.py:A, b: env.py:B}"});
    }
    environments[name] = std::move(entry);
  }
  std::size_t most = options.most_characters == 0 ? kMostCharacters : options.most_characters;
  load_message = {{"do", "load"},
                  {"tools", std::move(tools)},
                  {"environments", std::move(environments)},
                  {"workers", std::max(1, options.workers)},
                  {"timeout", options.timeout},
                  {"load_seconds", kLeastToolLoad},
                  {"sessions", options.sessions},
                  {"most", std::min(most, kMostCharacters)}};
  start();
}

std::string ToolPool::State::option_of(const std::string& word) const {
  if (word.empty()) return "tools";
  return (std::ranges::find(options.tools, word) != options.tools.end() ? "tools " : "environment ") + word;
}

void ToolPool::State::start() {
  using Outcome = WorkerProcess::Outcome;
  Json lost = Json::array();
  for (const auto& [name, number] : instances) lost.push_back({name, number});
  load_message["lost"] = std::move(lost);
  host = std::make_unique<WorkerProcess>(options.python, host_program());
  host->post(base::dump_json(load_message));
  std::string frame;
  const Outcome outcome = host->exchange(seconds_from_now(2 * load_seconds + kHostGrace), frame);
  if (outcome != Outcome::kAnswered) cannot_load(outcome);
  loaded = parse_loaded(frame);
  if (loaded.fault) {
    base::ErrorText text = *loaded.fault;
    text.where = option_of(loaded.word) + (loaded.at.empty() ? "" : ": " + loaded.at);
    throw base::UserError(text);
  }
}

void ToolPool::State::cannot_load(WorkerProcess::Outcome outcome) {
  const bool late = outcome == WorkerProcess::Outcome::kLate;
  const std::string printed = late ? host->ask_where() : host->output_tail();
  std::string words;
  for (const std::string& word : options.tools) words += (words.empty() ? "" : ", ") + word;
  for (const auto& [name, word] : options.environments) words += (words.empty() ? "" : ", ") + word;
  const std::string last = python::last_line(printed);
  throw base::UserError(
      {.where = "tools " + words,
       .expected = "a Python interpreter (3.8 or later) that imports the tools",
       .found = (late ? "no answer within " +
                            std::to_string(static_cast<int>(2 * load_seconds + kHostGrace)) + " s"
                      : base::active_python(options.python).program + " " + host->how_it_ended()) +
                (last.empty() ? "" : ". It printed: " + last),
       .cause = late ? "an import that hangs" : "not a Python interpreter, or an import that ends it",
       .fix = "import the file with this interpreter to see the error, or name yours with --python"});
}

// Everything under way is lost with it, and so are all environments: what uses one before its next reset is told.
void ToolPool::State::host_died(const std::string& how) {
  all_deaths += 1;
  weight += 1;
  if (++deaths >= kMostDeaths || weight > kMostWeight) {
    throw base::UserError({.where = "tools",
                           .expected = "a process that forks what runs the tools",
                           .found = "it " + how + ", " + std::to_string(all_deaths) + " times in this run",
                           .cause = "memory ran out, or a tool or somebody ends it",
                           .fix = "fewer tool_workers, smaller environments, or more memory"});
  }
  for (const std::uint64_t ticket : open) {
    finished.push_back({.ticket = ticket,
                        .text = "{'error': 'the process of the tools was ended'}",
                        .failed = true,
                        .note = "the process that forks the tools " + how + "; all environments are lost"});
  }
  open.clear();
  host.reset();
  start();
}

std::uint64_t ToolPool::State::ask(Json message) {
  const std::uint64_t ticket = next_ticket++;
  message["id"] = ticket;
  host->post(base::dump_python_json(message));
  host->push();
  open.insert(ticket);
  return ticket;
}

void ToolPool::State::take(std::string_view frame) {
  Answer answer = parse_answer(frame);
  if (answer.fault) {
    base::ErrorText text = *answer.fault;
    text.where = "environment or tool of the calling program";
    throw base::UserError(text);
  }
  deaths = 0;
  weight = std::max(0.0, weight - kForgiven);
  if (open.erase(answer.done.ticket) > 0) finished.push_back(std::move(answer.done));
}

ToolPool::ToolPool(PoolOptions options) : state_(std::make_unique<State>(std::move(options))) {}

ToolPool::~ToolPool() = default;

const std::vector<Tool>& ToolPool::tools(const std::string& environment) const {
  const auto found = state_->loaded.environments.find(environment);
  return found == state_->loaded.environments.end() ? state_->loaded.tools : found->second.tools;
}

bool ToolPool::has_reward(const std::string& environment) const {
  const auto found = state_->loaded.environments.find(environment);
  return found != state_->loaded.environments.end() && found->second.has_reward;
}

bool ToolPool::takes_seed(const std::string& environment) const {
  const auto found = state_->loaded.environments.find(environment);
  return found != state_->loaded.environments.end() && found->second.takes_seed;
}

std::string ToolPool::class_name(const std::string& environment) const {
  const auto found = state_->loaded.environments.find(environment);
  return found == state_->loaded.environments.end() ? std::string() : found->second.class_name;
}

const std::vector<std::string>& ToolPool::notes() const {
  return state_->loaded.notes;
}

std::uint64_t ToolPool::reset(const std::string& environment, std::int64_t instance, const Json& row,
                              std::uint64_t seed) {
  state_->instances.emplace(environment, instance);
  return state_->ask(
      {{"do", "reset"}, {"environment", environment}, {"instance", instance}, {"row", row}, {"seed", seed}});
}

std::uint64_t ToolPool::call(const std::string& environment, std::int64_t instance, const std::string& name,
                             const Json& arguments) {
  return state_->ask({{"do", "call"},
                      {"environment", environment},
                      {"instance", instance},
                      {"name", name},
                      {"arguments", arguments}});
}

std::uint64_t ToolPool::reward(const std::string& environment, std::int64_t instance) {
  return state_->ask({{"do", "reward"}, {"environment", environment}, {"instance", instance}});
}

std::vector<Done> ToolPool::wait(bool block) {
  using Outcome = WorkerProcess::Outcome;
  State& state = *state_;
  while (!state.open.empty()) {
    const bool waits = block && state.finished.empty();
    const double seconds = waits ? state.options.timeout + state.load_seconds + kHostGrace : 0;
    std::string frame;
    Outcome outcome = Outcome::kGone;
    std::string how;
    try {
      outcome = state.host->exchange(seconds_from_now(seconds), frame);
      if (outcome == Outcome::kAnswered) state.take(frame);
    } catch (const base::UserError& error) {
      if (outcome == Outcome::kAnswered) throw;  // of the calling program
      how = "sent a broken message (" + error.text().found + ")";
      outcome = Outcome::kGone;
    }
    if (outcome == Outcome::kLate) {
      base::cut_if_overdue();
      if (!waits) break;
      how = "did not answer";
    }
    if (outcome != Outcome::kAnswered) state.host_died(how.empty() ? state.host->how_it_ended() : how);
  }
  return std::exchange(state.finished, {});
}

std::size_t ToolPool::under_way() const {
  return state_->open.size() + state_->finished.size();
}

}  // namespace hone::tools
