// The message and the report when a signal ends hone, instead of only "core dumped" (doctor/crash_text.h).
#pragma once

#include <filesystem>

namespace hone::commands {

// A SIGBUS in a mapped file does not end the process: base::require_readable() says which file it was (base/files/mapped_files.h).
// Otherwise, for SIGFPE, SIGSEGV, SIGILL, SIGBUS and SIGABRT: a paragraph on stderr, hone-crash-PID.json in `folder` (or the
// current folder where that is not possible), then the default action, so that the exit status is that of the
// signal. An ignored signal stays ignored. When several threads fault at once, only the first one's message
// is written; a stack overflow in a thread without base::install_signal_stack ends without a message.
//
// For tests: HONE_CRASH=SIGNAL@OPERATOR, or SIGNAL@OPERATOR:STEP, raises it when that operator starts;
// SIGNAL+SIGNAL+...@OPERATOR raises each in its own thread, at once. STACK instead of a signal overflows the
// thread's stack.
void watch_crash_signals(const std::filesystem::path& folder);

}  // namespace hone::commands
