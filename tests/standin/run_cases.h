// The runs that the tests make on both devices: a row each.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/plan.h"
#include "standin/standin.h"
#include "standin/tiny_runs.h"

namespace hone::standin {

base::fs::path parity(const std::string& below);  // in the fixtures
// tiny_llama as a GGUF of Q8_0, written when it is first asked for.
std::string tiny_gguf();

struct Case {
  std::string name;
  config::Method method = config::Method::kSft;
  std::string data;                // below parity()
  std::vector<std::string> words;  // beside the common ones
  // Counts the second step, all its micro-batches and its part of generation.
  Counts a_step = {};
  std::string model = parity("tiny_llama").string();  // empty: tiny_gguf()
  bool full = false;                                  // full fine-tuning, else a LoRA on all linears
  bool by_layers = false;  // the optimizer's step in the backward, whatever the memory plan says
  double bound = 1e-5;     // of what is compared
  bool counted = true;     // a_step is what crosses; else only that the two runs agree
};
std::ostream& operator<<(std::ostream& out, const Case& one);

// The options of a case's run.
std::vector<std::string> options_of(const Case& one);

std::vector<Case> sft_cases();
std::vector<Case> preference_cases();
std::vector<Case> policy_cases();
std::vector<Case> full_cases();
std::vector<Case> optimizer_cases();
std::vector<Case> base_cases();

std::vector<Case> all_cases();  // but those of optimizers
// Returns those of `all` that `names` holds, or the others.
std::vector<Case> picked(std::vector<Case> all, const std::vector<std::string>& names, bool held);

// Its loss and the norm of its gradient, step by step.
std::vector<double> losses_of(const Outcome& outcome);
// Each loss of `found` within 2e-2 of `expected`: what runs in bf16 have of one another.
void expect_near_losses(const std::vector<double>& expected, const std::vector<double>& found,
                        const std::string& what);

}  // namespace hone::standin
