// The Python of the code rewards, embedded by the build: tools/_sandbox.py of the package, runner.py and judge.py of this folder.
#pragma once

#include <string_view>

namespace hone::rewards {

extern const std::string_view kSandboxPython, kRunnerPython, kJudgePython;

}  // namespace hone::rewards
