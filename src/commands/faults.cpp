// hone faults: the doctor's catalogue.
#include <unistd.h>

#include <iostream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/strings/suggest.h"
#include "commands/commands.h"
#include "config/commands/doctor_plan.h"
#include "doctor/catalogue/catalogue.h"
#include "report/core_only/fault_pages.h"
#include "report/fit_page.h"
#include "report/terminal/terminal.h"

namespace hone::commands {

namespace {

const doctor::FaultClass& known_fault(const std::string& code) {
  if (const doctor::FaultClass* fault = doctor::find_fault(code)) return *fault;
  throw base::UserError({.where = "hone faults",
                         .expected = "the code of a class, such as GRAD-02",
                         .found = "'" + code + "'." + base::did_you_mean(code, doctor::fault_codes()),
                         .cause = {},
                         .fix = "`hone faults` lists them"});
}

std::string all_json() {
  base::Json list = base::Json::array();
  for (const doctor::FaultClass& one : doctor::fault_classes()) list.push_back(report::fault_json(one));
  return base::dump_json(list, 2) + "\n";
}

std::string markdown(const std::string& shown) {
  std::vector<report::ShownFault> rows;
  if (!shown.empty()) rows = report::read_shown_faults(base::read_text(shown), shown);
  return report::faults_markdown(doctor::fault_classes(), rows);
}

}  // namespace

int faults(const std::vector<std::string>& arguments) {
  const config::FaultsPlan plan = config::parse_faults(arguments);
  if (plan.markdown) {
    std::cout << markdown(plan.shown);
  } else if (plan.code.empty()) {
    const int columns = plan.json ? 0 : report::terminal_of(STDOUT_FILENO).columns;
    std::cout << (plan.json ? all_json()
                            : report::fit_page(report::faults_list(doctor::fault_classes()), columns));
  } else if (plan.json) {
    std::cout << base::dump_json(report::fault_json(known_fault(plan.code)), 2) << "\n";
  } else {
    std::cout << report::fault_page(known_fault(plan.code), report::terminal_of(STDOUT_FILENO).columns);
  }
  return 0;
}

}  // namespace hone::commands
