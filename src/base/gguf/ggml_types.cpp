#include "base/gguf/ggml_types.h"

#include <array>

namespace hone::base {

namespace {

constexpr std::array<GgmlTypeInfo, 10> kRead{{{GgmlType::kF32, "F32", 1, 4},
                                              {GgmlType::kF16, "F16", 1, 2},
                                              {GgmlType::kBF16, "BF16", 1, 2},
                                              {GgmlType::kQ8_0, "Q8_0", 32, 2 + 32},
                                              {GgmlType::kQ4_0, "Q4_0", 32, 2 + 16},
                                              {GgmlType::kQ4_1, "Q4_1", 32, 2 + 2 + 16},
                                              {GgmlType::kQ5_0, "Q5_0", 32, 2 + 4 + 16},
                                              {GgmlType::kQ4_K, "Q4_K", 256, 2 + 2 + 12 + 128},
                                              {GgmlType::kQ5_K, "Q5_K", 256, 2 + 2 + 12 + 32 + 128},
                                              {GgmlType::kQ6_K, "Q6_K", 256, 128 + 64 + 16 + 2}}};

// By number; the holes are types that ggml removed.
constexpr std::array<const char*, 40> kNames{
    "F32",      "F16",      "Q4_0",    "Q4_1",  "Q4_2",       "Q4_3",       "Q5_0",       "Q5_1",
    "Q8_0",     "Q8_1",     "Q2_K",    "Q3_K",  "Q4_K",       "Q5_K",       "Q6_K",       "Q8_K",
    "IQ2_XXS",  "IQ2_XS",   "IQ3_XXS", "IQ1_S", "IQ4_NL",     "IQ3_S",      "IQ2_S",      "IQ4_XS",
    "I8",       "I16",      "I32",     "I64",   "F64",        "IQ1_M",      "BF16",       "Q4_0_4_4",
    "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4"};

}  // namespace

const GgmlTypeInfo* find_ggml_type(std::uint32_t number) {
  for (const GgmlTypeInfo& info : kRead) {
    if (static_cast<std::uint32_t>(info.type) == number) return &info;
  }
  return nullptr;
}

std::string ggml_type_name(std::uint32_t number) {
  return number < kNames.size() ? kNames[number] : std::to_string(number) + " (unknown)";
}

std::string ggml_types_read() {
  std::string out;
  for (const GgmlTypeInfo& info : kRead) {
    if (!out.empty()) out += ", ";
    out += info.name;
  }
  return out;
}

}  // namespace hone::base
