// DATA-13, on the tokens of all rows: rows that are there more than once, rows that contradict each other, one
// prompt for everything.
#include <algorithm>
#include <initializer_list>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/number_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kDuplicatesWarn = 0.10, kContradictionsWarn = 0.01, kOnePromptWarn = 0.50;  // of the rows
// Of prompts that are sampled: a copy gets completions of its own, as in another epoch. Tasks of a small space (sums)
// repeat themselves; a file that was concatenated with itself has a half.
constexpr double kCopiedPromptsWarn = 0.50;
constexpr std::int64_t kFewRows = 16;   // fewer: a trial
constexpr std::int64_t kFewTokens = 8;  // tokens: two that differ cannot both be right
constexpr std::uint64_t kNoPrompt = 0;
constexpr std::size_t kMostPrints =
    1'000'000;  // rows compared, the first ones: a print and its places in maps take 150 bytes

// A row as hashes: what it is asked, what it says, and that with what it must not say (pairs, labels, golds).
struct RowPrint {
  std::uint64_t prompt = kNoPrompt, answer = 0, whole = 0;
  std::uint64_t opposite = 0;  // the whole of a row that contradicts it; 0: decided by the answers
  bool short_answer = false;
};

std::uint64_t hash_of(std::span<const std::int32_t> ids, std::uint64_t state = base::kHashStart) {
  return base::hash64(std::as_bytes(ids), state);
}

std::uint64_t mixed(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t out = base::kHashStart;
  for (const std::uint64_t part : parts) out = base::hash64(std::as_bytes(std::span(&part, 1)), out);
  return out;
}

RowPrint print_of_example(const data::RecordView& row) {
  const auto first = std::find(row.supervised.begin(), row.supervised.end(), 1);
  const auto prompt = static_cast<std::size_t>(first - row.supervised.begin());
  const bool has_prompt = prompt > 1 && prompt < row.ids.size();
  RowPrint print{.answer = hash_of(row.ids.subspan(std::min(prompt, row.ids.size())))};
  if (has_prompt) print.prompt = hash_of(row.ids.first(prompt));
  print.whole = hash_of(row.ids);
  print.short_answer = static_cast<std::int64_t>(row.ids.size() - prompt) <= kFewTokens;
  return print;
}

RowPrint print_of_pair(const data::RecordView& row) {
  const data::SequencePair pair = data::sides_of(row);
  RowPrint print{.prompt = pair.first.context.size() > 1 ? hash_of(pair.first.context) : kNoPrompt};
  const std::uint64_t chosen = hash_of(pair.first.scored), rejected = hash_of(pair.second.scored);
  print.answer = chosen;
  if (!row.desirable) {
    print.whole = mixed({print.prompt, chosen, rejected});
    print.opposite = chosen == rejected ? 1 : mixed({print.prompt, rejected, chosen});
  } else {
    const std::uint64_t label = *row.desirable ? 1 : 0;
    print.whole = mixed({print.prompt, chosen, label});
    print.opposite = mixed({print.prompt, chosen, 1 - label});
  }
  return print;
}

std::vector<RowPrint> prints_of(const train::RecordData& data) {
  std::vector<RowPrint> out;
  data.records.for_each([&out](const data::RecordView& row) {
    if (out.size() == kMostPrints) return;
    out.push_back(row.sequences.empty() ? print_of_example(row) : print_of_pair(row));
  });
  return out;
}

std::vector<RowPrint> prints_of(const train::SampledData& data) {
  std::vector<RowPrint> out;
  const std::string gold = format::gold_column(data.train_prompts);
  for (std::size_t i = 0; i < data.train_prompts.rows.size(); ++i) {
    RowPrint print{.prompt = hash_of(data.train_prompts.tokens[i].ids)};
    const auto text =
        gold.empty() ? std::nullopt : format::column_text(data.train_prompts.rows[i].columns, gold);
    print.answer = text ? base::hash64(*text) : 0;
    print.whole = mixed({print.prompt, print.answer});
    print.short_answer = text.has_value();
    out.push_back(print);
  }
  return out;
}

// How the copies lie.
struct Copies {
  std::size_t block = 0, block_of = 0, block_size = 0;  // one block of rows that repeats another in its order
  bool each_as_often = false;                           // every row is there as many times as every other
  std::vector<std::vector<std::size_t>> most;           // places of the rows that are there most often
  std::int64_t of_most = 0;                             // copies among those
};

struct Counts {
  std::int64_t rows = 0, copies = 0;  // copies: beyond the first of each
  std::int64_t contradicting = 0, of_one_prompt = 0;
  std::size_t first_copy = 0, first_contradiction = 0, its_other = 0, copied = 0;
};

// The rows behind which the file repeats its beginning, or the longest block of copies that lie as what they
// copy.
void find_block(const std::vector<RowPrint>& prints, const std::vector<std::size_t>& first_of, Copies& out) {
  constexpr std::size_t kTried = 16;
  const std::size_t rows = prints.size();
  std::size_t tried = 0;
  for (std::size_t at = 1; at < rows && tried < kTried; ++at) {
    if (first_of[at] != 0) continue;
    tried += 1;
    const auto same = [](const RowPrint& a, const RowPrint& b) { return a.whole == b.whole; };
    const auto from = prints.begin() + static_cast<std::ptrdiff_t>(at);
    if (!std::equal(from, prints.end(), prints.begin(), same)) continue;
    out.block = at;
    out.block_of = 0;
    out.block_size = rows - at;
    return;
  }
  std::size_t size = 0;
  for (std::size_t i = 1; i < rows; ++i) {
    const bool copy = first_of[i] != i;
    size = copy && size > 0 && first_of[i] == first_of[i - 1] + 1 ? size + 1 : (copy ? 1 : 0);
    if (size <= out.block_size) continue;
    out.block_size = size;
    out.block = i + 1 - size;
    out.block_of = first_of[out.block];
  }
}

Copies look_at_copies(const std::vector<RowPrint>& prints, std::int64_t copies) {
  constexpr std::size_t kNamed = 3, kLeastBlock = 8, kLeastRows = 4;
  constexpr double kMostOfThem = 0.9;
  Copies out;
  std::unordered_map<std::uint64_t, std::size_t> firsts;
  std::vector<std::size_t> first_of(prints.size());
  std::unordered_map<std::size_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < prints.size(); ++i) {
    first_of[i] = firsts.try_emplace(prints[i].whole, i).first->second;
    if (first_of[i] == i) continue;
    std::vector<std::size_t>& all = places[first_of[i]];
    if (all.empty()) all.push_back(first_of[i]);
    all.push_back(i);
  }
  find_block(prints, first_of, out);
  const auto least = static_cast<std::size_t>(kMostOfThem * static_cast<double>(copies));
  if (firsts.size() < kLeastRows || out.block_size < std::max(kLeastBlock, least)) out.block_size = 0;
  for (auto& [first, all] : places) out.most.push_back(std::move(all));
  std::sort(out.most.begin(), out.most.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  out.each_as_often = out.most.size() == firsts.size() && out.most.front().size() == out.most.back().size();
  out.most.resize(std::min(out.most.size(), kNamed));
  for (const auto& all : out.most) out.of_most += static_cast<std::int64_t>(all.size()) - 1;
  return out;
}

Counts count(const std::vector<RowPrint>& prints) {
  Counts out{.rows = static_cast<std::int64_t>(prints.size())};
  std::unordered_map<std::uint64_t, std::size_t> wholes, answers;  // the first row with it
  std::unordered_map<std::uint64_t, std::int64_t> prompts;
  for (std::size_t i = 0; i < prints.size(); ++i) {
    const RowPrint& one = prints[i];
    const auto [first, is_new] = wholes.try_emplace(one.whole, i);
    if (!is_new && out.copies++ == 0) {
      out.first_copy = i;
      out.copied = first->second;
    }
    if (one.prompt != kNoPrompt) out.of_one_prompt = std::max(out.of_one_prompt, ++prompts[one.prompt]);
    std::size_t other = i;
    if (one.opposite != 0) {
      if (const auto found = wholes.find(one.opposite); found != wholes.end()) other = found->second;
    } else if (one.prompt != kNoPrompt && one.short_answer) {
      const auto [had, fresh] = answers.try_emplace(one.prompt, i);
      if (!fresh && prints[had->second].answer != one.answer) other = had->second;
    }
    if (other == i) continue;
    if (out.contradicting++ == 0) {
      out.first_contradiction = i;
      out.its_other = other;
    }
  }
  return out;
}

std::vector<RowPrint> prints_of(const train::RunView& run) {
  return std::visit([](const auto& data) { return prints_of(data); }, run.data);
}

// "row 17"; of prompts as the file names it.
std::string place(const train::RunView& run, std::size_t i) {
  if (run.samples()) return run.sampled().train_prompts.rows[i].where;
  return "row " + std::to_string(data::file_row(std::get<train::RecordData>(run.data).records[i].row) + 1);
}

// "row 5 is there 12 times (row 5, row 9, row 17, ...)", of the most frequent ones.
std::string named_copies(const train::RunView& run, const Copies& copies) {
  constexpr std::size_t kPlaces = 4;
  std::string out;
  for (const std::vector<std::size_t>& all : copies.most) {
    out += (out.empty() ? "" : "; ") + place(run, all.front()) + " is there " + std::to_string(all.size()) +
           " times (";
    for (std::size_t i = 0; i < std::min(kPlaces, all.size()); ++i)
      out += (i > 0 ? ", " : "") + place(run, all[i]);
    out += all.size() > kPlaces ? ", ...)" : ")";
  }
  return out;
}

// What the places of the copies show.
void explain_copies(const train::RunView& run, const std::vector<RowPrint>& prints, const Counts& found,
                    Verdict& out) {
  constexpr double kOften = 4, kOftenOfRows = 0.1;  // times that one text is there
  const Copies copies = look_at_copies(prints, found.copies);
  out.evidence =
      "the same tokens; the first is " + place(run, found.first_copy) + ", as " + place(run, found.copied);
  if (copies.block_size > 0) {
    out.evidence += "; " + place(run, copies.block) + " to " +
                    place(run, copies.block + copies.block_size - 1) + " repeat " +
                    place(run, copies.block_of) + " to " +
                    place(run, copies.block_of + copies.block_size - 1) + " in their order";
    out.cause = "suspected: a file that was concatenated with itself, or with one that it came from";
    return;
  }
  out.evidence += "; most often: " + named_copies(run, copies);
  if (copies.each_as_often && copies.most.size() > 1) {
    out.cause = "suspected: each row is there " + std::to_string(copies.most.front().size()) +
                " times: several epochs in one file, or a file that was joined with itself and shuffled";
  } else if (2 * copies.of_most >= found.copies &&
             static_cast<double>(copies.most.front().size()) >=
                 std::max(kOften, kOftenOfRows * static_cast<double>(found.rows))) {
    out.cause =
        "suspected: a few texts that stand for many rows, such as a refusal, a default or an empty row";
  } else {
    out.cause = "suspected: rows that were drawn with repetition, or joined from sources that share them";
  }
}

Verdict judge_copies(const train::RunView& run, const std::vector<RowPrint>& prints, const Counts& found) {
  Verdict out{.code = "DATA-13"};
  const std::string rows = format::counted(found.rows, run.samples() ? "prompt" : "row");
  out.what = "no row is there twice (" + rows + ")";
  if (found.copies == 0) return out;
  const double part = share(found.copies, found.rows);
  out.what = std::to_string(found.copies) + " of " + rows +
             (found.copies == 1 ? " is a copy of another one"
              : run.samples()   ? " are copies of other prompts"
                                : " are copies of other rows");
  if (run.samples() && part < kCopiedPromptsWarn) return out;
  out.level = part >= kDuplicatesWarn && found.rows >= kFewRows ? Level::kWarn : Level::kNote;
  explain_copies(run, prints, found, out);
  out.not_this = "num_train_epochs: these are rows of the data, before they are repeated";
  out.fix = "remove the copies, or keep them if these rows are meant to count more";
  out.cost =
      (run.samples() ? "these prompts are sampled " : "these rows are learned ") +
      format::number(1 + static_cast<double>(found.copies) /
                             static_cast<double>(std::max<std::int64_t>(1, found.rows - found.copies))) +
      " times as often on average";
  return out;
}

Verdict judge_contradictions(const train::RunView& run, const Counts& found) {
  Verdict out{.code = "DATA-13"};
  const double part = share(found.contradicting, found.rows);
  out.level = part >= kContradictionsWarn && found.rows >= kFewRows ? Level::kWarn : Level::kNote;
  const bool pairs = run.has_pairs();
  const bool labels = pairs && run.pairs()->records[0].desirable.has_value();
  out.what = std::to_string(found.contradicting) + " of " +
             format::counted(found.rows, run.samples() ? "prompt" : "row") +
             base::plural(found.contradicting, " contradicts", " contradict") + " another one";
  out.evidence = place(run, found.first_contradiction) + " and " + place(run, found.its_other) +
                 (labels          ? " have the same completion with both labels"
                  : pairs         ? " have chosen and rejected the other way round"
                  : run.samples() ? " have the same prompt and different right answers"
                                  : " have the same prompt and different answers of a few tokens");
  out.cause = "suspected: labels of several people that were merged, or a column that was shifted";
  out.not_this = "different wordings of one answer: what is compared is the opposite, or of a few tokens";
  out.fix = "keep one of the two, or none";
  out.cost = "their gradients cancel, and the loss cannot fall below the disagreement";
  return out;
}

Verdict judge_one_prompt(const train::RunView& run, const Counts& found) {
  Verdict out{.code = "DATA-13", .level = Level::kWarn};
  out.what = std::to_string(found.of_one_prompt) + " of " + format::counted(found.rows, "row") +
             " have the same prompt";
  out.evidence = format::percent(static_cast<double>(found.of_one_prompt), static_cast<double>(found.rows)) +
                 " of the rows, token by token";
  out.cause =
      "suspected: the column of the question is not what the prompt is made of, or the template drops it";
  out.not_this = found.copies == 0 ? "copies: the rows differ in what follows the prompt" : "";
  out.fix = "look at the prompt on the start page; the column is " +
            std::string(run.plan.dataset_prompt_column.empty() ? "prompt" : "dataset_prompt_column");
  out.cost = "a model that learns one question";
  return out;
}

}  // namespace

Verdicts check_duplicates(const train::RunView& run) {
  const std::vector<RowPrint> prints = prints_of(run);
  if (prints.empty()) return {};
  const Counts found = count(prints);
  Verdicts out = {judge_copies(run, prints, found)};
  if (found.contradicting > 0) out.push_back(judge_contradictions(run, found));
  if (found.rows >= kFewRows && share(found.of_one_prompt, found.rows) >= kOnePromptWarn &&
      found.copies < found.rows / 2)
    out.push_back(judge_one_prompt(run, found));
  return out;
}

}  // namespace hone::doctor
