// hone probe-hardware: what the doctor's child does. Shapes come on standard input, answers go to standard
// output, a line before and after each, so that the parent knows which one it died of.
//
// The device is that of the run. This is a process of its own, started by exec: one that was forked after CUDA began could
// not use it, and the run's own context would not survive a kernel that faults.
//
// A shape that does not fit the free memory is answered with the room that there is, and not run.
//
// HONE_BREAK breaks a kernel on purpose, for tests of what is then said: `gemm:SIGFPE`, `attention-bf16:nan`,
// `gemm-explicit:wrong`, `gemm:hang`.
#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>

#include "base/json.h"
#include "base/process/process_memory.h"
#include "base/process/signal_names.h"
#include "commands/commands.h"
#include "doctor/probes/machine/kernel_check.h"
#include "ops/machine/cuda.h"
#include "ops/machine/device_memory.h"

namespace hone::commands {

namespace {

// "gemm-bf16:SIGFPE" -> SIGFPE for shapes that are all of these words; empty for others.
std::string planted_fault(const doctor::KernelShape& shape) {
  const char* const asked = std::getenv("HONE_BREAK");
  if (asked == nullptr) return "";
  const std::string text = asked;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return "";
  for (std::size_t begin = 0; begin < colon;) {
    const std::size_t end = std::min(colon, text.find('-', begin));
    const std::string word = text.substr(begin, end - begin);
    const bool holds = word == "gemm"        ? shape.is_gemm()
                       : word == "attention" ? !shape.is_gemm()
                       : word == "bf16"      ? shape.bf16
                       : word == "fp32"      ? !shape.bf16
                       : word == "plain"     ? shape.autograd
                       : word == "explicit"  ? !shape.autograd
                                             : word == shape.kind;
    if (!holds) return "";
    begin = end + 1;
  }
  return text.substr(colon + 1);
}

void fall(const std::string& fault) {
  if (const int signal = base::signal_number(fault); signal != 0) std::raise(signal);
  while (fault == "hang") ::pause();
}

// Of the host, and of the device where it is another: what is free beside the run. 0: not known.
std::int64_t free_for(at::Device device) {
  const std::int64_t host = base::free_memory();
  return ops::is_host(device) || host <= 0 ? host : std::min(host, ops::device_memory(device).free);
}

// JSON has no infinity.
base::Json finite_or_null(double value) {
  return std::isfinite(value) ? base::Json(value) : base::Json();
}

}  // namespace

int probe_hardware() {
  // It may die here as it likes: no report, no core file.
  for (const int signal : {SIGFPE, SIGSEGV, SIGILL, SIGABRT, SIGBUS}) std::signal(signal, SIG_DFL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  const base::Json asked = base::parse_json(text, "standard input");
  const at::Device device = ops::open_device(asked.value("device", std::string("cpu")));
  at::set_num_threads(asked.at("threads").get<int>());
  std::size_t index = 0;
  for (const base::Json& json : asked.at("shapes")) {
    const doctor::KernelShape shape = doctor::KernelShape::from_json(json);
    std::cout << base::dump_json({{"begin", index}}) << '\n' << std::flush;
    const std::string fault = planted_fault(shape);
    fall(fault);
    // Beside the run, within the same limits: what has no room is not tested, and no fault of a kernel.
    const std::int64_t free = free_for(device);
    if (free > 0 && shape.bytes() > free) {
      std::cout << base::dump_json({{"done", index}, {"room", free}}) << '\n' << std::flush;
      index += 1;
      continue;
    }
    doctor::KernelError found = doctor::check_kernel(shape, device);
    if (fault == "nan") found.error = std::numeric_limits<double>::quiet_NaN();
    if (fault == "wrong") found.error += 1;
    const base::Json done = {{"done", index},
                             {"error", finite_or_null(found.error)},
                             {"bound", found.bound},
                             {"found", finite_or_null(found.found)},
                             {"expected", finite_or_null(found.expected)}};
    std::cout << base::dump_json(done) << '\n' << std::flush;
    index += 1;
  }
  return 0;
}

}  // namespace hone::commands
