// The fields of asample, checked.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "serve/prompt_scores.h"
#include "serve/tinker/fields.h"
#include "serve/tinker/sample_run.h"

namespace hone::serve {

// Holds what a sample has beside its fields.
struct SampleSetting {
  std::int64_t max_context = 0;
  std::uint64_t seed = 0;  // of draws without a seed, which are keyed by session and seq
  std::int64_t session = 0, seq = 0;
  std::vector<std::int64_t> stop_ids;
  std::function<bool(std::span<const std::int32_t>, const std::vector<std::string>&)> ends_with_stop;
};

// UserError, which names the field: out of range, not supported, or a prompt that is too long.
void read_sample(const Fields& fields, const SampleSetting& setting, SampleRun& run);

// k slots for each of `places`, all empty; and scores into them, from place `from` on.
WireTop empty_top(std::size_t places, std::int64_t k);
void put_top(const std::vector<TopTokens>& scores, std::size_t from, WireTop& top);

}  // namespace hone::serve
