#include "doctor/attempt.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/process/stop_request.h"

namespace hone::doctor {

namespace {

constexpr std::string_view kCouldNotRun = " could not run";

std::function<void(std::string_view)>& injected() {
  static std::function<void(std::string_view)> fault;
  return fault;
}

base::Verdict note_of(std::string_view name, const std::string& evidence) {
  return {.level = base::Level::kNote,
          .what = "probe " + std::string(name) + std::string(kCouldNotRun),
          .evidence = evidence,
          .cause = "an error of the probe itself, with inputs of its own: the run does not need it",
          .fix = "nothing for this run; this line and the file of `hone bug-report` are a report"};
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Verdicts attempt(std::string_view name, const std::function<Verdicts()>& look) {
  try {
    if (injected()) injected()(name);
    return look();
  } catch (const base::StopCut&) {
    throw;
  } catch (const base::Error& error) {
    const base::ErrorText& text = error.text();
    return {note_of(name, text.where + ": expected " + text.expected +
                              (text.found.empty() ? "" : ", found " + text.found))};
  } catch (const std::exception& error) {
    return {note_of(name, first_line(error.what()))};
  }
}

bool is_failed_attempt(const base::Verdict& verdict) {
  return verdict.level == base::Level::kNote && verdict.what.starts_with("probe ") &&
         verdict.what.ends_with(kCouldNotRun);
}

void inject_into_looks(std::function<void(std::string_view)> fault) {
  injected() = std::move(fault);
}

}  // namespace hone::doctor
