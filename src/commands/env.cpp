// hone env: what a bug report needs to know about this machine and build.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/native/DispatchStub.h>
#include <sys/utsname.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "commands/commands.h"
#include "report/terminal.h"

namespace hone::commands {

int env() {
  utsname system{};
  uname(&system);
  const auto memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::cout << "hone        " << HONE_VERSION << "\nlibtorch    " << TORCH_VERSION << "\ncompiler    g++ "
            << __VERSION__ << "\nsystem      " << system.sysname << ' ' << system.release << ' '
            << system.machine << "\nprocessors  " << std::thread::hardware_concurrency() << ", "
            << at::get_num_threads() << " used; instructions " << at::get_cpu_capability() << "\nmemory      "
            << report::human_bytes(memory) << "\ndevice      cpu (CUDA is not built yet)\n";
  return 0;
}

}  // namespace hone::commands
