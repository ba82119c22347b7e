// A stack of its own for a thread's signal handlers: where the thread's stack is used up there is no other
// left for them, and the process would die without a word.
#pragma once

namespace hone::base {

// For the calling thread, until it ends; again is nothing new.
void give_fault_stack();

}  // namespace hone::base
