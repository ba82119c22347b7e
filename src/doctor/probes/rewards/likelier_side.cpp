#include "doctor/probes/rewards/likelier_side.h"

#include <algorithm>
#include <numeric>

#include "doctor/checks/check_format.h"
#include "doctor/probes/drawn_rows.h"
#include "doctor/probes/probe_state.h"

namespace hone::doctor {

using base::Level;

namespace {

constexpr std::size_t kDrawn = 128;
constexpr std::size_t kAskedPairs = 8, kAskedBrief = 32;  // of the drawn ones the shortest are asked
constexpr std::size_t kBriefTokens = 8;                   // of an answer that is a number or a word
constexpr double kMostlyBrief = 0.8;
constexpr std::int64_t kMostTokens = 96, kBudget = 2048;  // of a sequence: its end; of all of them
// Six of six fall on one side by chance once in 32 times, 26 of 32 once in 3000.
constexpr std::size_t kLeast = 6, kLeastBrief = 16;
constexpr double kAgainstBrief = 0.8, kAgainstRows = 0.9;  // shares of pairs, or of couples of rows
// Nats: a model's own samples against another's text stay below these means of tokens.
constexpr double kOfPairs = 1, kOfRows = 1.5, kOfBrief = 0.5;

data::Record example_of(const data::ScoredSequence& side, std::int64_t row) {
  data::Record out = {.row = row, .ids = {}, .supervised = {}};
  const auto room = static_cast<std::size_t>(kMostTokens);
  const auto scored = side.scored.last(std::min(side.scored.size(), room));
  data::add_sequence(out, data::Part::kWhole,
                     side.context.last(std::min(side.context.size(), room - scored.size())), scored);
  out.sequences.clear();
  return out;
}

struct SideLoss {
  double sum = 0, mean = 0;
};

SideLoss loss_of_side(const data::ScoredSequence& side, std::int64_t row, const ScoredPass& pass) {
  const train::ScoredFacts facts = pass(batch_of({example_of(side, row)}), 0);
  if (facts.scored == 0) return {};
  return {.sum = facts.nll_sum, .mean = facts.nll_sum / static_cast<double>(facts.scored)};
}

bool is_brief(const data::SequencePair& pair) {
  return pair.first.scored.size() <= kBriefTokens && pair.second.scored.size() <= kBriefTokens;
}

// Places of the pairs, shortest first, of a keyed sample.
std::vector<std::size_t> drawn_pairs(const data::Records& pairs) {
  std::vector<std::size_t> out = shuffled_places(pairs.size());
  out.resize(std::min(out.size(), kDrawn));
  std::stable_sort(out.begin(), out.end(), [&](std::size_t one, std::size_t other) {
    return pairs.tokens(one) < pairs.tokens(other);
  });
  return out;
}

double mean_loss_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The share of couples whose wanted one is less likely.
double share_against(const SideLosses& losses) {
  std::size_t against = 0;
  for (std::size_t i = 0; i < losses.wanted.size(); ++i) {
    if (losses.paired) {
      against += losses.wanted[i] > losses.unwanted[i] ? 1 : 0;
      continue;
    }
    for (const double other : losses.unwanted) against += losses.wanted[i] > other ? 1 : 0;
  }
  const std::size_t all = losses.wanted.size() * (losses.paired ? 1 : losses.unwanted.size());
  return static_cast<double>(against) / static_cast<double>(all);
}

}  // namespace

SideLosses measure_sides(const train::RunView& run, const ScoredPass& pass) {
  SideLosses out;
  if (!run.has_pairs()) return out;
  const data::Records& pairs = run.pairs()->records;
  const std::vector<std::size_t> drawn = drawn_pairs(pairs);
  const auto brief = std::count_if(drawn.begin(), drawn.end(),
                                   [&](std::size_t i) { return is_brief(data::sides_of(pairs[i])); });
  out.paired = !pairs[0].desirable.has_value();
  out.brief = static_cast<double>(brief) >= kMostlyBrief * static_cast<double>(drawn.size());
  const std::size_t most = out.brief ? kAskedBrief : kAskedPairs;
  std::int64_t tokens = 0;
  const auto loss = [&](const data::ScoredSequence& side, std::int64_t row) {
    tokens += std::min(side.tokens(), kMostTokens);
    const SideLoss one = loss_of_side(side, row, pass);
    return out.brief ? one.sum : one.mean;
  };
  for (const std::size_t i : drawn) {
    if (tokens >= kBudget) break;
    const data::RecordView record = pairs[i];
    const data::SequencePair pair = data::sides_of(record);
    if (!out.paired) {
      std::vector<double>& side = *record.desirable ? out.wanted : out.unwanted;
      if (side.size() < most) side.push_back(loss(pair.first, record.row));
    } else if (out.wanted.size() < most && !std::ranges::equal(pair.first.scored, pair.second.scored)) {
      out.wanted.push_back(loss(pair.first, record.row));
      out.unwanted.push_back(loss(pair.second, record.row));
    }
  }
  return out;
}

namespace {

bool is_one_sided(const SideLosses& losses, double gap, double share) {
  if (losses.brief) return share >= kAgainstBrief && gap >= kOfBrief;
  return losses.paired ? share == 1 && gap >= kOfPairs : share >= kAgainstRows && gap >= kOfRows;
}

}  // namespace

base::Verdict judge_sides(const SideLosses& losses) {
  base::Verdict out{.code = "PREF-05"};
  const std::string wanted = losses.paired ? "chosen" : "desirable",
                    unwanted = losses.paired ? "rejected" : "undesirable";
  out.what =
      "the base model does not write the " + unwanted + " completions rather than the " + wanted + " ones";
  const std::size_t least = losses.brief ? kLeastBrief : kLeast;
  if (losses.wanted.size() < least || losses.unwanted.size() < least) {
    out.what = "too few rows to ask the base model which completions it would write";
    return out;
  }
  const double gap = mean_loss_of(losses.wanted) - mean_loss_of(losses.unwanted),
               share = share_against(losses);
  const auto count =
      static_cast<std::int64_t>(losses.wanted.size() + (losses.paired ? 0 : losses.unwanted.size()));
  out.evidence = "-log p of " + std::string(losses.brief ? "an answer: " : "a token: ") +
                 format::number(mean_loss_of(losses.wanted)) + " (" + wanted + ") and " +
                 format::number(mean_loss_of(losses.unwanted)) + " (" + unwanted + ") on average, over " +
                 format::counted(count, losses.paired ? "pair" : "row") + "; in " +
                 format::percent(share, 1) + " of " + (losses.paired ? "them" : "all couples") + " the " +
                 unwanted + " one is likelier";
  if (!is_one_sided(losses, gap, share)) return out;
  out.level = Level::kWarn;
  out.what = "the base model itself would rather write the " + unwanted + " completions than the " + wanted +
             " ones";
  out.cause =
      losses.paired
          ? "suspected: chosen and rejected are the wrong way round (or rejected answers that were sampled from "
            "this model, beside chosen ones of a form or language that it does not know)"
          : "suspected: the labels are inverted (or undesirable answers that were sampled from this model)";
  out.fix =
      losses.paired
          ? "look at a few pairs; if they are swapped, dataset_columns: {chosen: rejected, rejected: chosen}"
          : "look at a few rows; true marks a desirable completion";
  out.cost = "the run learns the answers that were to be avoided";
  return out;
}

}  // namespace hone::doctor
