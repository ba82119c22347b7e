// Errors of the library. Each says where it happened, what was expected, what was found, the likely cause,
// and what to do; what() is all of it as text.
//
// UserError     a file, an option, a row or an argument is wrong; nothing has changed.
// InternalError a defect of hone.
#pragma once

#include "base/error.h"

namespace hone {

using base::ErrorText;
using base::InternalError;
using base::UserError;

}  // namespace hone
