// The Python that asks a server over HTTP, embedded by the build: http_calls.py of this folder.
#pragma once

#include <string_view>

namespace hone::python {

extern const std::string_view kHttpCallsPython;

}  // namespace hone::python
