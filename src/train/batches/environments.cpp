#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "rewards/reward.h"
#include "train/batches/tool_rollouts.h"

namespace hone::train {

namespace {

using base::Json;

constexpr const char* kColumn = "environment";  // that chooses one, as TRL's

// What reset() gets: the row, with its prompt. TRL takes the choosing column away where there are several.
Json reset_row(const data::PromptRow& row, bool chosen_by_column) {
  Json out = row.columns.is_object() ? row.columns : Json::object();
  if (chosen_by_column) out.erase(kColumn);
  out.update(row.not_for_rewards);
  out["prompt"] = row.prompt;
  return out;
}

data::PromptRow with_observation(const data::PromptRow& row, const std::string& text) {
  data::PromptRow out = row;
  Json& content = out.prompt.back()["content"];
  if (content.is_string()) {
    content = content.get<std::string>() + text;
  } else {
    content.push_back({{"type", "text"}, {"text", text}});
  }
  return out;
}

[[noreturn]] void worlds_differ(const data::PromptRow& row, const std::string& name, const std::string& first,
                                const std::string& other) {
  throw WorldsDiffer(
      {.where = row.where,
       .expected =
           "the same observation of reset() for all completions of a prompt, which are compared with each other",
       .found = "'" + first.substr(0, 120) + "' and '" + other.substr(0, 120) + "'",
       .cause = name + " draws its task at random, or keeps something of the sample before",
       .fix =
           "make the task from the row, for example random.Random(row_number), and set every field in reset()"});
}

// What draws the task, and whatever a method draws: the same for all completions of a prompt, which are compared, and others in each
// batch.
std::uint64_t seed_of(const rollout::GenerateOptions& options, std::size_t prompt) {
  return base::Stream(options.seed, base::Purpose::kEnvironment, options.step, options.key_of(prompt))
      .bits(0);
}

constexpr std::uint64_t kReset = 0xFFFFFFFF;  // the journal's index of a prompt's reset, behind all calls

// What reset() said when this prompt was first begun: a later start reads the same, and draws the same calls.
std::string first_said(const std::string& said, const std::string& class_name, const CallPlace& place,
                       ToolJournal& journal, std::vector<std::string>* changed) {
  const ToolCall reset = {.turn = -1, .name = "reset", .arguments = {}, .result = said};
  const auto known = journal.find(place, reset);
  if (!known) {
    journal.write(place, reset);
    return said;
  }
  if (known->result != said && changed != nullptr) {
    changed->push_back("reset() of " + class_name + " says '" + said.substr(0, 120) + "' and said '" +
                       known->result.substr(0, 120) + "' in the run that this one goes on, which is kept");
  }
  return known->result;
}

}  // namespace

const std::string& ToolUse::environment_of(const data::PromptRow& row) const {
  static const std::string kNone;
  if (environments.empty() || environments.front().empty()) return kNone;
  const Json name = row.columns.is_object() ? row.columns.value(kColumn, Json()) : Json();
  const auto found =
      std::find(environments.begin(), environments.end(), name.is_string() ? name.get<std::string>() : "");
  if (found != environments.end()) return *found;
  std::string all;
  for (const std::string& one : environments) all += (all.empty() ? "" : ", ") + one;
  throw base::UserError(
      {.where = row.where,
       .expected = "one of the environments " + all + " in the column environment",
       .found = name.is_null() ? "none" : base::dump_json(name) + ", which is not among the environments",
       .cause = "with several environments a row says which one it is for",
       .fix = "write the name of one of them into the column environment of every row"});
}

Json ToolUse::schemas(const std::string& environment) const {
  Json out = Json::array();
  for (const tools::Tool& one : pool->tools(environment)) out.push_back(one.schema);
  return out;
}

std::vector<data::TokenizedPrompt> ToolUse::tokenize(std::vector<data::PromptRow> rows,
                                                     const text::Tokenizer& tokenizer) const {
  std::map<std::string, Json> by_environment;
  for (data::PromptRow& row : rows) {
    if (!row.prompt.is_array()) {
      throw base::UserError(
          {.where = row.where,
           .expected = "a conversation as prompt: the chat template shows the tools to the model",
           .found = "text",
           .fix =
               "write the prompt as [{\"role\": \"user\", \"content\": ...}], or remove tools and environment"});
    }
    const std::string& name = environment_of(row);
    const auto [place, is_new] = by_environment.try_emplace(name);
    if (is_new) place->second = schemas(name);
    row.columns["tools"] = place->second;
  }
  std::vector<data::TokenizedPrompt> out =
      data::tokenize_prompts(rows, tokenizer, chat.get(), template_kwargs, vocab_size);
  limit_prompts(out, rows, tokenizer, limits);
  return out;
}

bool ToolUse::is_method(const std::string& environment, const std::string& name) const {
  if (environments.empty()) return false;
  const std::vector<tools::Tool>& all = pool->tools(environment);
  const auto shared = static_cast<std::ptrdiff_t>(shared_tools);
  return std::any_of(all.begin() + std::min<std::ptrdiff_t>(shared, std::ssize(all)), all.end(),
                     [&](const tools::Tool& one) { return one.name == name; });
}

std::vector<std::string> ToolUse::reward_names() const {
  std::vector<std::string> out;
  if (!scores) return out;
  for (const std::string& name : environments) {
    const std::string of = pool->class_name(name);
    if (pool->has_reward(name) && std::find(out.begin(), out.end(), of) == out.end()) out.push_back(of);
  }
  return out;
}

std::vector<ActingPrompt> begin_dialogues(const std::vector<const data::PromptRow*>& rows,
                                          const rollout::GenerateOptions& options,
                                          const text::Tokenizer& tokenizer, ToolUse& use,
                                          ToolJournal* journal, std::vector<std::string>* changed) {
  const std::int64_t samples = options.samples;
  std::vector<ActingPrompt> out(rows.size());
  std::map<std::string, std::int64_t> instances;  // that each environment has so far
  std::map<std::uint64_t, std::size_t> asked;     // ticket -> completion
  std::vector<std::string> observations(rows.size() * static_cast<std::size_t>(samples));
  const bool by_column = !use.environments.empty() && !use.environments.front().empty();
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const data::PromptRow& row = *rows[i / static_cast<std::size_t>(samples)];
    Actor actor{.environment = use.environment_of(row)};
    if (!use.environments.empty()) {
      actor.instance = instances[actor.environment]++;
      asked[use.pool->reset(actor.environment, actor.instance, reset_row(row, by_column),
                            seed_of(options, i / static_cast<std::size_t>(samples)))] = i;
    }
    out[i / static_cast<std::size_t>(samples)].actors.push_back(std::move(actor));
  }
  while (!asked.empty()) {
    for (const tools::Done& done : use.pool->wait(/*block=*/true)) {
      const auto place = asked.find(done.ticket);
      if (place == asked.end()) continue;  // of a batch that an error has ended
      const std::size_t i = place->second;
      asked.erase(place);
      if (!done.failed) {
        observations[i] = done.text;
        continue;
      }
      const data::PromptRow& row = *rows[i / static_cast<std::size_t>(samples)];
      throw base::UserError({.where = row.where,
                             .expected = "an environment that reset() makes ready for this row",
                             .found = done.note.empty() ? done.text : done.note,
                             .fix = "correct reset(), or remove the row"});
    }
  }
  std::vector<data::PromptRow> read;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const std::size_t first = p * static_cast<std::size_t>(samples);
    for (std::size_t k = 1; k < static_cast<std::size_t>(samples); ++k) {
      if (observations[first + k] != observations[first])
        worlds_differ(*rows[p], use.pool->class_name(out[p].actors.front().environment), observations[first],
                      observations[first + k]);
    }
    std::string said = observations[first];
    if (journal != nullptr && !use.environments.empty()) {
      said = first_said(said, use.pool->class_name(out[p].actors.front().environment),
                        {.generation = options.step, .prompt = options.key_of(p), .index = kReset}, *journal,
                        changed);
    }
    read.push_back(said.empty() ? *rows[p] : with_observation(*rows[p], said));
  }
  for (std::size_t p = 0; p < rows.size(); ++p) out[p].prompt = read[p].prompt;
  std::vector<data::TokenizedPrompt> tokens = use.tokenize(std::move(read), tokenizer);
  for (std::size_t p = 0; p < rows.size(); ++p) {
    out[p].ids = std::move(tokens[p].ids);
    out[p].text = std::move(tokens[p].text);
  }
  return out;
}

std::vector<std::vector<double>> environment_rewards(
    const std::vector<ActingPrompt>& prompts, ToolUse& use,
    const std::function<void(std::size_t sample, const std::string& what)>& warn) {
  const std::vector<std::string> names = use.reward_names();
  std::vector<std::vector<double>> out;
  std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> asked;  // ticket -> completion, reward
  for (const ActingPrompt& prompt : prompts) {
    for (const Actor& actor : prompt.actors) {
      out.emplace_back(names.size(), rewards::kNone);
      if (names.empty() || actor.instance < 0 || !use.pool->has_reward(actor.environment)) continue;
      const auto place = std::find(names.begin(), names.end(), use.pool->class_name(actor.environment));
      asked[use.pool->reward(actor.environment, actor.instance)] = {
          out.size() - 1, static_cast<std::size_t>(place - names.begin())};
    }
  }
  while (!asked.empty()) {
    for (const tools::Done& done : use.pool->wait(/*block=*/true)) {
      const auto place = asked.find(done.ticket);
      if (place == asked.end()) continue;
      const auto [sample, reward] = place->second;
      asked.erase(place);
      out[sample][reward] = done.failed ? rewards::kNone : done.reward;
      if (done.failed) warn(sample, names[reward] + ": " + (done.note.empty() ? done.text : done.note));
    }
  }
  return out;
}

}  // namespace hone::train
