#include "report/core_only/fault_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "report/terminal/text_width.h"
#include "report/terminal/wrap_text.h"

namespace hone::report {

namespace {

using doctor::FaultClass;
using doctor::FaultStatus;

constexpr std::size_t kLabel = 13;

std::string describe_when(std::string_view letters) {
  static const std::map<char, std::string> words = {{'C', "the options"},
                                                    {'P', "a rehearsal before step 1"},
                                                    {'R', "the running job"},
                                                    {'X', "what it leaves"}};
  std::string out;
  for (const char letter : letters) out += (out.empty() ? "" : ", ") + words.at(letter);
  return out;
}

// "impossible here: why" and its kin.
std::string in_hone(const FaultClass& fault) {
  std::string out(doctor::fault_status_name(fault.status));
  if (fault.status == FaultStatus::kImpossible) out = "cannot happen";
  if (!fault.why.empty()) out += fmt::format(": {}", fault.why);
  return out;
}

std::string count_of(const std::vector<FaultClass>& faults, FaultStatus status) {
  return std::to_string(std::count_if(faults.begin(), faults.end(),
                                      [status](const FaultClass& one) { return one.status == status; }));
}

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char each : text) {
    if (each == '|' || each == '<' || each == '*' || each == '_') out += '\\';
    out += each == '\n' ? ' ' : each;
  }
  return out;
}

std::string shown_cell(std::string_view code, const std::vector<ShownFault>& shown) {
  std::string out;
  for (const ShownFault& one : shown) {
    if (one.code == code)
      out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", cell(one.name), cell(one.result));
  }
  return out;
}

std::string how_cell(const FaultClass& fault) {
  if (fault.status == FaultStatus::kChecked) return cell(fault.check);
  if (fault.status == FaultStatus::kNotYet) return cell(fault.why);
  return fmt::format("{} (`{}`)", cell(fault.why), fault.proof);
}

}  // namespace

std::vector<ShownFault> read_shown_faults(std::string_view text, const std::string& where) {
  std::vector<ShownFault> out;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    number += 1;
    if (line.empty() || line.front() == '#') continue;
    const std::size_t first = line.find('\t');
    const std::size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
    const std::string code(line.substr(0, first));
    const bool known =
        code == "healthy" || code == "founding" || code == "study" || doctor::find_fault(code) != nullptr;
    if (second == std::string_view::npos || !known) {
      throw base::UserError(
          {.where = fmt::format("{}:{}", where, number),
           .expected = "a code, `healthy`, `founding` or `study`, a tab, a name, a tab, a result",
           .found = fmt::format("'{}'", line),
           .cause = {},
           .fix = {}});
    }
    out.push_back({code, std::string(line.substr(first + 1, second - first - 1)),
                   std::string(line.substr(second + 1))});
  }
  return out;
}

std::string faults_list(const std::vector<FaultClass>& faults) {
  std::string out;
  for (const FaultClass& one : faults) {
    out += fmt::format("{:<8} {:<15} {:<11} {}\n", one.code, one.flag, doctor::fault_status_name(one.status),
                       one.name);
  }
  return out + fmt::format(
                   "\n"
                   "{} classes: {} checked, {} impossible by construction, {} not yet. `hone faults CODE` is "
                   "the page of one.\n",
                   faults.size(), count_of(faults, FaultStatus::kChecked),
                   count_of(faults, FaultStatus::kImpossible), count_of(faults, FaultStatus::kNotYet));
}

std::string fault_page(const FaultClass& fault, int columns) {
  std::string out = fmt::format("{}  {}\n", fault.code, fault.name);
  const auto line = [&](std::string_view label, std::string_view text) {
    if (text.empty()) return;
    out += fmt::format("  {:<{}}{}\n", label, kLabel - 2, wrap_text(text, kLabel, page_columns(columns)));
  };
  line("elsewhere", fmt::format("{}; found in {}", fault.flag, describe_when(fault.when)));
  line("symptom", fault.symptom);
  line("cause", fault.cause);
  line("check", fault.check);
  line("do", fault.advice);
  line("in hone", in_hone(fault));
  line("where", fault.places);
  line("proof", fault.proof);
  return out;
}

base::Json fault_json(const FaultClass& fault) {
  base::Json out;
  out["code"] = fault.code;
  out["name"] = fault.name;
  out["flag"] = fault.flag;
  out["when"] = fault.when;
  out["symptom"] = fault.symptom;
  out["cause"] = fault.cause;
  out["check"] = fault.check;
  out["do"] = fault.advice;
  out["status"] = doctor::fault_status_name(fault.status);
  if (!fault.places.empty()) out["where"] = fault.places;
  if (!fault.why.empty()) out["why"] = fault.why;
  if (!fault.proof.empty()) out["proof"] = fault.proof;
  return out;
}

namespace {

// A table of the rows with that code, under `head`; empty: there are none.
std::string shown_section(const std::vector<ShownFault>& shown, std::string_view code,
                          const std::string& head) {
  std::string out;
  for (const ShownFault& one : shown) {
    if (one.code == code) out += fmt::format("| {} | {} |\n", cell(one.name), cell(one.result));
  }
  return out.empty() ? out : "\n" + head + "| --- | --- |\n" + out;
}

// Cases of classes whose result begins so; what was not run is none.
std::size_t cases_of(const std::vector<ShownFault>& shown, std::string_view beginning) {
  return static_cast<std::size_t>(
      std::count_if(shown.begin(), shown.end(), [beginning](const ShownFault& one) {
        const bool of_class = one.code != "healthy" && one.code != "founding" && one.code != "study";
        return of_class && !one.result.starts_with("not run") && one.result.starts_with(beginning);
      }));
}

}  // namespace

std::string faults_markdown(const std::vector<FaultClass>& faults, const std::vector<ShownFault>& shown) {
  std::string out = fmt::format(
      "# Faults\n\n"
      "What can go wrong in post-training, and what hone does about it: {} classes, of which {} are checked, "
      "{} cannot\n"
      "happen by construction (the test named there fails if one could), and {} wait for the feature they "
      "belong to.\n"
      "`hone faults CODE` prints the page of a class: symptom, cause, check, what to do. `hone doctor "
      "run.yaml` examines a\n"
      "run; every training run is examined before its first step, and watched by the same codes.\n\n"
      "This file is printed by `hone faults --markdown --shown tests/faults/shown.tsv`; a test compares "
      "them. \"Elsewhere\" is how\n"
      "the fault shows in other tools: SILENT (the run \"succeeds\"), QUIET (a line that is ignored), LOUD "
      "(it ends).\n"
      "\"Shown by\" is the case of tests/faults that injects it, and the result: {} cases, of which {} are excluded by "
      "design. A case\n"
      "with the result ok or note is the healthy neighbor of another. The whole text of each verdict is in "
      "`tests/faults/told.txt`.\n\n"
      "A failure stops a run only when it cannot do what its configuration says: nothing can be learned, or a step "
      "would end it.\n"
      "What TRL trains, with less than was meant, is a warning. So a long warm-up fails only where no step has a tenth "
      "of the rate,\n"
      "and lost targets only where nearly none are left.\n\n"
      "| code | class | elsewhere | in hone | how | shown by |\n"
      "| --- | --- | --- | --- | --- | --- |\n",
      faults.size(), count_of(faults, FaultStatus::kChecked), count_of(faults, FaultStatus::kImpossible),
      count_of(faults, FaultStatus::kNotYet), cases_of(shown, ""), cases_of(shown, "excluded"));
  for (const FaultClass& one : faults) {
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", one.code, cell(one.name), one.flag,
                       doctor::fault_status_name(one.status), how_cell(one), shown_cell(one.code, shown));
  }
  out +=
      "\n## Healthy runs\n\nRuns without a fault, which the doctor must let pass.\n\n| run | result |\n| --- "
      "| --- |\n";
  for (const ShownFault& one : shown) {
    if (one.code == "healthy") out += fmt::format("| {} | {} |\n", cell(one.name), cell(one.result));
  }
  out +=
      shown_section(shown, "founding",
                    "## Founding cases\n\n"
                    "The runs whose reports hone began with, in their own configuration, and what TRL 1.16 "
                    "does with them.\n\n"
                    "| case | result |\n");
  out += shown_section(shown, "study",
                       "## Silent errors of a study\n\n"
                       "TrainCheck (OSDI 2025) reproduced 20 silent training errors. These are the 18 of its "
                       "artifact, and one of the two\nthat its tool did not find. What becomes of each here: "
                       "a check names it, with the case above that injects its class;\nor it cannot happen, "
                       "with the test that would fail.\n\n"
                       "| error | in hone |\n");
  return out;
}

std::string impossible_lines(const std::vector<FaultClass>& faults, int columns) {
  std::string out = "impossible by construction\n";
  for (const FaultClass& one : faults) {
    if (one.status != FaultStatus::kImpossible) continue;
    out += fmt::format("  {:<9}{}\n", one.code, wrap_text(one.why, 11, page_columns(columns)));
    out += fmt::format("  {:<9}{}\n", "", one.proof);
  }
  return out;
}

}  // namespace hone::report
