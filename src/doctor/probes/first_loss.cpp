#include "doctor/probes/first_loss.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "doctor/checks/check_parts.h"
#include "doctor/excluded.h"
#include "doctor/probes/probe_state.h"
#include "model/config/rotations.h"
#include "rollout/generate.h"
#include "train/methods/methods.h"

namespace hone::doctor {

namespace {

using base::Level;
using Ids = std::vector<std::int32_t>;

constexpr double kUniform = 0.1;   // how near ln V loss and entropy of random weights are
constexpr double kGuessing = 1.2;  // of ln V; above: surer of the wrong token than of nothing
constexpr double kGain = 0.7;      // of the loss: what the chat template has to make of it
constexpr double kOnlyEnds = 0.8;  // of the targets
constexpr double kKeptRows = 0.8;  // of the base's own tokens; a tokenizer that fits keeps 0.95 and more
constexpr std::size_t kRows = 4;
// Decoding a token reads every weight, for one sample or for four.
constexpr std::int64_t kRowTokens = 96, kOwnTokens = 24, kOwnSamples = 4;
constexpr std::uint64_t kOwnSeed = 7;
constexpr std::string_view kEnglish =
    "The sun rises in the east and sets in the west. Water boils when it is hot enough. Most people drink "
    "something in the morning, go to work, and come home in the evening to eat with their family.";

double mean_loss(const ScoredPass& pass, const std::vector<data::Record>& rows) {
  if (rows.empty()) return 0;
  const train::ScoredFacts facts = pass(batch_of(rows), 0);
  return facts.scored > 0 ? facts.nll_sum / static_cast<double>(facts.scored) : 0;
}

Ids english(const train::RunView& run) {
  return run.text->tokenizer.encode(kEnglish, true).ids;
}

// As much of a text of the doctor's own as this model has positions.
Ids within_positions(const train::RunView& run, Ids ids) {
  const auto most =
      static_cast<std::size_t>(std::max<std::int64_t>(2, model::longest_generated(run.model->config())));
  if (ids.size() > most) ids.resize(most);
  return ids;
}

// `from`: the first token that is a target; never a row's first.
data::Record example_of(Ids ids, std::size_t from) {
  data::Record out{.ids = std::move(ids), .supervised = {}};
  out.supervised.assign(out.ids.size(), 0);
  for (std::size_t i = std::max<std::size_t>(1, from); i < out.ids.size(); ++i) out.supervised[i] = 1;
  return out;
}

Ids begin_of_text(const train::RunView& run) {
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  if (run.text->chat_template) {
    try {
      const base::Json turn = {{"role", "user"}, {"content", "Tell me something."}};
      return text::tokenize_chat(tokenizer, *run.text->chat_template,
                                 {.messages = base::Json::array({turn}), .add_generation_prompt = true})
          .ids;
    } catch (const base::UserError&) {  // a template that needs more than that: DATA-04 speaks of it
    }
  }
  Ids special = tokenizer.encode("", true).ids;
  if (!special.empty()) return special;
  return {static_cast<std::int32_t>(tokenizer.eos_id().value_or(0))};
}

// The begin of a text that leaves half of the model's positions, at least, to what is generated.
Ids short_begin_of_text(const train::RunView& run) {
  Ids out = begin_of_text(run);
  const auto most =
      static_cast<std::size_t>(std::max<std::int64_t>(1, model::longest_generated(run.model->config()) / 2));
  if (out.size() > most) out.resize(most);
  return out;
}

void generate_own(const train::RunView& run, FirstLossFacts& out) {
  const Ids begin = short_begin_of_text(run);
  const std::int64_t room =
      model::longest_generated(run.model->config()) - static_cast<std::int64_t>(begin.size());
  if (room < 1) return;
  rollout::GenerateOptions options;
  options.max_new_tokens = std::min(kOwnTokens, room);
  options.sampler.temperature = 1;
  options.seed = kOwnSeed;
  options.min_new_tokens = std::min(kOwnTokens / 2, room);
  options.samples = kOwnSamples;
  options.entropies = true;
  double loss = 0, entropy = 0;
  std::int64_t count = 0, kept = 0;
  for (const rollout::Completion& one : rollout::generate(*run.model, {begin}, options)) {
    loss -= std::accumulate(one.logprobs.begin(), one.logprobs.end(), 0.0);
    entropy += std::accumulate(one.entropies.begin(), one.entropies.end(), 0.0);
    count += static_cast<std::int64_t>(one.ids.size());
    const std::string text = run.text->tokenizer.decode(one.ids, /*skip_special=*/false);
    const Ids again = run.text->tokenizer.encode(text, /*add_special=*/false).ids;
    std::multiset<std::int32_t> left(again.begin(), again.end());
    for (const std::int32_t id : one.ids) {
      const auto found = left.find(id);
      if (found == left.end()) continue;
      kept += 1;
      left.erase(found);
    }
  }
  if (count == 0) return;
  out.own_loss = loss / static_cast<double>(count);
  out.own_entropy = entropy / static_cast<double>(count);
  out.own_kept = static_cast<double>(kept) / static_cast<double>(count);
}

// Of a row: what comes before its first target, and its targets.
struct Sides {
  Ids before, targets;
};

std::vector<Sides> sides_of(const train::RunView& run) {
  std::vector<Sides> out;
  for (const data::Record& one : short_examples(run, kRows, kRows * kRowTokens)) {
    const auto first = std::find(one.supervised.begin() + 1, one.supervised.end(), 1);
    const auto at = first - one.supervised.begin();
    out.push_back({{one.ids.begin(), one.ids.begin() + at}, {one.ids.begin() + at, one.ids.end()}});
  }
  return out;
}

double share_of_ends(const train::RunView& run, const std::vector<Sides>& rows) {
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  const std::optional<std::int32_t> turn_end = answer_end(run);
  std::int64_t ends = 0, all = 0;
  for (const Sides& one : rows) {
    for (const std::int32_t id : one.targets) {
      const std::string text = tokenizer.decode(Ids{id}, /*skip_special=*/true);
      const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
      ends += blank || tokenizer.eos_id() == id || turn_end == id ? 1 : 0;
      all += 1;
    }
  }
  return all > 0 ? static_cast<double>(ends) / static_cast<double>(all) : 0;
}

// The rows of prompt and completion as a user's and an assistant's turn.
std::optional<double> loss_in_template(const train::RunView& run, const ScoredPass& pass,
                                       const std::vector<Sides>& rows) {
  const auto* const start = std::get_if<train::ExampleStartFacts>(&run.start.method);
  const bool tokens = start != nullptr && start->data.form == data::RowForm::kTokens;
  if (!run.text->chat_template || run.start.conversational || tokens) return std::nullopt;
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  std::vector<data::Record> turned;
  for (const Sides& one : rows) {
    const std::string prompt = tokenizer.decode(one.before, true),
                      answer = tokenizer.decode(one.targets, true);
    if (prompt.find_first_not_of(" \n") == std::string::npos ||
        answer.find_first_not_of(" \n") == std::string::npos)
      continue;
    const auto turn = [](const char* role, const std::string& text) {
      return base::Json{{"role", role}, {"content", text.substr(text.find_first_not_of(" \n"))}};
    };
    const base::Json ask = base::Json::array({turn("user", prompt)});
    const base::Json both = base::Json::array({turn("user", prompt), turn("assistant", answer)});
    try {
      const Ids before = text::tokenize_chat(tokenizer, *run.text->chat_template,
                                             {.messages = ask, .add_generation_prompt = true})
                             .ids;
      const Ids whole = text::tokenize_chat(tokenizer, *run.text->chat_template, {.messages = both}).ids;
      const auto first = std::mismatch(before.begin(), before.end(), whole.begin(), whole.end()).second;
      const auto from = static_cast<std::size_t>(first - whole.begin());
      if (const Ids kept = within_positions(run, whole); from < kept.size())
        turned.push_back(example_of(kept, from));
    } catch (const base::UserError&) {
      return std::nullopt;
    }
  }
  if (turned.empty()) return std::nullopt;
  return mean_loss(pass, turned);
}

std::string of_uniform(double loss, double uniform) {
  return number(loss) + " (" + number(loss / uniform) + " of ln V)";
}

}  // namespace

FirstLossFacts measure_first_loss(const train::RunView& run, const ScoredPass& pass, double loss,
                                  std::int64_t scored) {
  const at::NoGradGuard no_grad;
  FirstLossFacts out{.loss = loss,
                     .uniform = std::log(static_cast<double>(run.model->config().vocab_size)),
                     .scored = scored,
                     .samples = run.samples()};
  generate_own(run, out);
  out.english = mean_loss(pass, {example_of(within_positions(run, english(run)), 1)});
  if (run.samples()) return out;
  const std::vector<Sides> rows = sides_of(run);
  out.ends = share_of_ends(run, rows);
  out.in_template = loss_in_template(run, pass, rows);
  return out;
}

base::Verdict judge_high_loss(const FirstLossFacts& facts) {
  const double share = facts.loss / facts.uniform;
  base::Verdict out{.code = "NUM-02", .level = Level::kWarn};
  out.what = (facts.samples ? "the model gives its own completions a loss of " : "the first loss is ") +
             number(facts.loss) + ", ln V is " + number(facts.uniform);
  out.evidence = number(share) + " of ln V over " + grouped(facts.scored) +
                 " tokens; a pretrained base is below " + number(kPretrained) +
                 "; text that the base generates " + of_uniform(facts.own_loss, facts.uniform) +
                 ", plain English " + of_uniform(facts.english, facts.uniform);
  if (facts.in_template)
    out.evidence += ", the same rows in the chat template " + of_uniform(*facts.in_template, facts.uniform);
  Excluded excluded;
  const double own = facts.own_loss / facts.uniform, entropy = facts.own_entropy / facts.uniform;
  const bool knows_english = facts.english <= kPretrained * facts.uniform;
  const bool guesses = own >= 1 - kUniform && entropy >= 1 - kUniform;
  if (!knows_english && guesses && share <= kGuessing) {
    out.level = Level::kNote;
    out.what += ": the base is untrained";
    out.cause = "its own text has the entropy of random weights, " + number(entropy) + " of ln V";
    out.fix = "another model_name_or_path, unless this is a test";
    out.cost = "an adapter cannot train an untrained base";
    return out;
  }
  excluded.add("an untrained base", "its own text has " + number(own) + " of ln V")
      .add("a new adapter", "with B = 0 it adds nothing");
  if (facts.ends >= kOnlyEnds) {
    out.cause = "completions are empty: " + number(100 * facts.ends) +
                " % of the targets are an end of sequence or white space";
    out.fix = "leave out rows whose completion is empty, or name another completion column";
    out.cost = "a model that learns to answer nothing";
    out.not_this = excluded.text();
    return out;
  }
  if (facts.in_template && *facts.in_template <= kGain * facts.loss) {
    out.cause = "the rows are plain text, and this base knows them as turns of its chat template";
    out.fix =
        "write the rows as messages, or as conversational prompt and completion; keep them plain if "
        "the adapter is to be used without the template";
    out.cost = "steps that teach a form instead of the task";
    out.not_this = excluded.add("the weights", "they know the same rows in the template").text();
    return out;
  }
  if (facts.in_template) excluded.add("the form of the rows", "the chat template does not lower the loss");
  const bool tokenizer_fits = facts.own_kept >= kKeptRows;
  if (knows_english || (tokenizer_fits && own <= kPretrained)) {
    out.level = Level::kNote;
    out.what += facts.samples ? ": it is sure of little here" : ": text that this base has hardly seen";
    out.cause = "a language, symbols or a form that its training did not have";
    out.fix = "nothing, if these rows are what it is to learn; else look at the example on the start page";
    excluded.add("the base and its tokenizer",
                 knows_english ? "plain English has " + number(facts.english / facts.uniform) + " of ln V"
                               : "its own text has " + number(own));
    out.not_this = excluded.text();
    return out;
  }
  out.cost = "an adapter cannot repair a base";
  if (!tokenizer_fits) {
    out.cause = "the tokenizer is not the one that this base was trained with: of the base's own tokens " +
                number(100 * facts.own_kept) + " % survive decoding and encoding";
    out.fix = "take tokenizer and weights from one download; compare `hone generate`";
  } else {
    out.cause = "suspected: weights that are damaged, or read in another way than they were written";
    excluded.add("the tokenizer", "it keeps " + number(100 * facts.own_kept) + " % of the base's own tokens");
    out.fix = "try `hone generate` with this base; download it again";
  }
  out.not_this = excluded.text();
  return out;
}

}  // namespace hone::doctor
