// Every method on the stand-in, with the table of GPUs and the source of hone's own kernels, gives what it gives on the CPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "emulated/machine/guarded_kernels.h"
#include "standin/emulated_kernels.h"
#include "standin/run_cases.h"
#include "standin/tiny_runs.h"

namespace hone::standin {
namespace own_kernels_test {

namespace fs = base::fs;
using Names = std::set<std::string>;

// A case of the fast part, and the kernels that it is there for: it has to start each of them.
struct Picked {
  std::string name;
  Names in_fp32, in_bf16;
};

// What a LoRA's step starts; with all weights also the gradients of norms and of the head.
const Names kLayers = {"gather_rows",  "norm_rope", "norm_rope_backward", "rms_norm",
                       "softmax_tile", "swiglu",    "swiglu_backward"};
Names with(Names names, const std::string& one) {
  names.insert(one);
  return names;
}
const Names kSampling = with(with(with(kLayers, "attend_pages"), "sample_tokens"), "step_heads");

const std::vector<Picked> kPicked = {
    {"full_sft",
     {"adamw", "add_rows", "rms_norm_backward", "scale", "softmax_backward", "squares"},
     {"copy_blocks"}},
    {"sft_dropout", {"copy_blocks", "dropout"}, {"dropout"}},
    {"sft_4bit", {"dequantize"}, {"dequantize"}},
    {"base_gguf", {"dequantize_panels"}, {"dequantize_panels"}},
    {"adamw_8bit", {"adamw_codes"}, {"adamw_codes"}},
    {"lion", {"lion"}, {"lion"}},
    {"lion_8bit", {"lion_codes"}, {"lion_codes"}},
    {"dpo", kLayers, with(kLayers, "join_attention")},
    {"kto", kLayers, kLayers},
    {"cpo", kLayers, kLayers},
    {"orpo", kLayers, kLayers},
    {"reward", {"rms_norm"}, {"rms_norm"}},
    {"grpo", kSampling, {}},
    {"rloo", kSampling, {}},
};

class OwnKernelsTest : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  Outcome run(const std::string& device, const std::vector<std::string>& more) const {
    std::vector<std::string> words = options_of(GetParam());
    words.insert(words.end(), more.begin(), more.end());
    return run_tiny(tiny_plan(GetParam().method, device, root_ / device, words), /*stop_after=*/0,
                    GetParam().by_layers);
  }

  // Some; and what the fast part picked this run for.
  void expect_calls(const UseEmulatedKernels& kernels, Names Picked::* which) const {
    const auto calls = kernels.calls();
    std::string text;
    for (const auto& [name, count] : calls)
      if (count > 0) text += name + ' ' + std::to_string(count) + ", ";
    EXPECT_NE(text, "");
    for (const Picked& one : kPicked) {
      if (one.name != GetParam().name) continue;
      for (const std::string& name : one.*which) EXPECT_GT(calls.at(name), 0) << name << "; " << text;
    }
    RecordProperty("calls", text);
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_own_kernels_" + std::to_string(getpid()));
};

TEST_P(OwnKernelsTest, IsTheCpus) {
  const Outcome cpu = run("cpu", {});
  const UseEmulatedKernels kernels;
  const Outcome own = run(kName, {});
  if (GetParam().name.starts_with("lion")) {
    // It steps by signs: of a gradient that is as small as the rounding of a sum, either sign is right.
    expect_near_losses(losses_of(cpu), losses_of(own), GetParam().name);
  } else {
    expect_close(cpu, own, GetParam().name, GetParam().bound);
  }
  expect_calls(kernels, &Picked::in_fp32);
}

// Of steps whose tokens do not depend on rounding.
TEST_P(OwnKernelsTest, IsNearTheCpusInBf16) {
  if (config::samples(GetParam().method)) return;
  const std::vector<double> expected = losses_of(run("cpu", {"--bf16", "true"}));
  const UseEmulatedKernels kernels;
  expect_near_losses(expected, losses_of(run(kName, {"--bf16", "true"})), GetParam().name);
  expect_calls(kernels, &Picked::in_bf16);
}

std::vector<std::string> names_picked() {
  std::vector<std::string> out;
  for (const Picked& one : kPicked) out.push_back(one.name);
  return out;
}

std::vector<Case> cases_and_optimizers() {
  std::vector<Case> out = all_cases();
  for (Case& one : optimizer_cases()) out.push_back(std::move(one));
  return out;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Some, OwnKernelsTest,
                         testing::ValuesIn(picked(cases_and_optimizers(), names_picked(), true)), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, OwnKernelsTest,
                         testing::ValuesIn(picked(cases_and_optimizers(), names_picked(), false)), name_of);

// Else a kernel would be in no run of the fast part, or a name in no case.
TEST(OwnKernelsCases, ReachEachKernel) {
  EXPECT_EQ(picked(cases_and_optimizers(), names_picked(), true).size(), kPicked.size());
  Names reached, all;
  for (const Picked& one : kPicked)
    for (const Names& names : {one.in_fp32, one.in_bf16}) reached.insert(names.begin(), names.end());
  for (const auto& [name, count] : emulated::guarded_calls_by_name()) all.insert(name);
  EXPECT_EQ(reached, all);
}

}  // namespace own_kernels_test
}  // namespace hone::standin
