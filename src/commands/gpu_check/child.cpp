// hone gpu-check-stage: one stage of the check, in a process of its own. Which one comes on standard input.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/gpu_check/stage.h"
#include "ops/machine/cuda.h"

namespace hone::commands {

namespace {

void tell(const base::Json& line) {
  std::cout << base::dump_json(line) << '\n' << std::flush;
}

// It may die as it likes: no report, no core file. What it says on standard error goes to a file that the parent reads.
void prepare_to_die(const std::string& errors, int seconds) {
  for (const int signal : {SIGFPE, SIGSEGV, SIGILL, SIGABRT, SIGBUS}) ::signal(signal, SIG_DFL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!errors.empty() && std::freopen(errors.c_str(), "w", stderr) == nullptr) std::cerr << std::flush;
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(static_cast<unsigned>(seconds));
}

const GpuStage& stage_named(const std::string& name) {
  for (const GpuStage& one : gpu_stages())
    if (one.name == name) return one;
  throw base::InternalError({"gpu-check-stage", "a stage that there is", name, "", ""});
}

}  // namespace

void StageLog::begin(const std::string& what) {
  begun_ = what;
  tried_ += 1;
  tell({{"begin", what}});
}

void StageLog::fail(const std::string& why) {
  tell({{"failed", begun_.empty() ? why : begun_ + ": " + why}});
}

void StageLog::fact(const std::string& name, const base::Json& value) {
  tell({{"fact", name}, {"value", value}});
}

void StageLog::end() const {
  tell({{"end", tried_}});
}

int gpu_check_stage() {
  const std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  const base::Json asked = base::parse_json(text, "standard input");
  const GpuStage& stage = stage_named(asked.at("stage").get<std::string>());
  prepare_to_die(asked.at("errors").get<std::string>(), asked.at("seconds").get<int>());
  StageLog log;
  const auto device_name = asked.at("device").get<std::string>();
  try {
    const at::Device device = ops::open_device(device_name, "gpu-check");
    stage.run({.device = device, .scratch = asked.at("scratch").get<std::string>()}, log);
  } catch (const CannotRun& reason) {
    tell({{"not run", reason.what()}});
  } catch (const base::UserError& error) {
    const ops::CudaState& cuda = ops::load_cuda();
    if (!cuda.loaded && device_name.starts_with("cuda")) {
      tell({{"not run", cuda.why_not()}});
    } else {
      log.fail(error.what());
    }
  } catch (const std::exception& error) {
    const std::string said = error.what();
    log.fail(said.substr(0, said.find('\n')));
  }
  log.end();
  return 0;
}

}  // namespace hone::commands
