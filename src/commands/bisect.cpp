// hone bisect: the smallest set of options that makes a run fail.
#include "doctor/tools/bisect.h"

#include <sys/resource.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <ranges>

#include "base/error.h"
#include "base/files/scratch_folder.h"
#include "base/strings/printable.h"
#include "commands/commands.h"
#include "commands/process/run_signals.h"
#include "config/commands/tool_plans.h"
#include "config/option_secrets.h"
#include "config/parse.h"
#include "config/reading/difference.h"
#include "config/write_plan.h"
#include "doctor/tools/bisect_trial.h"
#include "report/terminal/terminal.h"

namespace hone::commands {

namespace fs = base::fs;

namespace {

constexpr int kNotFound = 1;

struct Interrupted {};

// The first Ctrl-C ends the try that is under way and with it the search; the second kills, as by default.
std::atomic<bool> stop_asked = false;

const std::atomic<bool>& watch_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_asked = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int one : {SIGINT, SIGTERM, SIGHUP}) sigaction(one, &action, nullptr);
  return stop_asked;
}

// New folders below a temporary one.
class Workspace {
 public:
  fs::path fresh() {
    fs::path folder = scratch_.path() / std::to_string(++used_);
    fs::create_directory(folder);
    return folder;
  }

 private:
  base::ScratchFolder scratch_{"bisect"};
  int used_ = 0;
};

config::Settings read(config::Method method, const std::string& path) {
  config::Settings settings(config::method_schema(method));
  settings.read_yaml(path);
  settings.throw_mistakes();
  return settings;
}

std::string seconds(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%6.1f s", value);
  return out.data();
}

// One try as it is told and written down.
struct Try {
  doctor::OptionSet options;
  doctor::Trial trial;
};

class Bisection {
 public:
  explicit Bisection(const config::BisectPlan& plan)
      : plan_(plan),
        good_(read(plan.method, plan.good)),
        bad_(read(plan.method, plan.bad)),
        differences_(config::differences(good_, bad_, {"max_steps", "output_dir"})),
        stop_(watch_signals()) {}

  int run() {
    if (differences_.empty()) {
      throw base::UserError({.where = plan_.bad,
                             .expected = "options that differ from " + plan_.good,
                             .found = "none except max_steps and output_dir, which the tries set "
                                      "themselves"});
    }
    if (!plan_.json) {
      std::cout << "bisect    " << differences_.size() << " options differ; each try: hone "
                << config::method_name(plan_.method) << ", " << plan_.steps << " steps\n"
                << std::flush;
    }
    const rlimit no_core = {};  // children that die of a signal leave nothing behind
    setrlimit(RLIMIT_CORE, &no_core);
    const doctor::Minimized found = doctor::minimize(
        differences_.size(), [this](const doctor::OptionSet& options) { return attempt(options); });
    if (plan_.json) {
      std::cout << base::printable_json(base::dump_json(as_json(found), 2)) << '\n';
    } else {
      tell(found);
    }
    return found.end == doctor::SearchEnd::kFound ? 0 : kNotFound;
  }

 private:
  doctor::Outcome attempt(const doctor::OptionSet& options) {
    Try done{.options = options, .trial = refused(options)};
    if (done.trial.kind.empty()) {
      done.trial = doctor::run_trial(config::mixed_yaml(good_, differences_, options),
                                     {.program = fs::read_symlink("/proc/self/exe"),
                                      .method = std::string(config::method_name(plan_.method)),
                                      .steps = plan_.steps,
                                      .timeout = plan_.timeout,
                                      .folder = workplace_.fresh(),
                                      .stop = &stop_});
    }
    if (stop_.load()) throw Interrupted{};
    doctor::Trial& trial = done.trial;
    const bool all = options.size() == differences_.size();
    if (all && failure_.empty()) failure_ = trial.kind;
    // Another failure says nothing about this one.
    const bool another = trial.outcome == doctor::Outcome::kFails && trial.kind != failure_;
    if (another && !options.empty()) trial.outcome = doctor::Outcome::kUnresolved;
    tries_.push_back(done);
    if (!plan_.json) tell(done);
    return trial.outcome;
  }

  // What the parser alone refuses costs no child: options that only make sense together. The bad file itself
  // must be read.
  doctor::Trial refused(const doctor::OptionSet& options) const {
    try {
      config::parse_run_text(plan_.method, config::mixed_yaml(good_, differences_, options), "run.yaml");
    } catch (const base::UserError& error) {
      if (options.size() == differences_.size() || options.empty()) throw;
      return {.outcome = doctor::Outcome::kUnresolved,
              .kind = "refused",
              .message = "expected " + error.text().expected + "; found " + error.text().found};
    }
    return {};
  }

  std::string named(const doctor::OptionSet& options) const {
    if (options.empty()) return "no option of " + plan_.bad;
    if (options.size() == differences_.size()) return "all " + std::to_string(options.size());
    std::string out = std::to_string(options.size()) + ":";
    for (const std::size_t i : options) {
      if (out.size() > 60) return out + " ...";
      out += " " + differences_[i].name;
    }
    return out;
  }

  void tell(const Try& done) const {
    const doctor::Trial& trial = done.trial;
    std::string word = "passes";
    if (trial.outcome == doctor::Outcome::kFails) word = "fails: " + trial.kind;
    if (trial.outcome == doctor::Outcome::kUnresolved)
      word = trial.kind == "refused" ? "invalid combination" : "fails in another way: " + trial.kind;
    std::array<char, 16> number{};
    std::snprintf(number.data(), number.size(), "%3d", static_cast<int>(tries_.size()));
    std::cout << "try " << number.data() << "   " << seconds(trial.seconds) << "   " << word << "   "
              << named(done.options) << '\n'
              << std::flush;
  }

  // The newest failing try of that very set.
  std::string message_of(const doctor::OptionSet& options) const {
    for (const auto& one : tries_ | std::views::reverse) {
      if (one.options == options && one.trial.outcome == doctor::Outcome::kFails) return one.trial.message;
    }
    return "";
  }

  void tell(const doctor::Minimized& found) const {
    switch (found.end) {
      case doctor::SearchEnd::kAllPass:
        std::cout << "RESULT    " << plan_.bad << " does not fail within " << plan_.steps
                  << " steps; more: --steps N\n";
        return;
      case doctor::SearchEnd::kNoneFails:
        std::cout << "RESULT    " << plan_.good
                  << " fails as well: " << report::visible_controls(message_of({}))
                  << "\n          the difference is not the cause\n";
        return;
      case doctor::SearchEnd::kFound:
      case doctor::SearchEnd::kFlaky:
        break;
    }
    const std::size_t count = found.options.size();
    std::cout << "RESULT    " << count << (count == 1 ? " option makes" : " options together make")
              << " it fail (" << failure_ << "), found in " << found.tries << " tries\n\n"
              << "--- " << plan_.good << "\n+++ what fails\n";
    for (const std::size_t i : found.options) std::cout << config::difference_lines(differences_[i]);
    if (const std::string message = message_of(found.options); !message.empty())
      std::cout << "\n" << report::visible_controls(message) << '\n';
    if (found.end == doctor::SearchEnd::kFlaky) {
      std::cout
          << "\n"
             "FLAKY     a repeated try had another result: the failure does not depend only on these options "
             "(time, memory, another program); more --steps may make it reliable\n";
    }
  }

  base::Json as_json(const doctor::Minimized& found) const {
    static const std::map<doctor::SearchEnd, const char*> ends = {
        {doctor::SearchEnd::kFound, "found"},
        {doctor::SearchEnd::kFlaky, "flaky"},
        {doctor::SearchEnd::kAllPass, "bad_passes"},
        {doctor::SearchEnd::kNoneFails, "good_fails"}};
    static const std::map<doctor::Outcome, const char*> outcomes = {
        {doctor::Outcome::kPasses, "passes"},
        {doctor::Outcome::kFails, "fails"},
        {doctor::Outcome::kUnresolved, "unresolved"}};
    const auto shown = [](const std::string& name, const std::optional<base::Json>& value) {
      return config::redact_secrets(name, value.value_or(nullptr));
    };
    base::Json out = {{"end", ends.at(found.end)}, {"failure", failure_}, {"options", base::Json::array()}};
    for (const std::size_t i : found.options) {
      const config::OptionDifference& one = differences_[i];
      out["options"].push_back(
          {{"name", one.name}, {"good", shown(one.name, one.good)}, {"bad", shown(one.name, one.bad)}});
    }
    out["message"] = message_of(found.options);
    out["differing"] = differences_.size();
    out["tries"] = base::Json::array();
    for (const Try& one : tries_) {
      base::Json names = base::Json::array();
      for (const std::size_t i : one.options) names.push_back(differences_[i].name);
      out["tries"].push_back({{"options", names},
                              {"outcome", outcomes.at(one.trial.outcome)},
                              {"kind", one.trial.kind},
                              {"message", one.trial.message},
                              {"seconds", one.trial.seconds}});
    }
    return out;
  }

  const config::BisectPlan& plan_;
  const config::Settings good_, bad_;
  const std::vector<config::OptionDifference> differences_;
  const std::atomic<bool>& stop_;
  Workspace workplace_;
  std::string failure_;  // how the bad configuration fails
  std::vector<Try> tries_;
};

}  // namespace

int bisect(const std::vector<std::string>& arguments) {
  const config::BisectPlan plan = config::parse_bisect(arguments);
  print_notes(plan.notes);
  try {
    return Bisection(plan).run();
  } catch (const Interrupted&) {
    std::cerr << "hone: stopped; the child processes have ended and nothing was kept\n";
    return kInterrupted;
  }
}

}  // namespace hone::commands
