#include "data/forms/tokenize.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/strings/plural.h"
#include "data/files/row_threads.h"
#include "data/forms/row_checks.h"
#include "text/encode_batch.h"
#include "text/training_template.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

constexpr std::int64_t kLengthStep = 64;  // of DataFacts::length_keeping_99
constexpr double kKept = 0.99;            // ... what it keeps

// One row on its way: every token with its two masks, before the cut.
struct Encoded {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;
  std::vector<std::int32_t> labels = {};  // of tokenized rows, where they are not the ids
  bool boundary_mismatch = false;
  bool hides_attention = false, labels_are_next = false;
};

// One row when done, with what its part of the facts needs.
struct ExampleDone {
  Record record;
  std::int64_t full_length = 0;
  bool boundary_mismatch = false, lost_end = false, has_end_target = false;
  bool hides_attention = false, labels_are_next = false;
  bool too_long = false;  // and left out
  std::int64_t targets = 0;
  // Targets that were cut away: of tokens max_length + 64 i to max_length + 64 (i + 1). Empty: nothing was
  // cut.
  std::vector<std::int64_t> lost;
};

Json value_or_null(const Json& row, const char* key) {
  return row.contains(key) ? row[key] : Json();
}

class RowTokenizer {
 public:
  RowTokenizer(const Rows& rows, const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
               const TokenizeOptions& options)
      : rows_(rows),
        tokenizer_(tokenizer),
        chat_template_(chat_template),
        options_(options),
        eos_(tokenizer.special().eos.value_or("")),
        completion_only_(options.completion_only_loss.value_or(rows.form == RowForm::kPromptCompletion ||
                                                               rows.token_columns.completions)) {}

  // Encodes rows [begin, end) at once. Where one of them has an error, row() is to find it.
  void prepare(std::size_t begin, std::size_t end) {
    prepared_.clear();
    prepared_from_ = begin;
    if (rows_.form == RowForm::kTokens) return;
    try {
      text::EncodeBatch batch(tokenizer_, chat_template_, options_.assistant_only_loss);
      for (std::size_t index = begin; index < end; ++index) {
        if (parts() == 2) add(index, kPrompt, batch);
        add(index, kWhole, batch);
      }
      prepared_ = batch.run();
    } catch (const std::exception&) {
      prepared_.clear();
    }
  }

  ExampleDone row(std::size_t index) {
    Encoded encoded = encode(index);
    ExampleDone done;
    done.record.row = rows_.first + static_cast<std::int64_t>(index);
    done.full_length = static_cast<std::int64_t>(encoded.ids.size());
    done.boundary_mismatch = encoded.boundary_mismatch;
    done.hides_attention = encoded.hides_attention;
    done.labels_are_next = encoded.labels_are_next;
    const std::vector<std::int32_t> ends = end_tokens(encoded.ids);
    const auto is_end = [&](std::int32_t id) {
      return std::find(ends.begin(), ends.end(), id) != ends.end();
    };
    cut(encoded, is_end, done);
    done.record.ids = std::move(encoded.ids);
    done.record.supervised = std::move(encoded.supervised);
    done.record.labels = std::move(encoded.labels);
    check_tokens(done.record, index);
    const RecordView example = view(done.record);
    for (std::size_t i = 1; i < example.ids.size(); ++i) {
      if (example.supervised[i] == 0) continue;
      done.targets += 1;
      done.has_end_target = done.has_end_target || is_end(example.label(i));
    }
    return done;
  }

 private:
  void check_tokens(const Record& example, std::size_t index) const {
    const RowName where = [this, index] { return rows_.where(index); };
    if (rows_.form != RowForm::kTokens)
      return check_token_ids(example.ids, options_.vocab_size, tokenizer_, where);
    check_own_tokens(example, options_.vocab_size, where);
    const bool drops = options_.max_length > 0 && !options_.packing && !options_.prepared;
    if (!example.ids.empty() || drops || options_.packing) return;
    throw UserError({.where = rows_.where(index) + " input_ids",
                     .expected = "at least one token",
                     .found = "an empty list",
                     .cause = "",
                     .fix = "remove the row"});
  }

  Encoded encode_tokens(std::size_t index) const {
    TokenRow row = token_row(rows_.rows[index], rows_.token_columns, completion_only_,
                             [this, index] { return rows_.where(index); });
    return {.ids = std::move(row.example.ids),
            .supervised = std::move(row.example.supervised),
            .labels = std::move(row.example.labels),
            .hides_attention = row.hides_attention,
            .labels_are_next = row.labels_are_next};
  }

  // ---- a row's tokens and masks, by form: those of one text, or of a prompt and of prompt and completion
  Encoded encode(std::size_t index) {
    if (rows_.form == RowForm::kTokens) return encode_tokens(index);
    const bool pair = rows_.form == RowForm::kPromptCompletion;
    std::vector<std::int32_t> prompt;
    if (pair) prompt = tokens(index, kPrompt).ids;
    text::TokenizedChat whole = tokens(index, kWhole);
    Encoded out;
    out.ids = std::move(whole.ids);
    if (options_.assistant_only_loss) {
      out.supervised = std::move(whole.assistant);
      if (std::count(out.supervised.begin(), out.supervised.end(), 1) == 0) throw_no_assistant_token(index);
    } else {
      out.supervised.assign(out.ids.size(), 1);
    }
    if (pair) mask_prompt(prompt, out);
    return out;
  }

  enum Part { kPrompt, kWhole };

  text::TokenizedChat tokens(std::size_t index, Part part) {
    if (!prepared_.empty())
      return std::move(prepared_[(index - prepared_from_) * parts() + last_parts(part)]);
    if (!rows_.conversational)
      return {.ids = tokenizer_.encode(text_of(index, part), /*add_special=*/true).ids, .assistant = {}};
    const Json& row = rows_.rows[index];
    return with_row_context([&] { return rows_.where(index); },
                            [&] {
                              return text::tokenize_chat(
                                  tokenizer_, *chat_template_,
                                  {.messages = messages_of(row, part),
                                   .tools = value_or_null(row, "tools"),
                                   .template_kwargs = value_or_null(row, "chat_template_kwargs"),
                                   .add_generation_prompt = part == kPrompt});
                            });
  }

  std::size_t parts() const { return rows_.form == RowForm::kPromptCompletion ? 2 : 1; }
  std::size_t last_parts(Part part) const { return part == kWhole ? parts() - 1 : 0; }

  void add(std::size_t index, Part part, text::EncodeBatch& batch) const {
    if (!rows_.conversational) return batch.add_text(text_of(index, part), /*add_special=*/true);
    const Json& row = rows_.rows[index];
    const bool pair = rows_.form == RowForm::kPromptCompletion;
    const Json both = pair && part == kWhole ? messages_of(row, part) : Json();
    const Json& messages = !pair ? row["messages"] : part == kPrompt ? row["prompt"] : both;
    batch.add_chat(messages, value_or_null(row, "tools"), value_or_null(row, "chat_template_kwargs"),
                   part == kPrompt);
  }

  std::string text_of(std::size_t index, Part part) const {
    const Json& row = rows_.rows[index];
    if (rows_.form == RowForm::kText) return with_eos(row[rows_.text_field]);
    const std::string prompt = row["prompt"];
    return part == kPrompt ? prompt : prompt + with_eos(row["completion"]);
  }

  Json messages_of(const Json& row, Part part) const {
    if (rows_.form == RowForm::kMessages) return row["messages"];
    Json messages = row["prompt"];
    if (part == kWhole) messages.insert(messages.end(), row["completion"].begin(), row["completion"].end());
    return messages;
  }

  std::string with_eos(const std::string& text) const { return text.ends_with(eos_) ? text : text + eos_; }

  // The completion begins where the prompt alone and the whole part ways.
  void mask_prompt(const std::vector<std::int32_t>& prompt, Encoded& whole) const {
    const auto differ = std::mismatch(prompt.begin(), prompt.end(), whole.ids.begin(), whole.ids.end());
    const auto shared = differ.first - prompt.begin();
    whole.boundary_mismatch = differ.first != prompt.end();
    if (completion_only_) std::fill_n(whole.supervised.begin(), shared, std::uint8_t{0});
  }

  // ---- the ends of a row: EOS, and in a conversation the last special token, which closes a turn
  std::vector<std::int32_t> end_tokens(const std::vector<std::int32_t>& ids) {
    std::vector<std::int32_t> ends;
    if (const auto eos = tokenizer_.eos_id()) ends.push_back(*eos);
    if (!rows_.conversational) return ends;
    const auto last = std::find_if(ids.rbegin(), ids.rend(), [&](std::int32_t id) { return is_special(id); });
    if (last != ids.rend() && only_space({last.base(), ids.end()})) ends.push_back(*last);
    return ends;
  }

  // Templates end a turn with a token, and perhaps a line.
  bool only_space(std::span<const std::int32_t> ids) {
    constexpr std::size_t kMost = 4;
    if (ids.size() > kMost) return false;
    const auto [known, is_new] = endings_.try_emplace({ids.begin(), ids.end()}, false);
    if (is_new)
      known->second = tokenizer_.decode(ids, false).find_first_not_of(" \t\r\n") == std::string::npos;
    return known->second;
  }

  // Special tokens are those that decoding can leave out.
  bool is_special(std::int32_t id) {
    const auto known = special_.find(id);
    if (known != special_.end()) return known->second;
    const std::span<const std::int32_t> one(&id, 1);
    const bool special = tokenizer_.decode(one, true).empty() && !tokenizer_.decode(one, false).empty();
    special_.emplace(id, special);
    return special;
  }

  template <typename IsEnd>
  void cut(Encoded& encoded, IsEnd is_end, ExampleDone& done) const {
    if (options_.max_length <= 0 || done.full_length <= options_.max_length) return;
    done.too_long = options_.drop_long;
    if (done.too_long) return;
    if (options_.keep_end) return cut_beginning(encoded, done);
    const auto keep = static_cast<std::size_t>(options_.max_length);
    const auto kept_end = encoded.ids.begin() + static_cast<std::ptrdiff_t>(keep);
    done.lost_end = std::any_of(kept_end, encoded.ids.end(), is_end);
    done.lost.resize((encoded.ids.size() - keep + kLengthStep - 1) / kLengthStep);
    for (std::size_t i = keep; i < encoded.ids.size(); ++i)
      done.lost[(i - keep) / kLengthStep] += encoded.supervised[i];
    encoded.ids.resize(keep);
    encoded.supervised.resize(keep);
    if (!encoded.labels.empty()) encoded.labels.resize(keep);
  }

  // The last max_length tokens stay, and with them the row's end.
  void cut_beginning(Encoded& encoded, ExampleDone& done) const {
    const std::size_t gone = encoded.ids.size() - static_cast<std::size_t>(options_.max_length);
    done.lost.resize((gone + kLengthStep - 1) / kLengthStep);
    for (std::size_t i = 0; i < gone; ++i) done.lost[(gone - 1 - i) / kLengthStep] += encoded.supervised[i];
    const auto kept = static_cast<std::ptrdiff_t>(gone);
    encoded.ids.erase(encoded.ids.begin(), encoded.ids.begin() + kept);
    encoded.supervised.erase(encoded.supervised.begin(), encoded.supervised.begin() + kept);
    if (!encoded.labels.empty()) encoded.labels.erase(encoded.labels.begin(), encoded.labels.begin() + kept);
  }

  [[noreturn]] void throw_no_assistant_token(std::size_t index) const {
    throw UserError({.where = rows_.where(index),
                     .expected = "at least one assistant token, since assistant_only_loss is set",
                     .found = "none inside {% generation %}",
                     .cause = "the row has no assistant turn, or the template marks none",
                     .fix = "remove the row, or correct the template's generation tags"});
  }

  const Rows& rows_;
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  const TokenizeOptions& options_;
  std::string eos_;
  bool completion_only_;
  std::unordered_map<std::int32_t, bool> special_;     // is_special, remembered
  std::map<std::vector<std::int32_t>, bool> endings_;  // only_space, remembered
  std::vector<text::TokenizedChat> prepared_;          // the parts of rows from prepared_from_ on
  std::size_t prepared_from_ = 0;
};

// ---- before and after

// TRL trains on every token of such rows in silence; only for images it says that there are no completions.
void check_completion_only(const Rows& rows, const TokenizeOptions& options) {
  const TokenColumns& columns = rows.token_columns;
  const bool has_completions =
      rows.form == RowForm::kPromptCompletion || columns.labels || columns.completion_mask;
  if (options.completion_only_loss != true || has_completions) return;
  const bool tokens = rows.form == RowForm::kTokens, messages = rows.form == RowForm::kMessages;
  throw UserError(
      {.where = "option completion_only_loss",
       .expected =
           tokens ? "tokenized rows with completion_mask or labels" : "rows with prompt and completion",
       .found = rows.path.string() + ", which has " +
                (tokens     ? "neither"
                 : messages ? "messages"
                            : "text in the column '" + rows.text_field + "'"),
       .cause = "such rows do not say where a completion begins, and TRL would train on all of their tokens",
       .fix = tokens ? "write completion_mask beside input_ids, or remove completion_only_loss"
              : messages
                  ? "set assistant_only_loss: true, which trains on the assistant's turns, or give the "
                    "rows as prompt and completion"
                  : "give the rows as prompt and completion, or remove completion_only_loss"});
}

// skip_prepare_dataset: what TRL's collator takes as it is.
void check_prepared(const Rows& rows) {
  const TokenColumns& columns = rows.token_columns;
  const bool tokens = rows.form == RowForm::kTokens;
  const bool masked = !columns.labels && (columns.completion_mask || columns.assistant_masks);
  if (tokens && !masked) return;
  throw UserError(
      {.where = "option dataset_kwargs",
       .expected = tokens ? "labels beside the masks, with skip_prepare_dataset: true"
                          : "tokenized rows (a column 'input_ids') with skip_prepare_dataset: true",
       .found = rows.path.string() + (tokens ? ", which has masks and no labels" : ", whose rows are not"),
       .cause = tokens ? "labels are made of masks when rows are prepared, and TRL refuses such rows too"
                       : "the option says that a script has made tokens of the rows",
       .fix = "remove skip_prepare_dataset: the rows are then prepared"});
}

void check_request(const Rows& rows, const text::Tokenizer& tokenizer,
                   const text::ChatTemplate* chat_template, const TokenizeOptions& options) {
  const std::string file = rows.path.string();
  if (rows.conversational && chat_template == nullptr) {
    throw UserError(
        {.where = file,
         .expected = "a tokenizer with a chat template, since the rows are messages",
         .found = "a tokenizer without one",
         .cause = "a base model, not an instruct model",
         .fix =
             "name a template with chat_template_path, or give the rows as text or prompt and completion"});
  }
  const bool tokens = rows.form == RowForm::kTokens;
  check_completion_only(rows, options);
  if (options.prepared) check_prepared(rows);
  if (options.assistant_only_loss && !rows.conversational && !rows.token_columns.conversational) {
    const char* const only = tokens ? "tokens" : rows.form == RowForm::kText ? "text" : "strings";
    const bool masked = rows.token_columns.assistant_masks;
    throw UserError(
        {.where = "option assistant_only_loss",
         .expected = "rows of messages",
         .found = file + ", which has " + only + " only",
         .cause = tokens ? "it is for rows that hone renders; of tokenized rows, as in TRL, the column "
                           "assistant_masks applies without it"
                         : "",
         .fix = masked   ? "remove assistant_only_loss: the rows' assistant_masks are applied"
                : tokens ? "remove assistant_only_loss, and give the rows labels or assistant_masks"
                         : "set assistant_only_loss: false, or give the rows as messages"});
  }
  if (options.assistant_only_loss && !tokens && !chat_template->has_generation_tag()) {
    throw UserError(
        {.where = "option assistant_only_loss",
         .expected = "a chat template with {% generation %} tags around the assistant's text (DATA-01)",
         .found = "a template without them",
         .cause = "the templates of most models have none; as in TRL, hone adds them to those of " +
                  text::training_families(),
         .fix = "add {% generation %}...{% endgeneration %} to a copy and name it with chat_template_path, "
                "or use prompt and completion columns"});
  }
  if (!rows.conversational && !tokens && !tokenizer.special().eos) {
    throw UserError({.where = "tokenizer",
                     .expected = "an end-of-sequence token to append to each row",
                     .found = "no eos_token",
                     .cause = "tokenizer_config.json does not name one",
                     .fix = "name it with the option eos_token"});
  }
}

// `lost` gathers ExampleDone::lost of all rows.
void add_facts(const ExampleDone& done, bool kept, std::int64_t max_length, DataFacts& facts,
               std::vector<std::int64_t>& lost) {
  facts.longest = std::max(facts.longest, done.full_length);
  facts.prompt_boundary_mismatches += done.boundary_mismatch ? 1 : 0;
  facts.rows_hiding_attention += done.hides_attention ? 1 : 0;
  facts.rows_with_own_labels += done.record.labels.empty() ? 0 : 1;
  facts.rows_with_shifted_labels += done.labels_are_next ? 1 : 0;
  facts.rows_too_long += done.too_long ? 1 : 0;
  if (max_length > 0 && done.full_length > max_length && !done.too_long) {
    facts.rows_cut += 1;
    facts.tokens_cut += done.full_length - max_length;
    facts.rows_losing_eos += done.lost_end ? 1 : 0;
  }
  facts.rows_without_target += done.targets == 0 ? 1 : 0;
  const std::int64_t cut_away = std::accumulate(done.lost.begin(), done.lost.end(), std::int64_t{0});
  facts.rows_emptied_by_cut += done.targets == 0 && cut_away > 0 ? 1 : 0;
  facts.supervised_before_cut += done.targets + cut_away;
  facts.supervised_lost += cut_away + (kept ? 0 : done.targets);
  lost.resize(std::max(lost.size(), done.lost.size()));
  std::transform(done.lost.begin(), done.lost.end(), lost.begin(), lost.begin(), std::plus<>());
  if (!kept) return;
  facts.kept += 1;
  facts.tokens += static_cast<std::int64_t>(done.record.ids.size());
  facts.supervised_tokens += done.targets;
  const bool endless = done.targets > 0 && !done.has_end_target;
  facts.rows_without_eos_target += endless ? 1 : 0;
  facts.rows_never_ending += endless && !done.lost_end ? 1 : 0;
}

// `bos` below 0: the tokenizer has none.
void add_bos(const std::vector<std::int32_t>& ids, std::int32_t bos, DataFacts& facts) {
  if (bos < 0 || ids.empty() || ids[0] != bos) return;
  facts.rows_with_bos += 1;
  facts.rows_with_two_bos += ids.size() > 1 && ids[1] == bos ? 1 : 0;
}

// The first length beyond max_length at which what is still cut away is at most 1 % of all targets.
std::int64_t length_keeping(double share, const DataFacts& facts, const std::vector<std::int64_t>& lost,
                            std::int64_t max_length) {
  std::int64_t left = std::accumulate(lost.begin(), lost.end(), std::int64_t{0});
  if (left == 0) return 0;
  const double allowed = (1 - share) * static_cast<double>(facts.supervised_before_cut);
  std::int64_t length = max_length;
  for (const std::int64_t bucket : lost) {
    if (static_cast<double>(left) <= allowed) break;
    left -= bucket;
    length += kLengthStep;
  }
  return std::min((length + kLengthStep - 1) / kLengthStep * kLengthStep, facts.longest);
}

// TRL renames the keys of ShareGPT's messages and not their roles (maybe_convert_to_chatml).
bool has_sharegpt_roles(const Json& row) {
  for (const char* column : {"messages", "prompt", "completion"}) {
    if (!row.contains(column) || !row[column].is_array()) continue;
    for (const Json& message : row[column]) {
      const auto role = message.find("role");
      if (role != message.end() && (*role == "human" || *role == "gpt")) return true;
    }
  }
  return false;
}

void check_result(const base::fs::path& path, const DataFacts& facts, const TokenizeOptions& options) {
  if (facts.supervised_tokens > 0) return;
  const bool dropped = facts.rows_too_long > 0;
  const bool all_cut = facts.rows_cut > 0 || dropped;
  throw UserError(
      {.where = path.string(),
       .expected = "at least one token to train on (DATA-01)",
       .found = "none in " + base::counted(facts.rows, "row") + "; " +
                std::to_string(facts.rows_cut + facts.rows_too_long) +
                (facts.rows_cut + facts.rows_too_long == 1 ? " of them is" : " of them are") +
                " longer than max_length = " + std::to_string(options.max_length),
       .cause = dropped                          ? "truncation_mode drop leaves longer rows out"
                : all_cut                        ? "the prompts fill max_length"
                : facts.form == RowForm::kTokens ? "every label is -100, or every mask 0"
                                                 : "the completions are empty",
       .fix = all_cut ? "raise max_length (the longest row has " + base::counted(facts.longest, "token") + ")"
              : facts.form == RowForm::kTokens ? "look at the labels, or the masks"
                                               : "look at the completion column"});
}

}  // namespace

BlockTokenizer::BlockTokenizer(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                               const TokenizeOptions& options)
    : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

void BlockTokenizer::add(const Rows& block, const TakeRecord& take) {
  check_request(block, tokenizer_, chat_template_, options_);
  base::require(block.first == facts_.rows, "data::BlockTokenizer", "the rows after those of the last block");
  const auto all = made_rows<ExampleDone>(block.rows.size(), facts_.rows == 0, options_.threads, [&] {
    return RowTokenizer(block, tokenizer_, chat_template_, options_);
  });
  path_ = block.path;
  facts_.rows += static_cast<std::int64_t>(all.size());
  facts_.form = block.form;
  facts_.conversational = block.conversational;
  facts_.token_columns = block.token_columns;
  if (block.conversational)
    facts_.rows_with_sharegpt_roles +=
        std::count_if(block.rows.begin(), block.rows.end(), has_sharegpt_roles);
  const auto& bos_token = tokenizer_.special().bos;
  const std::int32_t bos = bos_token ? tokenizer_.token_to_id(*bos_token).value_or(-1) : -1;
  const bool drops = options_.max_length > 0 && !options_.packing && !options_.prepared;
  for (const ExampleDone& done : all) {
    // TRL's test looks at every label, also the first, which is never scored.
    const auto& flags = done.record.supervised;
    const bool masked = std::count(flags.begin(), flags.end(), 1) == 0;
    const bool kept = !(drops && masked) && !done.too_long;
    add_facts(done, kept, options_.max_length, facts_, lost_);
    add_bos(done.record.ids, bos, facts_);
    if (kept) take(done.record);
  }
}

DataFacts BlockTokenizer::facts() const {
  DataFacts out = facts_;
  out.length_keeping_99 = length_keeping(kKept, out, lost_, options_.max_length);
  if (out.kept > 0) out.mean_length = static_cast<double>(out.tokens) / static_cast<double>(out.kept);
  return out;
}

DataFacts BlockTokenizer::finish(const TakeRecord& /*take*/) const {
  check_result(path_, facts_, options_);
  return facts();
}

Dataset tokenize_rows(const Rows& rows, const text::Tokenizer& tokenizer,
                      const text::ChatTemplate* chat_template, const TokenizeOptions& options) {
  return make_all(BlockTokenizer(tokenizer, chat_template, options), rows);
}

}  // namespace hone::data
