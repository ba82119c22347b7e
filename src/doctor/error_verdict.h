// A UserError as a verdict.
#pragma once

#include <string>

#include "base/error.h"
#include "base/verdict.h"

namespace hone::doctor {

// The first code that a message names: "NUM-03: ...", "... (DATA-10)"; empty: none.
std::string code_in(const std::string& text);

// A failure with its code; the caller sets the part.
base::Verdict verdict_of(const base::UserError& error);

}  // namespace hone::doctor
