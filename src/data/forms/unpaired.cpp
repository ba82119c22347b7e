#include "data/forms/unpaired.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "data/files/row_threads.h"
#include "data/forms/row_checks.h"
#include "data/forms/row_encoder.h"
#include "data/forms/rows.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

// ---- rows

void require_column(const Json& row, const char* column, const std::string& where) {
  if (row.contains(column)) return;
  throw UserError({.where = where,
                   .expected = std::string("a column '") + column +
                               "' (rows of prompt, completion, label, or of chosen and rejected)",
                   .found = columns_found(row, column),
                   .cause = row.contains(std::string(column) + "_ids") || row.contains("input_ids")
                                ? "the rows are tokenized, and TRL reads such rows only in sft and reward"
                                : "",
                   .fix = "rename the column, or write it"});
}

void require_kind(const Json& row, const char* column, bool conversational, const std::string& where) {
  const Json& value = row.at(column);
  if (value.is_array()) check_messages(row, column, where);
  if (value.is_array() == conversational && (value.is_array() || value.is_string())) return;
  throw UserError({.where = where + " " + column,
                   .expected = conversational ? "a list of messages, as in the other columns and rows"
                                              : "text, as in the other columns and rows",
                   .found = value.is_array()    ? "a list of messages"
                            : value.is_string() ? "text"
                            : value.is_null()   ? "null"
                                                : value.type_name(),
                   .cause = {},
                   .fix = "write prompt and completion of all rows in the same form"});
}

bool label_of(const Json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>();
  if (value == Json(0) || value == Json(1)) return value == Json(1);
  throw UserError({.where = where + " label",
                   .expected = "true (desirable) or false",
                   .found = base::short_json(value, 60),
                   .cause = {},
                   .fix = "write true or false"});
}

// ---- tokens

struct UnpairedDone {
  std::vector<std::int32_t> prompt, completion;  // not cut
  bool dropped = false, boundary_mismatch = false;
};

class UnpairedTokenizer {
 public:
  UnpairedTokenizer(const UnpairedRows& rows, const text::Tokenizer& tokenizer,
                    const text::ChatTemplate* chat_template, const UnpairedOptions& options)
      : rows_(rows),
        encoder_(rows.conversational, tokenizer, chat_template, options.vocab_size),
        options_(options) {}

  void prepare(std::size_t begin, std::size_t end) {
    encoder_.prepare([&](RowEncoder::Expected& expected) {
      for (std::size_t i = begin; i < end; ++i) {
        const UnpairedRow& row = rows_.rows[i];
        const RowName where = [this, i] { return rows_.where(i); };
        const EncodedRow parts = {row.prompt, row.tools, row.template_kwargs, where};
        expected.prompt(parts);
        expected.whole(parts, row.completion);
      }
    });
  }

  UnpairedDone row(std::size_t index) const {
    const UnpairedRow& row = rows_.rows[index];
    const RowName where = [&] { return rows_.where(index); };
    const EncodedRow parts = {row.prompt, row.tools, row.template_kwargs, where};
    const std::vector<std::int32_t> prompt = encoder_.prompt(parts);
    const std::vector<std::int32_t> whole = encoder_.whole(parts, row.completion);
    const auto length = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).second;
    UnpairedDone done;
    done.boundary_mismatch = length - whole.begin() < static_cast<std::ptrdiff_t>(prompt.size());
    done.prompt.assign(whole.begin(), length);
    done.completion.assign(length, whole.end());
    const auto kept = static_cast<std::size_t>(options_.max_prompt_length);
    if (kept > 0 && done.prompt.size() > kept)
      done.prompt.erase(done.prompt.begin(), done.prompt.end() - static_cast<std::ptrdiff_t>(kept));
    done.dropped =
        options_.max_length > 0 && static_cast<std::int64_t>(done.prompt.size()) >= options_.max_length;
    if (done.dropped) return done;
    if (done.completion.empty()) throw_empty_completion(where() + " completion");
    if (whole.size() < 2) throw_one_token(where());
    encoder_.check(whole, where);
    return done;
  }

 private:
  const UnpairedRows& rows_;
  RowEncoder encoder_;
  const UnpairedOptions& options_;
};

// A prompt with a completion, cut to max_length. Without a prompt the first token is context.
ScoredSequence cut_sequence(std::span<const std::int32_t> prompt, std::span<const std::int32_t> completion,
                            std::int64_t max_length) {
  std::size_t size = completion.size();
  if (max_length > 0) size = std::min(size, static_cast<std::size_t>(max_length) - prompt.size());
  const std::size_t unscored = prompt.empty() ? 1 : 0;
  return {.context = prompt.empty() ? completion.first(1) : prompt,
          .scored = completion.subspan(unscored, size - unscored),
          .completion = static_cast<std::int64_t>(size)};
}

}  // namespace

void add_row(Json row, int number, UnpairedRows& out) {
  const std::string where = out.names.of(number);
  const bool is_first = !std::exchange(out.begun, true);
  if (is_first) out.paired = row.contains("chosen") && row.contains("rejected");
  if (out.paired) {
    out.pairs.rows.push_back(read_pair(std::move(row), where, out.pairs));
    out.pairs.lines.push_back(number);
    out.conversational = out.pairs.conversational;
    return;
  }
  if (is_first) refuse_columns(row, kto_columns(), where);
  for (const char* column : {"prompt", "completion", "label"}) require_column(row, column, where);
  check_template_columns(row, where);
  if (is_first) out.conversational = row.at("completion").is_array();
  for (const char* column : {"prompt", "completion"}) require_kind(row, column, out.conversational, where);
  const auto or_null = [&row](const char* column) {
    return row.contains(column) ? std::move(row[column]) : Json();
  };
  out.rows.push_back({.prompt = std::move(row["prompt"]),
                      .completion = std::move(row["completion"]),
                      .desirable = label_of(row.at("label"), where),
                      .tools = or_null("tools"),
                      .template_kwargs = or_null("chat_template_kwargs")});
  out.lines.push_back(number);
}

// Pairs as rows, in the order of TRL's _unpair_row, which datasets.map gives kUnpairedBlock.rows at a time.
void close_block(UnpairedRows& out) {
  std::vector<PreferenceRow>& pairs = out.pairs.rows;
  for (std::size_t begin = 0; begin < pairs.size(); begin += kUnpairedBlock.rows) {
    const std::size_t end = std::min(begin + kUnpairedBlock.rows, pairs.size());
    for (const bool desirable : {true, false}) {
      for (std::size_t i = begin; i < end; ++i) {
        PreferenceRow& pair = pairs[i];
        out.rows.push_back({.prompt = pair.prompt,
                            .completion = std::move(desirable ? pair.chosen : pair.rejected),
                            .desirable = desirable,
                            .tools = pair.tools,
                            .template_kwargs = pair.template_kwargs});
        out.lines.push_back(out.pairs.lines[i]);
      }
    }
  }
  pairs.clear();
  out.pairs.lines.clear();
}

void UnpairedMaker::add(const UnpairedRows& block, const TakeRecord& take) {
  require_template_or_eos(block.path, block.conversational, tokenizer_, chat_template_, /*by_option=*/false);
  auto all = made_rows<UnpairedDone>(block.rows.size(), facts_.rows == 0, options_.threads, [&] {
    return UnpairedTokenizer(block, tokenizer_, chat_template_, options_);
  });
  path_ = block.path;
  facts_.paired = block.paired;
  facts_.conversational = block.conversational;
  for (std::size_t i = 0; i < all.size(); ++i) {
    UnpairedDone& done = all[i];
    facts_.rows += 1;
    facts_.longest = std::max(facts_.longest, std::ssize(done.prompt) + std::ssize(done.completion));
    facts_.boundary_mismatches += done.boundary_mismatch ? 1 : 0;
    facts_.prompts_too_long += done.dropped ? 1 : 0;
    if (done.dropped) continue;
    kept_.push_back({.prompt = std::move(done.prompt),
                     .completion = std::move(done.completion),
                     .row = block.lines[i] - 1,
                     .desirable = block.rows[i].desirable});
    if (std::ssize(kept_) == options_.batch_size) exchange(take);
  }
}

// A prompt gets the completion of the row before it, the first that of the last.
void UnpairedMaker::exchange(const TakeRecord& take) {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const Kept &own = kept_[i], &other = kept_[i == 0 ? kept_.size() - 1 : i - 1];
    const ScoredSequence sequence = cut_sequence(own.prompt, own.completion, options_.max_length);
    const ScoredSequence exchanged = cut_sequence(own.prompt, other.completion, options_.max_length);
    Record record = {.row = own.row, .ids = {}, .supervised = {}, .desirable = own.desirable};
    add_sequence(record, Part::kCompletion, sequence.context, sequence.scored, sequence.completion);
    add_sequence(record, Part::kExchanged, exchanged.context, exchanged.scored, exchanged.completion);
    const auto whole = std::ssize(own.prompt) + std::ssize(own.completion);
    facts_.kept += 1;
    facts_.desirable += own.desirable ? 1 : 0;
    facts_.tokens += sequence.tokens();
    facts_.completion_tokens += std::ssize(sequence.scored);
    facts_.rows_cut += options_.max_length > 0 && whole > options_.max_length ? 1 : 0;
    facts_.longest_prompt =
        std::max(facts_.longest_prompt, static_cast<std::int64_t>(std::ssize(sequence.context)));
    take(record);
  }
  kept_.clear();
}

UnpairedFacts UnpairedMaker::finish(const TakeRecord& take) {
  exchange(take);
  if (facts_.kept > 0) return facts_;
  throw UserError(
      {.where = path_.string(),
       .expected = "at least one row whose prompt leaves room for a completion (DATA-01)",
       .found = "none of " + std::to_string(facts_.rows) +
                ": every prompt fills max_length = " + std::to_string(options_.max_length),
       .cause = "a long system prompt, or a small max_length",
       .fix = "raise max_length (the longest row has " + base::counted(facts_.longest, "token") + ")"});
}

}  // namespace hone::data
