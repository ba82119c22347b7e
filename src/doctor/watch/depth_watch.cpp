#include "doctor/watch/depth_watch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"
#include "doctor/watch/watch_state.h"

namespace hone::doctor {

namespace {

using train::KlByDepth;

constexpr std::array<const char*, KlByDepth::kParts> kEighths = {"first", "second", "third",   "fourth",
                                                                 "fifth", "sixth",  "seventh", "last"};

std::string shares_text(const KlByDepth& kl, double sum) {
  std::string out;
  for (const double one : kl.sums) out += (out.empty() ? "" : ", ") + percent(one / sum);
  return out;
}

// What the place says of the cause. `before`: the share of the parts before it.
void explain(std::size_t part, double before, base::Verdict& found) {
  if (part > 0 && before < limits::kDepthNone) {
    found.cause =
        "suspected: the completions begin with the same text, which the prompt should end with (generation prompt, "
        "think block): the policy writes it as its reference does, and learns only what follows";
    found.fix =
        "read how completions/ begin, and how the prompt ends (`hone doctor` prints one as the model reads it); "
        "give a chat_template that writes this text";
  } else if (part == 0) {
    found.cause =
        "suspected: the opening of the answers is learned: the prompt does not end where this model's answers "
        "begin (generation prompt, think block, a blank), or a reward reads the first tokens only";
    found.fix =
        "read the first tokens in completions/, and how the prompt ends (`hone doctor` prints one as the model "
        "reads it); compare it with the template that the model was made with";
  } else if (part + 1 == KlByDepth::kParts) {
    found.cause =
        "suspected: how the answers end is learned: another end token than the model's own, or a reward for "
        "length";
    found.fix =
        "read how completions/ end; compare the tokenizer's eos_token with the end of the template's turns";
  } else {
    found.cause =
        "suspected: a fixed place in the answers is learned, such as the tag between thought and answer, and a "
        "reward for it";
    found.fix = "read completions/ at this place, and what the rewards say of it";
  }
}

}  // namespace

Findings DepthWatch::see(const KlByDepth& kl) {
  if (kl.tokens < limits::kDepthTokens) return {};
  has_seen_ = true;
  const double sum = std::accumulate(kl.sums.begin(), kl.sums.end(), 0.0);
  const double mean = sum / static_cast<double>(kl.tokens);
  const auto most = std::max_element(kl.sums.begin(), kl.sums.end());
  const auto part = static_cast<std::size_t>(most - kl.sums.begin());
  if (!std::isfinite(sum) || mean <= limits::kDepthKl || *most <= limits::kDepthShare * sum) {
    batches_ = 0;
    return {};
  }
  batches_ = part == part_ ? batches_ + 1 : 1;
  part_ = part;
  if (batches_ < limits::kBatchesOfDepth) return {};
  base::Verdict found{.code = "RL-19", .level = base::Level::kWarn};
  found.what = percent(*most / sum) + " of the KL to the reference is in the " + kEighths[part] +
               " eighth of the completions";
  found.evidence = std::to_string(batches_) + " generation batches in a row above " +
                   percent(limits::kDepthShare) + "; " + short_number(mean) + " nats per token; by eighths " +
                   shares_text(kl, sum);
  const double before = std::accumulate(kl.sums.begin(), most, 0.0);
  explain(part, before / sum, found);
  found.cost = "the KL is spent on one place, and beta holds the rest of the answer back";
  Findings out;
  add_finding(out, std::move(found));
  return out;
}

base::Json DepthWatch::state() const {
  return {{"part", part_}, {"batches", batches_}};
}

void DepthWatch::restore(const base::Json& state) {
  const StateReader in(state);
  const std::int64_t part = in.count("part");
  if (part >= std::ssize(kEighths)) StateReader::refuse("part");
  part_ = static_cast<std::size_t>(part);
  batches_ = in.count("batches");
  has_seen_ = true;
}

}  // namespace hone::doctor
