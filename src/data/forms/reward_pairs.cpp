#include "data/forms/reward_pairs.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/error.h"
#include "data/files/row_threads.h"
#include "data/forms/row_checks.h"
#include "data/forms/row_encoder.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

class WholeTokenizer {
 public:
  WholeTokenizer(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                 const text::ChatTemplate* chat_template, const PairOptions& options)
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

  PairDone row(std::size_t index) const {
    const PreferenceRow& row = rows_.rows[index];
    const std::vector<std::int32_t> chosen = ids_of(row, row.chosen, "chosen", index);
    const std::vector<std::int32_t> rejected = ids_of(row, row.rejected, "rejected", index);
    PairDone done;
    done.record.margin = row.margin;
    done.longest = static_cast<std::int64_t>(std::max(chosen.size(), rejected.size()));
    done.too_long = options_.max_length > 0 && done.longest > options_.max_length;
    if (done.too_long) return done;
    const std::size_t of_chosen = scored_size(chosen), of_rejected = scored_size(rejected);
    const std::size_t least = std::min(of_chosen, of_rejected);
    std::size_t shared = 0;
    while (shared + 1 < least && chosen[shared] == rejected[shared]) ++shared;
    if (shared == 0 && least > 1) shared = 1;
    add(Part::kChosen, chosen, shared, of_chosen, done);
    add(Part::kRejected, rejected, shared, of_rejected, done);
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

  static void add(Part part, std::span<const std::int32_t> ids, std::size_t shared, std::size_t scored,
                  PairDone& done) {
    add_sequence(done.record, part, ids.first(shared), ids.subspan(shared, scored - shared),
                 static_cast<std::int64_t>(ids.size() - shared));
    done.tokens_after += static_cast<std::int64_t>(ids.size() - scored);
  }

  const PreferenceRows& rows_;
  RowEncoder encoder_;
  const PairOptions& options_;
};

}  // namespace

std::vector<PairDone> make_reward_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                        const text::ChatTemplate* chat_template, const PairOptions& options) {
  if (!rows.tokenized)
    require_template_or_eos(rows.path, rows.conversational, tokenizer, chat_template, /*by_option=*/true);
  return made_rows<PairDone>(rows.rows.size(), rows.first == 0, options.threads,
                             [&] { return WholeTokenizer(rows, tokenizer, chat_template, options); });
}

}  // namespace hone::data
