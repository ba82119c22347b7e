// Hashes of the test items of public benchmarks, to find them among rows that are trained on.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/verdict.h"
#include "doctor/checks/row_texts.h"

namespace hone::doctor {

// The text of benchmark_prints.txt, embedded by the build. tools/benchmark_prints.py writes it: hashes and no words.
extern const std::string_view kBenchmarkPrints;

struct Benchmark {
  std::string name;                   // "GSM8K"
  std::int64_t items = 0, every = 1;  // all of its items; one of so many is among the prints
  std::vector<std::array<std::uint32_t, 2>>
      prints;  // of an item: the two smallest hashes of its runs of 8 words
};

// InternalError for a text of another form.
std::vector<Benchmark> read_benchmarks(std::string_view text);

// DATA-18: a row holds an item where it has both of the item's runs. More than 2 % of a benchmark's items that are
// among the prints are a warning, fewer a note. One verdict for each benchmark that was found, or one that says that
// none was.
std::vector<base::Verdict> judge_benchmarks(std::span<const Benchmark> benchmarks,
                                            const std::vector<RowTexts>& rows);

}  // namespace hone::doctor
