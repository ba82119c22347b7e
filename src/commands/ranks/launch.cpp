// hone launch: the ranks of a run on this host, with the store that they find each other by. docs/ranks.md.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

#include "base/files/file.h"
#include "base/strings/plural.h"
#include "commands/commands.h"
#include "commands/ranks/launch_ranks.h"
#include "config/commands/launch_plan.h"
#include "config/method_of.h"
#include "config/parse.h"
#include "parallel/gloo/c10d_ranks.h"

namespace hone::commands {

namespace {

// The variables that torchrun sets, so that a reward or logger in Python sees what it knows.
std::vector<std::pair<std::string, std::string>> variables_of(const config::LaunchPlan& plan, int local,
                                                              int port, int restart) {
  const auto node = std::max<std::int64_t>(plan.node, 0);
  const auto hosts = static_cast<std::int64_t>(std::max<std::size_t>(plan.hosts.size(), 1));
  return {{"RANK", std::to_string(node * plan.nproc + local)},
          {"WORLD_SIZE", std::to_string(hosts * plan.nproc)},
          {"LOCAL_RANK", std::to_string(local)},
          {"LOCAL_WORLD_SIZE", std::to_string(plan.nproc)},
          {"GROUP_RANK", std::to_string(node)},
          {"MASTER_ADDR", plan.hosts.size() > 1 ? plan.hosts[0] : "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_RUN_ID", "hone launch"},
          {"TORCHELASTIC_RESTART_COUNT", std::to_string(restart)},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

std::vector<RankCommand> commands_of(const config::LaunchPlan& plan, int port, int restart) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<int> processors = own_processors();
  std::vector<RankCommand> out;
  for (int local = 0; local < plan.nproc; ++local) {
    RankCommand one{.rank = static_cast<int>(std::max<std::int64_t>(plan.node, 0) * plan.nproc) + local,
                    .words = {program},
                    .variables = variables_of(plan, local, port, restart)};
    one.words.insert(one.words.end(), plan.command.begin(), plan.command.end());
    if (plan.pin) one.processors = processor_share(processors, local, static_cast<int>(plan.nproc));
    out.push_back(std::move(one));
  }
  return out;
}

void tell_ends(const std::vector<RankEnd>& ends) {
  for (const RankEnd* const end : ends_to_tell(ends)) {
    std::cerr << "hone: rank " << end->rank << " " << end_text(*end) << '\n';
    if (!end->said.empty()) std::cerr << end->said << (end->said.back() == '\n' ? "" : "\n");
  }
}

void tell_start(const config::LaunchPlan& plan, int port) {
  std::cout << "launch    " << base::counted(plan.nproc, "rank") << " on this host";
  if (plan.hosts.size() > 1) std::cout << ", node " << plan.node << " of " << plan.hosts.size();
  std::cout << ", port " << port;
  const std::vector<int> processors = own_processors();
  if (plan.pin && !processors.empty()) {
    const auto share = processor_share(processors, 0, static_cast<int>(plan.nproc)).size();
    std::cout << ", " << base::counted(static_cast<std::int64_t>(share), "processor") << " each";
  }
  std::cout << '\n' << std::flush;
}

}  // namespace

int launch(const std::vector<std::string>& arguments) {
  config::LaunchPlan plan = config::parse_launch(arguments);
  print_notes(plan.notes);
  if (plan.hosts.size() > 1 && plan.node < 0) {
    std::cout << "launch    type on each host, or let a script do it:\n" << config::host_lines(plan);
    return 0;
  }
  const LaunchSignals signals;  // before the store's thread, which would take them else
  std::optional<parallel::HostedStore> store;
  if (plan.node <= 0) store.emplace(static_cast<int>(plan.master_port));
  const int port = store ? store->port() : static_cast<int>(plan.master_port);
  tell_start(plan, port);
  for (int restart = 0;; ++restart) {
    const LaunchedRanks done =
        run_launched(commands_of(plan, port, restart),
                     {.grace = std::chrono::milliseconds(static_cast<std::int64_t>(plan.grace * 1000)),
                      .all_output = plan.all_output},
                     signals.descriptor());
    tell_ends(done.ends);
    const int code = exit_code_of(done.ends);
    if (code != kLostRank || done.stop_asked || restart >= plan.restarts) return code;
    std::cout << "restart   " << restart + 1 << " of " << plan.restarts << '\n' << std::flush;
  }
}

}  // namespace hone::commands
