// The parts of the watch return these.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/verdict.h"

namespace hone::doctor {

// A verdict and its key: "RL-04 strict_format". A key is reported once, and again only when it gets worse.
struct Finding {
  std::string key;
  base::Verdict verdict;
};
using Findings = std::vector<Finding>;

inline void add_finding(Findings& to, base::Verdict verdict, const std::string& about = "") {
  verdict.part = "run";
  const std::string key = about.empty() ? verdict.code : verdict.code + " " + about;
  to.push_back({.key = key, .verdict = std::move(verdict)});
}

}  // namespace hone::doctor
