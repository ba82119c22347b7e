// Looks that may fail by themselves: an error inside a probe is a fault of the probe, not of the user's run.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "doctor/examination.h"

namespace hone::doctor {

// Returns what `look` finds. An exception in it becomes one note that begins with "probe `name` could not
// run", and the examination goes on. base::StopCut passes: it is no error.
Verdicts attempt(std::string_view name, const std::function<Verdicts()>& look);

// Whether this is such a note: what the probe would have found is not known.
bool is_failed_attempt(const base::Verdict& verdict);

// For tests: called at the beginning of every look with its name, inside of what attempt() guards, so that
// what it throws is an error of that look. Empty: nothing is called. Not for use while an examination runs.
void inject_into_looks(std::function<void(std::string_view name)> fault);

}  // namespace hone::doctor
