#include "config/commands/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/strings/suggest.h"
#include "config/method_of.h"
#include "config/parse.h"
#include "config/settings.h"

namespace hone::config {

namespace {

constexpr double kMostRanksHere = 1024, kMostPortNumber = 65'535, kMostRestarts = 1000, kMostGrace = 86'400;

bool is_bool(std::string name) {
  const Schema& schema = launch_schema();
  if (schema.find(name) == nullptr && name.starts_with("no_")) name.erase(0, 3);
  const Option* const row = schema.find(name);
  return row != nullptr && row->kind == Kind::kBool;
}

// Where the launched command begins: after `--`, or at the first word that is neither an option nor its value.
std::size_t command_begin(const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at] != "--" && is_option_word(words[at])) {
    const bool flag = is_bool(option_name(words[at]));
    const bool own_value = words[at].find('=') != std::string::npos;
    const bool next_is_value =
        !own_value && at + 1 < words.size() && (!flag || words[at + 1] == "true" || words[at + 1] == "false");
    at += next_is_value ? 2 : 1;
  }
  return at;
}

// The command is a training method, and its own options are right: said once, and not by every rank.
void check_command(const std::vector<std::string>& command, std::int64_t ranks) {
  const std::vector<std::string> methods = method_names();
  const std::optional<Method> method = command.empty() ? std::nullopt : find_method(command[0]);
  if (!method) {
    throw base::UserError(
        {.where = "hone launch",
         .expected = "a training command: one of " + fmt::format("{}", fmt::join(methods, ", ")),
         .found = command.empty()
                      ? "none"
                      : fmt::format("'{}'.{}", command[0], base::did_you_mean(command[0], methods)),
         .cause = {},
         .fix = "hone launch --nproc 2 -- sft --config run.yaml"});
  }
  parse_run(*method, {command.begin() + 1, command.end()}, ranks);
}

// As a shell reads it as one word.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> split_hosts(const std::vector<std::string>& given) {
  std::vector<std::string> out;
  for (const std::string& one : given) {
    for (const std::string& host : split_words(one)) out.push_back(host);
  }
  return out;
}

}  // namespace

const Schema& launch_schema() {
  static const Schema schema = [] {
    std::vector<Option> rows = {
        {"nproc", "ranks to start on this host", &LaunchPlan::nproc,
         Range{.least = 0, .most = kMostRanksHere}},  // 0: not said, which is refused
        {"hosts", "all hosts of the run, that of rank 0 first: --hosts a,b; null: this one",
         &LaunchPlan::hosts, kRepeats},
        {"node", "which of hosts this one is, from 0; null: print what to type on each", &LaunchPlan::node,
         "null", Range{.least = 0, .most = kMostRanksHere}},
        {"master_port",
         "port at which the ranks find each other; 0: one that is free; 29500 with several hosts",
         &LaunchPlan::master_port, Range{.least = 0, .most = kMostPortNumber}},
        {"restarts", "how often to start all ranks again after one was lost", &LaunchPlan::restarts,
         Range{.least = 0, .most = kMostRestarts}},
        {"grace", "seconds that the other ranks have to end by themselves after one has ended",
         &LaunchPlan::grace, kWhole, Range{.least = 0, .most = kMostGrace}},
        {"pin", "give each rank its share of the processors", &LaunchPlan::pin},
        {"all_output", "print what every rank prints; false: rank 0, and the errors of others",
         &LaunchPlan::all_output}};
    for (Option& row : rows) row.group = "options";
    return Schema{.command = "launch", .options = std::move(rows)};
  }();
  return schema;
}

LaunchPlan parse_launch(const std::vector<std::string>& arguments) {
  const std::size_t begin = command_begin(arguments);
  Settings settings(launch_schema());
  settings.read_arguments({arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(begin)});
  settings.throw_mistakes();
  LaunchPlan plan;
  plan.notes = settings.check();
  settings.fill(plan);
  const bool dashes = begin < arguments.size() && arguments[begin] == "--";
  plan.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(begin + (dashes ? 1 : 0)),
                      arguments.end());
  plan.hosts = split_hosts(plan.hosts);
  if (!settings.is_set("node")) plan.node = -1;
  if (plan.nproc == 0) {
    throw base::UserError({.where = "hone launch",
                           .expected = "how many ranks to start on this host",
                           .found = "no --nproc",
                           .cause = {},
                           .fix = "hone launch --nproc 2 -- sft --config run.yaml"});
  }
  if (plan.hosts.size() > 1 && plan.master_port == 0) plan.master_port = 29'500;
  const auto hosts = static_cast<std::int64_t>(std::max<std::size_t>(plan.hosts.size(), 1));
  if (plan.node >= hosts) {
    throw base::UserError({.where = "--node",
                           .expected = fmt::format("0 to {}: one of the {} hosts", hosts - 1, hosts),
                           .found = std::to_string(plan.node),
                           .cause = "nodes count from 0",
                           .fix = "give the place of this host in --hosts"});
  }
  if (hosts > 1 && plan.restarts > 0) {
    throw base::UserError(
        {.where = "--restarts",
         .expected = "one host, when ranks are started again",
         .found = fmt::format("{} hosts: their launchers do not know of each other", hosts),
         .cause = {},
         .fix = "use torchrun --no-python with --max-restarts, or a scheduler that requeues"});
  }
  check_command(plan.command, plan.nproc * hosts);
  return plan;
}

std::string host_lines(const LaunchPlan& plan) {
  std::string out, command;
  for (const std::string& word : plan.command) command += " " + quoted(word);
  const std::string folder = quoted(std::filesystem::current_path().string());
  const std::string hosts = fmt::format("{}", fmt::join(plan.hosts, ","));
  for (std::size_t node = 0; node < plan.hosts.size(); ++node) {
    out += fmt::format(
        "ssh {} {}\n", plan.hosts[node],
        quoted(fmt::format("cd {} && hone launch --nproc {} --hosts {} --node {} --master_port {} --{}",
                           folder, plan.nproc, hosts, node, plan.master_port, command)));
  }
  return out;
}

}  // namespace hone::config
