#include "commands/own_file.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/strings/plural.h"
#include "base/strings/printable.h"
#include "commands/check_others.h"
#include "config/others/other_plan.h"

namespace hone::commands {
namespace {

using base::printable;

void require_trainable(const config::DoctorPlan& asked, const config::OtherRun& run) {
  if (asked.fix) {
    throw base::UserError(
        {.where = "--fix",
         .expected = "a file of hone's own",
         .found = asked.config + ", " + std::string(config::trainer_title(run.trainer)) + "'s",
         .fix = "write hone's own file first: hone check FILE --write run.yaml"});
  }
  if (run.refused.empty()) return;
  const config::OtherRefusal& first = run.refused.front();
  throw base::UserError(
      {.where = first.where.empty() ? asked.config : first.where,
       .expected = "a run that hone can train",
       .found = (first.name.empty() ? "" : first.name + ": ") + first.why,
       .cause = run.refused.size() == 1
                    ? ""
                    : base::counted(static_cast<std::int64_t>(run.refused.size()) - 1, "other line") + " too",
       .fix = "hone check " + asked.config + " says what to do of each"});
}

}  // namespace

OwnFile::OwnFile(config::DoctorPlan& asked) {
  const auto whose = recognized_file(asked);
  if (!whose) return;
  const config::OtherRun run = read_asked(asked, *whose);
  std::ostream& out = asked.json ? std::cerr : std::cout;
  out << printable("file      " + asked.config + " · " + std::string(config::trainer_title(run.trainer)) +
                   "'s, by " + run.recognized)
      << "; hone check shows each option\n";
  for (const config::OtherUnknown& one : run.unknown)
    out << printable("unknown   " + (one.name.empty() ? "" : one.name + ": ") + one.why) << '\n';
  require_trainable(asked, run);
  folder_.emplace("other");
  const std::string own =
      (folder_->path() / (base::fs::path(asked.config).stem().string() + ".yaml")).string();
  base::write_file_atomic(own, config::hone_file(run));
  std::replace(asked.arguments.begin(), asked.arguments.end(), asked.config, own);
  asked.method = run.method;
}

}  // namespace hone::commands
