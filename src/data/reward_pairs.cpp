#include "data/reward_pairs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/plural.h"
#include "data/collected_pairs.h"
#include "data/row_checks.h"
#include "data/row_encoder.h"
#include "data/row_threads.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

struct WholePairDone {
  PreferencePair pair;
  bool dropped = false;
  std::int64_t longest = 0, tokens = 0;
};

class WholeTokenizer {
 public:
  WholeTokenizer(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                 const text::ChatTemplate* chat_template, const RewardPairOptions& options)
      : rows_(rows),
        encoder_(rows.conversational, tokenizer, chat_template, options.vocab_size),
        options_(options) {}

  void prepare(std::size_t begin, std::size_t end) {
    if (rows_.tokenized) return;
    encoder_.prepare([&](RowEncoder::Expected& expected) {
      for (std::size_t i = begin; i < end; ++i) {
        const PreferenceRow& row = rows_.rows[i];
        const RowName where = [this, i] { return rows_.where(i); };
        for (const Json* completion : {&row.chosen, &row.rejected})
          expected.whole({row.prompt, row.tools, row.template_kwargs, where}, *completion);
      }
    });
  }

  WholePairDone row(std::size_t index) const {
    const PreferenceRow& row = rows_.rows[index];
    std::vector<std::int32_t> chosen = ids_of(row, row.chosen, "chosen", index);
    std::vector<std::int32_t> rejected = ids_of(row, row.rejected, "rejected", index);
    WholePairDone done;
    done.pair.row = static_cast<std::int64_t>(index);
    done.longest = static_cast<std::int64_t>(std::max(chosen.size(), rejected.size()));
    done.tokens = static_cast<std::int64_t>(chosen.size() + rejected.size());
    done.dropped = options_.max_length > 0 && done.longest > options_.max_length;
    if (done.dropped) return done;
    const std::size_t of_chosen = scored_size(chosen), of_rejected = scored_size(rejected);
    const std::size_t least = std::min(of_chosen, of_rejected);
    std::size_t shared = 0;
    while (shared + 1 < least && chosen[shared] == rejected[shared]) ++shared;
    if (shared == 0 && least > 1) shared = 1;
    done.pair.chosen = side(chosen, shared, of_chosen);
    done.pair.rejected = side(rejected, shared, of_rejected);
    return done;
  }

 private:
  std::vector<std::int32_t> ids_of(const PreferenceRow& row, const Json& completion, const char* column,
                                   std::size_t index) const {
    const RowName where = [&] { return rows_.where(index); };
    std::vector<std::int32_t> ids =
        rows_.tokenized ? completion.get<std::vector<std::int32_t>>()
                        : encoder_.whole({row.prompt, row.tools, row.template_kwargs, where}, completion);
    if (ids.empty()) {
      throw UserError({.where = where() + " " + column,
                       .expected = "a sequence to score",
                       .found = "no tokens",
                       .cause = "an empty text",
                       .fix = "write an answer into this row, or remove the row"});
    }
    encoder_.check(ids, where);
    return ids;
  }

  // Up to the token that has the score; of pad tokens alone, transformers takes the first.
  std::size_t scored_size(const std::vector<std::int32_t>& ids) const {
    std::size_t size = ids.size();
    while (options_.pad_id && size > 1 && ids[size - 1] == *options_.pad_id) --size;
    return size;
  }

  static PreferenceSequence side(const std::vector<std::int32_t>& ids, std::size_t shared,
                                 std::size_t scored) {
    const auto at = [&](std::size_t i) { return ids.begin() + static_cast<std::ptrdiff_t>(i); };
    return {.context = {at(0), at(shared)},
            .scored = {at(shared), at(scored)},
            .completion = static_cast<std::int64_t>(ids.size() - shared)};
  }

  const PreferenceRows& rows_;
  RowEncoder encoder_;
  const RewardPairOptions& options_;
};

void check_result(const PreferenceRows& rows, const PreferenceFacts& facts,
                  const RewardPairOptions& options) {
  if (facts.kept == 0) {
    throw UserError(
        {.where = rows.path.string(),
         .expected = "at least one pair within max_length (DATA-01)",
         .found = "none of " + std::to_string(facts.rows) +
                  " has both sequences within max_length = " + std::to_string(options.max_length),
         .cause = "a small max_length: a reward model's rows are never cut",
         .fix = "raise max_length (the longest row has " + base::counted(facts.longest, "token") + ")"});
  }
  require_different_completions(rows.path, facts);
}

}  // namespace

std::int64_t pair_tokens(const PreferencePair& pair) {
  std::int64_t out = 0;
  for (const PreferenceSequence* side : {&pair.chosen, &pair.rejected})
    out += static_cast<std::int64_t>(side->context.size()) + side->completion;
  return out;
}

RewardPairs tokenize_reward_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                  const text::ChatTemplate* chat_template, const RewardPairOptions& options) {
  if (!rows.tokenized)
    require_template_or_eos(rows.path, rows.conversational, tokenizer, chat_template, /*by_option=*/true);
  std::vector<WholePairDone> all(rows.rows.size());
  base::begin_part(kTokenizing, "rows", static_cast<std::int64_t>(all.size()));
  RowThreads<WholePairDone>(all, row_threads(options.threads, all.size())).run([&] {
    return WholeTokenizer(rows, tokenizer, chat_template, options);
  });
  RewardPairs out;
  PreferenceFacts& facts = out.facts;
  facts.conversational = rows.conversational;
  facts.rows = static_cast<std::int64_t>(all.size());
  facts.implicit = rows.implicit;
  for (std::size_t i = 0; i < all.size(); ++i) {
    WholePairDone& done = all[i];
    facts.longest = std::max(facts.longest, done.longest);
    facts.too_long += done.dropped ? 1 : 0;
    if (done.dropped) continue;
    facts.kept += 1;
    facts.tokens += done.tokens;
    facts.completion_tokens += done.pair.chosen.completion + done.pair.rejected.completion;
    if (done.pair.completions_equal()) note_equal_sides(rows, i, /*cut=*/false, facts);
    facts.mean_chosen += static_cast<double>(done.pair.chosen.completion);
    facts.mean_rejected += static_cast<double>(done.pair.rejected.completion);
    facts.longest_prompt =
        std::max(facts.longest_prompt, static_cast<std::int64_t>(done.pair.chosen.context.size()));
    if (rows.rows[i].margin) out.margins.push_back(*rows.rows[i].margin);
    out.pairs.push_back(std::move(done.pair));
  }
  check_result(rows, facts, options);
  facts.mean_chosen /= static_cast<double>(facts.kept);
  facts.mean_rejected /= static_cast<double>(facts.kept);
  return out;
}

}  // namespace hone::data
