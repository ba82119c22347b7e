// hone: argv -> command. A table of contents: what needs no tensors answers here; the rest is
// libhone_core.so's, loaded only after the command line has been found right, so that help and errors take
// milliseconds.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/process/instruction_level.h"
#include "base/process/launchers.h"
#include "base/process/process_memory.h"
#include "base/strings/printable.h"
#include "base/strings/suggest.h"
#include "base/version.h"
#include "config/commands/commands.h"
#include "config/commands/help.h"
#include "config/method_of.h"
#include "report/fit_page.h"
#include "report/terminal/terminal.h"

namespace {

// What pip calls the wheel (tools/wheel.py): PyPI's `hone` is another project.
constexpr auto kDistribution = "hone-train";

using hone::base::InternalError;
using hone::base::kOurBug;
using hone::base::kUserMistake;
using hone::base::UserError;
namespace config = hone::config;

// Trainers of TRL's that hone does not have; their names are near those of others (ppo, dpo).
const std::vector<std::string> kOfTrl = {"ppo", "bco", "gkd", "prm", "xpo", "nash-md", "minillm", "gold"};

// The one way to print here; libhone_core has report/terminal/safe_streams.h.
void say(std::FILE* stream, std::string_view text) {
  const int columns = hone::report::terminal_of(::fileno(stream)).columns;
  const std::string shown = hone::report::fit_page(hone::base::printable(text), columns);
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool asks_help(const std::vector<std::string>& words) {
  return has(words, "--help") || has(words, "-h");
}

[[noreturn]] void unknown_command(const std::string& command) {
  if (has(kOfTrl, command)) {
    throw UserError({.where = "hone " + command,
                     .expected = "a method that hone has",
                     .found = command + ", a trainer of TRL's that hone does not have",
                     .cause = {},
                     .fix = "`hone --help` lists the methods"});
  }
  std::vector<std::string> names;
  for (const config::CommandRow& row : config::command_rows()) {
    if (!row.what.empty()) names.emplace_back(row.name);
  }
  throw UserError(
      {.where = "hone",
       .expected = "a command",
       .found = fmt::format("unknown command '{}'.{}", command, hone::base::did_you_mean(command, names)),
       .cause = {},
       .fix = "`hone --help` lists the commands"});
}

// An option that a command does not read is a mistake, and never passed over.
void refuse_words(const std::string& command, const std::vector<std::string>& words) {
  if (words.empty() || asks_help(words)) return;
  throw UserError({.where = "hone " + command,
                   .expected = "nothing after it",
                   .found = fmt::format("'{}'", words.front()),
                   .cause = command + " has no options",
                   .fix = "write hone " + command});
}

// libtorch alone takes most of a gigabyte of addresses, whatever the run needs.
void refuse_without_addresses(const std::string& core, const std::string& why) {
  const std::string limit = hone::base::free_memory_and_limit().limit;
  const bool unmapped = why.find("cannot allocate") != std::string::npos ||
                        why.find("failed to map") != std::string::npos ||
                        why.find("cannot map") != std::string::npos;
  if (!unmapped || !limit.starts_with("`ulimit")) return;
  throw UserError({.where = core,
                   .expected = "addresses for hone's library and libtorch (MEM-01)",
                   .found = why,
                   .cause = limit + " is too low to load the program",
                   .fix = "raise that limit"});
}

int run_core(std::vector<std::string> words) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path core = self.parent_path() / "libhone_core.so";
  // libgomp's threads spin for milliseconds at each barrier; beside another busy program that made a step 4
  // to 7 times slower. It reads this once, when it is loaded; what the user set stays.
  setenv("GOMP_SPINCOUNT", "1000", 0);
  void* library = dlopen(core.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const std::string why = dlerror();
    refuse_without_addresses(core.string(), why);
    throw UserError({.where = core.string(),
                     .expected = "hone's library beside the program",
                     .found = why,
                     .cause = "the build was moved, or third_party/site is gone",
                     .fix = "run ./quickstart again"});
  }
  using Run = int (*)(int, char**);
  const auto run = reinterpret_cast<Run>(dlsym(library, "hone_core_run"));
  hone::base::require(run != nullptr, core.string(), "the symbol hone_core_run");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return run(static_cast<int>(words.size()), argv.data());
}

// Whether a launcher has started several processes (parallel/place.h).
bool is_rank() {
  for (const hone::base::LauncherNames& names : hone::base::kLaunchers) {
    const char* const size = std::getenv(names.size);
    if (size != nullptr && std::string_view(size) != "1") return true;
  }
  return false;
}

int run(int argc, char** argv) {
  std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  hone::base::hold_instructions(all);
  if (all.empty() || all[0] == "help" || all[0] == "--help" || all[0] == "-h") {
    say(all.empty() ? stderr : stdout, config::program_help());
    return all.empty() ? kUserMistake : 0;
  }
  const std::string& command = all[0];
  const std::vector<std::string> words(all.begin() + 1, all.end());
  if (command == "version" || command == "--version" || command == "env") refuse_words(command, words);
  if (command == "version" || command == "--version") {
    say(stdout, fmt::format("hone {} ({})\n", hone::base::kHoneVersion, kDistribution));
    return 0;
  }
  const config::CommandRow* const row = config::find_command(command);
  if (row == nullptr) unknown_command(command);
  if (command == "options" && !asks_help(words)) {
    say(stdout, config::run_options(words));
    return 0;
  }
  if (asks_help(words)) {
    say(stdout, config::command_help(*row));
    return 0;
  }
  // The core parses again: what crosses the door is argv alone. It also knows how many ranks divide a batch.
  if (row->check != nullptr && !(is_rank() && config::find_method(command))) row->check(words);
  all.insert(all.begin(), argv[0]);
  return run_core(std::move(all));
}

// The exit code of the command; a message where it failed.
int run_and_say(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UserError& error) {
    say(stderr, fmt::format("hone: {}\n", error.what()));
    return kUserMistake;
  } catch (const InternalError& error) {
    say(stderr, fmt::format("hone: {}\nThis is a bug in hone. Please report it with the command you ran.\n",
                            error.what()));
  } catch (const std::bad_alloc&) {
    say(stderr, "hone: the machine's memory is used up\n");
  } catch (const std::exception& error) {
    say(stderr, fmt::format("hone: {}\nThis is a bug in hone. Please report it with the command you ran.\n",
                            error.what()));
  }
  return kOurBug;
}

}  // namespace

int main(int argc, char** argv) {
  // A file at its size limit (ulimit -f) is then an error of write(), with a message, instead of a sudden
  // end.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run_and_say(argc, argv);
  // Every object of a command has been destroyed by now. What is left are the tables of libtorch's operators: to take them
  // apart costs a third of the processor time of a command that does little.
  // A rank takes its time, because others may still be connecting to it; profilers of a card write what they have at the end.
  void* const card = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (is_rank() || card != nullptr) return code;
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}
