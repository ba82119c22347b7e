// hone: argv -> command. A table of contents: what needs no tensors answers here; the rest is
// libhone_core.so's, loaded only after the command line has been found right, so that help and errors take
// milliseconds.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "config/doctor_plan.h"
#include "config/explain_plan.h"
#include "config/help.h"
#include "config/parse.h"
#include "config/tool_plans.h"

namespace {

using hone::base::InternalError;
using hone::base::UserError;
namespace config = hone::config;

constexpr int kUserMistake = 2;                 // the user can mend it
constexpr int kOurBug = 70;                     // EX_SOFTWARE
constexpr const char* kVersion = HONE_VERSION;  // CMakeLists.txt has it

const std::vector<std::string> kCommands = {
    "sft",  "grpo",    "rloo",   "dpo",    "online-dpo", "kto",    "reward",  "generate",
    "chat", "convert", "merge",  "export", "options",    "env",    "version", "reward-test",
    "help", "doctor",  "faults", "bisect", "lr-find",    "explain"};
const std::vector<std::string> kNotYet = {"launch", "plan"};
const std::vector<std::string> kHidden = {"probe-hardware"};  // for hone's own children

// The one way to print here; libhone_core has report/safe_streams.h.
void say(std::FILE* stream, std::string_view text) {
  const std::string shown = hone::base::printable(text);
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool asks_help(const std::vector<std::string>& words) {
  return has(words, "--help") || has(words, "-h");
}

[[noreturn]] void unknown_command(const std::string& command) {
  if (has(kNotYet, command)) {
    throw UserError({.where = "hone " + command,
                     .expected = "a command that this version has",
                     .found = command + " is planned, and not yet there",
                     .cause = {},
                     .fix = "`hone --help` lists the commands"});
  }
  std::vector<std::string> names = kCommands;
  names.insert(names.end(), kNotYet.begin(), kNotYet.end());
  throw UserError(
      {.where = "hone",
       .expected = "a command",
       .found = fmt::format("unknown command '{}'.{}", command, hone::base::did_you_mean(command, names)),
       .cause = {},
       .fix = "`hone --help` lists the commands"});
}

// The core parses again: what crosses the door is argv alone.
void check_arguments(const std::string& command, const std::vector<std::string>& words) {
  if (command == "sft") config::parse_run(config::Method::kSft, words);
  if (command == "grpo") config::parse_run(config::Method::kGrpo, words);
  if (command == "rloo") config::parse_run(config::Method::kRloo, words);
  if (command == "dpo") config::parse_run(config::Method::kDpo, words);
  if (command == "online-dpo") config::parse_run(config::Method::kOnlineDpo, words);
  if (command == "reward") config::parse_run(config::Method::kReward, words);
  if (command == "kto") config::parse_run(config::Method::kKto, words);
  if (command == "reward-test") config::parse_reward_test(words);
  if (command == "generate") config::parse_generate(words);
  if (command == "chat") config::parse_chat(words);
  if (command == "convert") config::parse_convert(words);
  if (command == "merge") config::parse_merge(words);
  if (command == "export") config::parse_export(words);
  if (command == "doctor") config::parse_doctor(words);
  if (command == "faults") config::parse_faults(words);
  if (command == "bisect") config::parse_bisect(words);
  if (command == "lr-find") config::parse_lr_find(words);
  if (command == "explain") config::parse_explain(words);
}

int run_core(int argc, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path core = self.parent_path() / "libhone_core.so";
  // libgomp's threads spin for milliseconds at each barrier; beside another busy program that made a step 4
  // to 7 times slower. It reads this once, when it is loaded; what the user set stays.
  setenv("GOMP_SPINCOUNT", "1000", 0);
  void* library = dlopen(core.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw UserError({.where = core.string(),
                     .expected = "hone's library beside the program",
                     .found = dlerror(),
                     .cause = "the build was moved, or third_party/site is gone",
                     .fix = "run ./quickstart again"});
  }
  using Run = int (*)(int, char**);
  const auto run = reinterpret_cast<Run>(dlsym(library, "hone_core_run"));
  hone::base::require(run != nullptr, core.string(), "the symbol hone_core_run");
  return run(argc, argv);
}

int run(int argc, char** argv) {
  const std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  if (all.empty() || all[0] == "help" || all[0] == "--help" || all[0] == "-h") {
    say(all.empty() ? stderr : stdout, config::program_help());
    return all.empty() ? kUserMistake : 0;
  }
  const std::string& command = all[0];
  const std::vector<std::string> words(all.begin() + 1, all.end());
  if (command == "version" || command == "--version") {
    say(stdout, fmt::format("hone {}\n", kVersion));
    return 0;
  }
  if (!has(kCommands, command) && !has(kHidden, command)) unknown_command(command);
  if (command == "options" && !asks_help(words)) {
    say(stdout, config::run_options(words));
    return 0;
  }
  if (asks_help(words) && command == "explain") {
    say(stdout, config::explain_help());
    return 0;
  }
  if (asks_help(words)) {
    const config::Schema* schema = config::schema_for(command);
    say(stdout, schema != nullptr ? config::command_help(*schema) : config::program_help());
    return 0;
  }
  check_arguments(command, words);
  return run_core(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  // A file at its size limit (ulimit -f) is then an error of write(), with a message, instead of a sudden
  // end.
  std::signal(SIGXFSZ, SIG_IGN);
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
