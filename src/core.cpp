// The door between the thin front (main.cpp) and everything that needs tensors: one C function in
// libhone_core.so.
#include "commands/commands.h"
#include "ops/machine/host_memory.h"

extern "C" int hone_core_run(int argc, char** argv) {
  hone::ops::use_host_memory();
  return hone::commands::run(argc, argv);
}
