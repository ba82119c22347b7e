#include "hone/doctor.h"

#include <memory>

#include "doctor/error_verdict.h"
#include "doctor/examination.h"
#include "hone/error.h"
#include "library/plan.h"
#include "ops/machine/host_memory.h"
#include "train/opening/open_run.h"

namespace hone {

std::vector<Verdict> examine(const std::string& method, const std::vector<std::string>& arguments) {
  ops::use_host_memory();
  train::RunListener silent;
  std::unique_ptr<train::OpenedRun> opened;
  try {
    opened = train::open_run(library::plan_of(method, arguments), silent);
  } catch (const base::UserError& error) {
    Verdict verdict = doctor::verdict_of(error);
    verdict.part = verdict.code.starts_with("DATA") ? "data" : "config";
    return {verdict};
  }
  std::vector<Verdict> out;
  doctor::examine(*opened, {.program = {}, .cache_dir = {}}, [&out](const doctor::ExamPart& part) {
    out.insert(out.end(), part.verdicts.begin(), part.verdicts.end());
  });
  return out;
}

}  // namespace hone
