// What hone says and leaves behind when a signal ends it, instead of "core dumped" alone
// (doctor/crash_text.h).
#pragma once

#include <filesystem>

namespace hone::commands {

// SIGFPE, SIGSEGV, SIGILL, SIGBUS and SIGABRT: a paragraph on stderr, hone-crash-PID.json in `folder` (or the
// current folder where that is not possible), then the default action: the exit status stays true. A signal
// that was ignored stays so. When several threads fault at once the first one's words are written, whole; a
// thread without base::install_signal_stack that uses up its stack dies without any.
//
// For tests: HONE_CRASH=SIGNAL@OPERATOR, or SIGNAL@OPERATOR:STEP, raises it when that operator begins;
// SIGNAL+SIGNAL+...@OPERATOR raises each in a thread of its own, at once. STACK in place of a signal uses up
// the thread's stack.
void watch_crash_signals(const std::filesystem::path& folder);

}  // namespace hone::commands
