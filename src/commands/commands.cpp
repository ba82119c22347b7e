#include "commands/commands.h"

#include <c10/util/Exception.h>

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <new>
#include <optional>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/files/file.h"
#include "base/process/process_memory.h"
#include "base/strings/printable.h"
#include "commands/serving/serve.h"
#include "config/method_of.h"
#include "report/fit_page.h"
#include "report/terminal/safe_streams.h"
#include "report/terminal/terminal.h"

namespace hone::commands {

namespace {

using base::kOurBug;
using base::kUserMistake;

using Command = int (*)(const std::vector<std::string>&);

const std::map<std::string, Command, std::less<>>& table() {
  static const std::map<std::string, Command, std::less<>> commands = {
      {"generate", &generate},
      {"chat", &chat},
      {"serve", &serve},
      {"eval", &eval},
      {"verify-served", &verify_served},
      {"convert", &convert},
      {"merge", &merge},
      {"export", &export_model},
      {"reward-test", &reward_test},
      {"report", &report_runs},
      {"compare", &compare_runs},
      {"log", &log_run},
      {"push", &push},
      {"launch", &launch},
      {"check", &check},
      {"doctor", &doctor},
      {"plan", &plan_ranks},
      {"faults", &faults},
      {"probe-hardware", [](const std::vector<std::string>&) { return probe_hardware(); }},
      {"gpu-check", &gpu_check},
      {"gpu-check-stage", [](const std::vector<std::string>&) { return gpu_check_stage(); }},
      {"bisect", &bisect},
      {"lr-find", &lr_find},
      {"explain", &explain},
      {"bug-report", &bug_report},
      {"env", [](const std::vector<std::string>&) { return env(); }}};
  return commands;
}

int bug(std::string_view what) {
  std::cerr << "hone: a bug in hone\n"
            << base::printable(what)
            << "\nPlease report this with your command and the file of `hone bug-report [OUTPUT_DIR]`.\n";
  return kOurBug;
}

// A training step frees and takes the same memory again. glibc would give large pieces back to the kernel,
// which clears every page again: 12 % of a SmolLM2 step. Pieces below 32 MiB (glibc's own limit) stay with
// the process; tensors of 1 MiB and more are kept by base/gguf/kept_blocks.h.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int out_of_memory() {
  const std::string limit = base::free_memory_and_limit().limit;
  std::cerr << "hone: expected enough memory (MEM-01)\n";
  if (!limit.empty()) std::cerr << "  found:  " << limit << " is reached\n";
  std::cerr << "  do:     lower per_device_train_batch_size or max_length, or "
            << (limit.empty() ? "use a smaller model" : "raise that limit") << "\n";
  return kUserMistake;
}

int out_of_memory_on_device(std::string_view said) {
  std::cerr << "hone: expected enough memory on the GPU (MEM-01)\n  found:  "
            << base::printable(said.substr(0, said.find('\n')))
            << "\n  do:     lower per_device_train_batch_size or max_length, or use a smaller model\n";
  return kUserMistake;
}

int run_command(const std::string& name, const std::vector<std::string>& arguments) {
  const std::optional<config::Method> method = config::find_method(name);
  base::require(has_command(name), "command " + name,
                "a command of config/commands/commands.cpp that needs tensors");
  const int code = method ? train_method(*method, arguments) : table().find(name)->second(arguments);
  if (std::cout.flush()) return code;
  throw base::UserError({.where = "standard output",
                         .expected = "to be written",
                         .found = "the write failed",
                         .cause = "the disk that it goes to is full, or the pipe was closed",
                         .fix = "free some space, or send it elsewhere"});
}

}  // namespace

bool has_command(std::string_view name) {
  return config::find_method(name).has_value() || table().contains(name);
}

void print_notes(const std::vector<std::string>& notes) {
  const int columns = report::terminal_of(STDERR_FILENO).columns;
  for (const auto& note : notes)
    std::cerr << report::fit_page("note      " + base::printable(note), columns) << '\n';
}

int run(int argc, char** argv) {
  const report::SafeStreams safe;
  keep_freed_memory();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return run_command(words.at(0), {words.begin() + 1, words.end()});
  } catch (const base::UserError& error) {
    const int columns = report::terminal_of(STDERR_FILENO).columns;
    std::cerr << report::fit_page("hone: " + base::printable(error.what()), columns) << '\n';
    return kUserMistake;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const base::fs::filesystem_error& error) {
    std::cerr << "hone: [" << base::printable(error.path1().string()) << "] " << error.code().message()
              << '\n';
    return kUserMistake;
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_memory_on_device(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    // libtorch's allocator has no type of its own for this.
    if (std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos)
      return out_of_memory();
    return bug(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return bug(error.what());
  }
}

}  // namespace hone::commands
