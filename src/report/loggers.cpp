#include "report/loggers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/process/active_python.h"
#include "base/strings/printable.h"
#include "report/python/logger_text.h"

namespace hone::report {

using base::Clock;
using base::Json;

namespace {

constexpr int kQuiet = 2;   // seconds at the end of a run
constexpr int kOwnEnd = 5;  // seconds: a logger's process ends by itself so much later, should hone be gone

Json whole_settings(const LoggerOptions& options, const std::string& name, const std::string& folder) {
  Json out = options.settings;
  out["logger"] = name;
  out["folder"] = folder;
  out["seconds"] = options.seconds + kOwnEnd;
  return out;
}

base::PythonProcess::Options logger_process(const LoggerOptions& options) {
  return {.python = options.python, .program = kLoggerPython, .variables = options.variables};
}

// "absent" or "failed" of a message: why nothing is sent; empty: another message.
std::string why_not(const Json& message) {
  for (const char* name : {"absent", "failed"}) {
    if (message.contains(name) && message[name].is_string())
      return base::printable(message[name].get<std::string>());
  }
  return "";
}

std::string text_of(const Json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && found->is_string() ? base::printable(found->get<std::string>()) : "";
}

std::int64_t count_of(const Json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

Loggers::~Loggers() {
  finish("stopped", [](std::string_view) {});
}

std::string Loggers::later(const Logger& logger) const {
  return fmt::format("the run goes on; `hone log {} --to {}` sends it later", folder_, logger.name);
}

void Loggers::on_start(const train::StartFacts& facts, const Say& say) {
  folder_ = facts.output_dir;
  for (const std::string& name : options_.names) {
    Logger& logger = loggers_.emplace_back(
        Logger{.name = name, .process = std::make_unique<base::PythonProcess>(logger_process(options_))});
    Json settings = whole_settings(options_, name, folder_);
    settings["fresh"] = facts.first_step == 0;
    settings["follow"] = true;
    logger.process->tell(settings);
    take(logger, {}, say);
  }
}

// Prints what came; a logger that has said its last is given up, with one note.
void Loggers::take(Logger& logger, const std::vector<Json>& messages, const Say& say) {
  for (const Json& message : messages) {
    if (const std::string run = text_of(message, "run"); !run.empty())
      say(fmt::format("logger    {}: {}", logger.name, run));
    const bool absent = message.contains("absent");
    const std::string why = why_not(message);
    if (message.contains("sent") || !why.empty()) {
      if (!why.empty() && !(absent && options_.only_installed))
        say(fmt::format("note      report_to: {}: {}; {}", logger.name, why, later(logger)));
      logger.process.reset();
      return;
    }
  }
  if (!logger.process->closed()) return;
  logger.process->finish(Clock::now() + std::chrono::seconds(1));
  const std::string& how = logger.process->failure();
  say(fmt::format("note      report_to: {}: its Python {}; {}", logger.name,
                  how.empty() ? "ended" : base::printable(how), later(logger)));
  logger.process.reset();
}

void Loggers::poll(const Say& say) {
  for (Logger& logger : loggers_) {
    if (logger.process) take(logger, logger.process->messages(), say);
  }
}

void Loggers::on_finish(bool interrupted, std::int64_t, const Say& say) {
  poll(say);
  finish(interrupted ? "stopped" : "finished", say);
}

void Loggers::finish(const char* status, const Say& say) {
  for (Logger& logger : loggers_) {
    if (logger.process) logger.process->tell({{"end", status}});
  }
  const auto now = Clock::now(), until = now + std::chrono::seconds(options_.seconds);
  auto quiet = now + std::chrono::seconds(kQuiet);         // after it the user is told what is waited for
  const bool stopped = stop_ != nullptr && stop_->load();  // then a Ctrl-C more ends hone
  for (Logger& logger : loggers_) {
    while (logger.process) {
      const std::vector<Json> messages =
          logger.process->wait(std::min(quiet, until), stopped ? nullptr : stop_);
      const bool over = Clock::now() >= until || (!stopped && stop_ != nullptr && stop_->load());
      if (messages.empty() && !logger.process->closed() && !over && Clock::now() >= quiet) {
        say(fmt::format("logger    {}: sending what is left, {} s at most", logger.name, options_.seconds));
        quiet = until;
      }
      if (messages.empty() && !logger.process->closed() && over) {
        const std::string when = Clock::now() >= until
                                     ? fmt::format("not done {} s after the run's end", options_.seconds)
                                     : "ended";
        say(fmt::format("note      report_to: {}: {}; `hone log {} --to {}` sends the rest", logger.name,
                        when, folder_, logger.name));
        logger.process.reset();
      } else {
        // what it says last, it says when all is sent: then it ends by itself
        const bool done = !messages.empty() && messages.back().contains("sent");
        if (done) logger.process->finish(until);
        take(logger, messages, say);
      }
    }
  }
}

LoggerResult send_run(const std::string& folder, const LoggerOptions& options,
                      const std::atomic<bool>& stop) {
  const std::string& name = options.names.at(0);
  base::PythonProcess process(logger_process(options));
  Json settings = whole_settings(options, name, folder);
  settings["fresh"] = false;
  settings["follow"] = false;
  settings["seconds"] = 0;
  process.tell(settings);
  LoggerResult out;
  const auto fail = [&](const std::string& found) {
    throw base::UserError({.where = "hone log",
                           .expected = fmt::format("{} to take the run in {}", name, folder),
                           .found = found,
                           .cause = fmt::format("it is sent by '{}', with your own package and account",
                                                base::active_python(options.python).program),
                           .fix = "correct that and call hone log again: it sends what is missing"});
  };
  while (!stop.load()) {
    for (const Json& message : process.wait(Clock::now() + std::chrono::hours(24), &stop)) {
      if (const std::string why = why_not(message); !why.empty()) fail(why);
      if (const std::string run = text_of(message, "run"); !run.empty()) out.run = run;
      if (!message.contains("sent")) continue;
      out.sent = count_of(message, "sent");
      out.known = count_of(message, "known");
      process.finish(Clock::now() + std::chrono::seconds(kLoggerSeconds));
      return out;
    }
    if (!process.closed()) continue;
    process.finish(Clock::now() + std::chrono::seconds(1));
    fail("its Python " + (process.failure().empty() ? "ended" : base::printable(process.failure())));
  }
  fail("Ctrl-C");
  return out;
}

}  // namespace hone::report
