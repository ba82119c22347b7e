#include "data/unpaired.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/plural.h"
#include "data/row_checks.h"
#include "data/row_encoder.h"
#include "data/row_threads.h"
#include "data/rows.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

constexpr std::size_t kMapBatch = 1000;  // datasets.map(batched=True)

// ---- rows

// Pairs as rows, in the order of TRL's _unpair_row on batches of kMapBatch.
void unpair(PreferenceRows pairs, UnpairedRows& out) {
  out.paired = true;
  out.conversational = pairs.conversational;
  out.names = pairs.names;
  out.file_rows = static_cast<std::int64_t>(pairs.rows.size());
  for (std::size_t begin = 0; begin < pairs.rows.size(); begin += kMapBatch) {
    const std::size_t end = std::min(begin + kMapBatch, pairs.rows.size());
    for (const bool desirable : {true, false}) {
      for (std::size_t i = begin; i < end; ++i) {
        PreferenceRow& pair = pairs.rows[i];
        out.rows.push_back({.prompt = pair.prompt,
                            .completion = std::move(desirable ? pair.chosen : pair.rejected),
                            .desirable = desirable,
                            .tools = pair.tools,
                            .template_kwargs = pair.template_kwargs,
                            .line = pair.line});
      }
    }
  }
}

class UnpairedReader {
 public:
  explicit UnpairedReader(UnpairedRows& out) : out_(out) {}

  void take(Json row, int line) {
    const std::string where = out_.names.of(line);
    if (out_.rows.empty()) refuse_columns(row, kto_columns(), where);
    for (const char* column : {"prompt", "completion", "label"}) require_column(row, column, where);
    check_template_columns(row, where);
    if (out_.rows.empty()) out_.conversational = row.at("completion").is_array();
    for (const char* column : {"prompt", "completion"}) require_kind(row, column, where);
    out_.rows.push_back({.prompt = std::move(row["prompt"]),
                         .completion = std::move(row["completion"]),
                         .desirable = label_of(row.at("label"), where),
                         .tools = row.contains("tools") ? std::move(row["tools"]) : Json(),
                         .template_kwargs = row.contains("chat_template_kwargs")
                                                ? std::move(row["chat_template_kwargs"])
                                                : Json(),
                         .line = line});
  }

 private:
  static void require_column(const Json& row, const char* column, const std::string& where) {
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

  void require_kind(const Json& row, const char* column, const std::string& where) const {
    const Json& value = row.at(column);
    if (value.is_array()) check_messages(row, column, where);
    if (value.is_array() == out_.conversational && (value.is_array() || value.is_string())) return;
    throw UserError({.where = where + " " + column,
                     .expected = out_.conversational ? "a list of messages, as in the other columns and rows"
                                                     : "text, as in the other columns and rows",
                     .found = value.is_array()    ? "a list of messages"
                              : value.is_string() ? "text"
                              : value.is_null()   ? "null"
                                                  : value.type_name(),
                     .cause = {},
                     .fix = "write prompt and completion of all rows in the same form"});
  }

  static bool label_of(const Json& value, const std::string& where) {
    if (value.is_boolean()) return value.get<bool>();
    if (value == Json(0) || value == Json(1)) return value == Json(1);
    throw UserError({.where = where + " label",
                     .expected = "true (desirable) or false",
                     .found = base::short_json(value, 60),
                     .cause = {},
                     .fix = "write true or false"});
  }

  UnpairedRows& out_;
};

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
PreferenceSequence make_side(const std::vector<std::int32_t>& prompt,
                             const std::vector<std::int32_t>& completion, std::int64_t max_length) {
  std::size_t size = completion.size();
  if (max_length > 0) size = std::min(size, static_cast<std::size_t>(max_length) - prompt.size());
  const auto end = completion.begin() + static_cast<std::ptrdiff_t>(size);
  PreferenceSequence out{.context = prompt, .scored = {}, .completion = static_cast<std::int64_t>(size)};
  auto first = completion.begin();
  if (prompt.empty()) out.context.push_back(*first++);
  out.scored.assign(first, end);
  return out;
}

void add_facts(const UnpairedDone& done, const PreferenceSequence& side, bool desirable,
               std::int64_t max_length, UnpairedFacts& facts) {
  const auto whole = static_cast<std::int64_t>(done.prompt.size() + done.completion.size());
  facts.kept += 1;
  facts.desirable += desirable ? 1 : 0;
  facts.tokens += side.tokens();
  facts.completion_tokens += static_cast<std::int64_t>(side.scored.size());
  facts.rows_cut += max_length > 0 && whole > max_length ? 1 : 0;
  facts.longest_prompt = std::max(facts.longest_prompt, static_cast<std::int64_t>(side.context.size()));
}

}  // namespace

std::string UnpairedRows::where(std::size_t index) const {
  return names.of(rows.at(index).line);
}

UnpairedRows read_unpaired_rows(const RowSource& source) {
  UnpairedRows out;
  out.path = source.path();
  UnpairedReader reader(out);
  bool pairs = false;
  source.for_first(1, out.names, [&pairs](const Json& row, int) {
    pairs = row.contains("chosen") && row.contains("rejected");
  });
  if (pairs) {
    unpair(read_preference_rows(source), out);
    return out;
  }
  source.for_each(out.names, [&reader](Json row, int number) { reader.take(std::move(row), number); });
  out.file_rows = static_cast<std::int64_t>(out.rows.size());
  return out;
}

UnpairedData tokenize_unpaired(const UnpairedRows& rows, const text::Tokenizer& tokenizer,
                               const text::ChatTemplate* chat_template, const UnpairedOptions& options) {
  require_template_or_eos(rows.path, rows.conversational, tokenizer, chat_template, /*by_option=*/false);
  std::vector<UnpairedDone> all(rows.rows.size());
  base::begin_part(kTokenizing, "rows", static_cast<std::int64_t>(all.size()));
  RowThreads<UnpairedDone>(all, row_threads(options.threads, all.size())).run([&] {
    return UnpairedTokenizer(rows, tokenizer, chat_template, options);
  });
  UnpairedData out;
  UnpairedFacts& facts = out.facts;
  facts.rows = static_cast<std::int64_t>(all.size());
  facts.paired = rows.paired;
  facts.conversational = rows.conversational;
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    facts.longest =
        std::max(facts.longest, static_cast<std::int64_t>(all[i].prompt.size() + all[i].completion.size()));
    facts.boundary_mismatches += all[i].boundary_mismatch ? 1 : 0;
    facts.prompts_too_long += all[i].dropped ? 1 : 0;
    if (!all[i].dropped) kept.push_back(i);
  }
  if (kept.empty()) {
    throw UserError(
        {.where = rows.path.string(),
         .expected = "at least one row whose prompt leaves room for a completion (DATA-01)",
         .found = "none of " + std::to_string(facts.rows) +
                  ": every prompt fills max_length = " + std::to_string(options.max_length),
         .cause = "a long system prompt, or a small max_length",
         .fix = "raise max_length (the longest row has " + base::counted(facts.longest, "token") + ")"});
  }
  const auto batch = static_cast<std::size_t>(options.batch_size);
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const std::size_t begin = k - k % batch;
    const std::size_t last = std::min(begin + batch, kept.size()) - 1;
    const UnpairedDone &own = all[kept[k]], &other = all[kept[k == begin ? last : k - 1]];
    const bool desirable = rows.rows[kept[k]].desirable;
    out.rows.push_back({.row = rows.rows[kept[k]].line - 1,
                        .chosen = make_side(own.prompt, own.completion, options.max_length),
                        .rejected = make_side(own.prompt, other.completion, options.max_length)});
    out.desirable.push_back(desirable ? 1 : 0);
    add_facts(own, out.rows.back().chosen, desirable, options.max_length, facts);
  }
  return out;
}

}  // namespace hone::data
