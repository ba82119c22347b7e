// An alternate stack for a thread's signal handlers. Without it a stack overflow would end the process
// without a message.
#pragma once

namespace hone::base {

// For the calling thread, until it ends. Idempotent.
void install_signal_stack();

}  // namespace hone::base
