// hone env: what a bug report needs to know about this machine and build.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/native/DispatchStub.h>
#include <sys/utsname.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "base/gpu_reports.h"
#include "base/process/instruction_level.h"
#include "base/strings/printable.h"
#include "base/version.h"
#include "commands/commands.h"
#include "ops/machine/cuda.h"
#include "ops/machine/graph_library.h"
#include "ops/machine/product_rates.h"
#include "ops/machine/step_graphs.h"
#include "report/terminal/terminal.h"

namespace hone::commands {
namespace {

// "avx512 kernels, 288 GFLOP/s, 87 % of what these instructions can do here (331)"
std::string product_line(at::ScalarType dtype) {
  constexpr double kSeconds = 0.3;
  const ops::ProductRate rate = ops::measure_products(dtype, {}, kSeconds);
  char text[160];
  std::snprintf(text, sizeof text, "%.0f GFLOP/s", rate.gflops);
  std::string out = rate.kernels + " kernels, " + text;
  if (rate.limit == 0) return out;
  std::snprintf(text, sizeof text, ", %.0f %% of what these instructions can do here (%.0f)",
                100 * rate.share(), rate.limit);
  return out + text;
}

// What `device: cuda` would get, or in one sentence why it would get nothing.
std::string gpu_lines(const ops::CudaState& cuda) {
  std::string out =
      std::string("device      ") + base::kDefaultDevice + ", unless the option device says otherwise\n";
  if (cuda.loaded) {
    for (std::size_t i = 0; i < cuda.driver.cards.size(); ++i)
      out += "cuda:" + std::to_string(i) + "      " +
             ops::describe(cuda.driver, static_cast<std::int64_t>(i)) + '\n';
    out += "cuda        " + ops::versions(cuda) + "; loaded " + cuda.library + '\n';
    const std::string missing = ops::own_kernels_missing();
    out += "kernels     " +
           (missing.empty() ? "hone's own, beside libtorch's" : "libtorch's alone: " + missing) + '\n';
    if (ops::step_graphs_wanted()) {
      const std::string no_graphs = ops::cuda::graph_library_missing();
      out += "graphs      " + (no_graphs.empty() ? "of the sampler's steps" : "none: " + no_graphs) + '\n';
    }
  } else {
    out += "cuda        not here: " + cuda.why_not() + '\n';
  }
  if (*base::kCudaStanding != '\0') out += std::string("            ") + base::kCudaStanding + '\n';
  return base::printable(out);
}

}  // namespace

std::string env_text() {
  const ops::CudaState& cuda = ops::load_cuda();  // before libtorch is asked anything else
  utsname system{};
  uname(&system);
  const auto memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::ostringstream out;
  out << "hone        " << base::kHoneVersion << "\nlibtorch    " << TORCH_VERSION << "\ncompiler    g++ "
      << __VERSION__ << "\nsystem      " << system.sysname << ' ' << system.release << ' ' << system.machine
      << "\nprocessors  " << std::thread::hardware_concurrency() << ", " << at::get_num_threads()
      << " used; this machine has " << base::name_of(base::machine_level())
      << (base::is_held_to_a_level() ? std::string(", held to ") + base::name_of(base::instruction_level())
                                     : "")
      << "\nlibtorch's   " << at::get_cpu_capability() << "\nbf16        " << product_line(at::kBFloat16)
      << "\nfloat32     " << product_line(at::kFloat) << "\nmemory      " << report::human_bytes(memory)
      << '\n'
      << gpu_lines(cuda);
  return out.str();
}

int env() {
  std::cout << env_text() << std::flush;
  return 0;
}

}  // namespace hone::commands
