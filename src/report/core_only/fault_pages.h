// The doctor's catalogue as text: `hone faults`, `hone faults CODE`, --json and docs/faults.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "doctor/catalogue/catalogue.h"

namespace hone::report {

// A result of the fault tests: an injected fault and the reaction to it, or a healthy run.
struct ShownFault {
  std::string code;    // "GRAD-02"; "healthy" for a run without fault; "founding", "study"
  std::string name;    // of the case
  std::string result;  // "FAIL before step 1", "no FAIL"
};
// From lines `code<TAB>name<TAB>result`; empty lines and those that begin with # are left out. UserError for
// others; `where` names the file.
std::vector<ShownFault> read_shown_faults(std::string_view text, const std::string& where);

std::string faults_list(const std::vector<doctor::FaultClass>& faults);
std::string fault_page(const doctor::FaultClass& fault, int columns);  // columns 0: not known
base::Json fault_json(const doctor::FaultClass& fault);
// docs/faults.md.
std::string faults_markdown(const std::vector<doctor::FaultClass>& faults,
                            const std::vector<ShownFault>& shown);
// The faults that cannot happen, with the test that proves each, for `hone doctor -v`.
std::string impossible_lines(const std::vector<doctor::FaultClass>& faults, int columns);

}  // namespace hone::report
