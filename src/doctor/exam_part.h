// One part of an examination, for report/.
#pragma once

#include <string>
#include <vector>

#include "base/verdict.h"

namespace hone::doctor {

struct ExamPart {
  std::string name;  // Verdict::part
  std::vector<base::Verdict> verdicts;
  double seconds = 0;
};

}  // namespace hone::doctor
