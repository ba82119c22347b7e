#include "train/batches/tool_rollouts.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/stopwatch.h"

namespace hone::train {

namespace {

using base::Json;

// A sample under way.
struct Acting {
  std::size_t index = 0, prompt = 0;
  rollout::RequestId id = 0;
  Actor actor;
  RolloutSample sample;
  std::string said;  // prompt and completion so far, with control tokens
  std::int64_t turn = 0, rounds = 0, failures_in_a_row = 0;
  // The calls of the newest turn that wait for results.
  std::vector<tools::Call> calls;
  std::vector<std::string> results;
  std::size_t missing = 0, first_call = 0;  // of sample.calls
  ActingNotes notes;
};

void append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

class ToolLoop {
 public:
  ToolLoop(const model::CausalLm& model, const std::vector<ActingPrompt>& prompts,
           const rollout::GenerateOptions& options, const text::Tokenizer& tokenizer, ToolUse& use,
           ToolJournal* journal, const OnActed& on_done)
      : positions_(model.config().max_position_embeddings),
        prompts_(prompts),
        options_(options),
        tokenizer_(tokenizer),
        use_(use),
        journal_(journal),
        on_done_(on_done),
        engine_(model, options) {
    for (const std::int32_t id : use.suffixes.turn_ends()) {
      if (std::find(options_.stop_ids.begin(), options_.stop_ids.end(), id) == options_.stop_ids.end())
        options_.stop_ids.push_back(id);
    }
  }

  double run() {
    double waited = 0;
    add_all();
    for (;;) {
      const bool sampled = engine_.advance();
      for (const rollout::Event& event : engine_.poll()) {
        if (event.has_ended) end_turn(*by_id_.at(event.id));
      }
      if (!sampled && use_.pool->under_way() == 0) return waited;
      const auto start = base::Clock::now();
      const std::vector<tools::Done> found = use_.pool->wait(!sampled);
      if (!sampled) waited += base::seconds_since(start);
      for (const tools::Done& done : found) take_result(done);
    }
  }

 private:
  struct Place {
    Acting* sample = nullptr;
    std::size_t call = 0;
  };

  void add_all() {
    const auto samples = static_cast<std::size_t>(options_.samples);
    all_.resize(prompts_.size() * samples);
    for (std::size_t p = 0; p < prompts_.size(); ++p) {
      const std::size_t key = options_.key_of(p);
      const rollout::RequestId first = engine_.add({.ids = prompts_[p].ids,
                                                    .options = options_,
                                                    .key = {.prompt = key},
                                                    .samples = options_.samples,
                                                    .where = "prompt " + std::to_string(key + 1),
                                                    .former = options_.former_of(p)});
      for (std::size_t k = 0; k < samples; ++k) {
        Acting& one = all_[p * samples + k];
        one.index = p * samples + k;
        one.prompt = p;
        one.id = first + k;
        one.actor = prompts_[p].actors.at(k);
        one.said = prompts_[p].text;
        one.sample.messages = Json::array();
        by_id_[one.id] = &one;
      }
    }
  }

  const Json& schemas(const std::string& environment) {
    const auto [place, is_new] = schemas_.try_emplace(environment);
    if (is_new) place->second = use_.schemas(environment);
    return place->second;
  }

  void end_turn(Acting& one) {
    const rollout::Completion& done = engine_.completion(one.id);
    RolloutSample& sample = one.sample;
    sample.ids.insert(sample.ids.end(), done.ids.begin(), done.ids.end());
    append(sample.old_logprobs, done.logprobs);
    append(sample.sampling_logprobs, done.sampled_logprobs);
    append(sample.entropies, done.entropies);
    sample.truncated = done.finish_reason == rollout::FinishReason::kLength;
    const std::string text = tokenizer_.decode(done.ids, false);
    tools::Turn turn =
        use_.parser.parse(one.said, text, tokenizer_.decode(done.ids, true), schemas(one.actor.environment));
    one.said += text;
    sample.messages.push_back(std::move(turn.message));
    const bool may_call = use_.most_rounds < 0 || one.rounds < use_.most_rounds;
    if (turn.calls.empty() || !may_call) {
      finish(one);
    } else {
      call(one, std::move(turn.calls));
    }
    one.turn += 1;
  }

  void call(Acting& one, std::vector<tools::Call> calls) {
    one.rounds += 1;
    one.calls = std::move(calls);
    one.results.assign(one.calls.size(), "");
    one.missing = one.calls.size();
    one.first_call = one.sample.calls.size();
    for (std::size_t i = 0; i < one.calls.size(); ++i) {
      const tools::Call& call = one.calls[i];
      one.sample.calls.push_back(
          {.turn = one.turn, .name = call.name, .arguments = call.arguments, .result = ""});
      const auto known = recorded(one, i);
      // A method is called all the same: its environment has to get into its state again.
      if (known && !use_.is_method(one.actor.environment, call.name)) {
        take(one, i, *known);
        continue;
      }
      const std::uint64_t ticket =
          use_.pool->call(one.actor.environment, one.actor.instance, call.name, call.arguments);
      waiting_[ticket] = {.sample = &one, .call = i};
    }
    if (one.missing == 0) go_on(one);
  }

  rollout::DrawKey key_of(const Acting& one) const {  // of what it draws next
    return {.prompt = options_.key_of(one.prompt),
            .sample = one.index % static_cast<std::size_t>(options_.samples),
            .position = one.sample.ids.size()};
  }

  CallPlace place_of(const Acting& one, std::size_t call) const {
    const rollout::DrawKey key = key_of(one);
    return {.generation = options_.step,
            .prompt = key.prompt,
            .sample = key.sample,
            .index = one.first_call + call};
  }

  std::optional<ToolCall> recorded(const Acting& one, std::size_t call) const {
    if (journal_ == nullptr) return std::nullopt;
    return journal_->find(place_of(one, call), one.sample.calls[one.first_call + call]);
  }

  void take(Acting& one, std::size_t call, const ToolCall& found) {
    ToolCall& record = one.sample.calls[one.first_call + call];
    record.result = one.results[call] = found.result;
    record.failed = found.failed;
    record.seconds = found.seconds;
    one.missing -= 1;
  }

  void take_result(const tools::Done& done) {
    const auto place = waiting_.find(done.ticket);
    if (place == waiting_.end()) return;  // of a batch that an error has ended
    Acting& one = *place->second.sample;
    const std::size_t call = place->second.call;
    waiting_.erase(place);
    ToolCall found = one.sample.calls[one.first_call + call];
    found.result = shortened(done.text);
    found.failed = done.failed;
    found.seconds = done.seconds;
    if (!done.note.empty()) one.notes.calls.push_back(done.note);
    if (const auto known = recorded(one, call)) {
      if (known->result != found.result) {
        one.notes.changed.push_back(
            "the tool " + found.name +
            " changed its answer: the run that this one goes on read another, which is kept");
      }
      found = *known;
    } else if (journal_ != nullptr) {
      journal_->write(place_of(one, call), found);
    }
    take(one, call, found);
    if (one.missing == 0) go_on(one);
  }

  // Its middle is left out where it has too many tokens.
  std::string shortened(const std::string& text) const {
    const auto most = static_cast<std::size_t>(use_.most_result_tokens);
    if (most == 0 || text.size() <= most) return text;  // a token has at least one byte
    const std::vector<std::int32_t> ids = tokenizer_.encode(text, false).ids;
    if (ids.size() <= most) return text;
    const std::span<const std::int32_t> all = ids;
    const std::size_t head = (most + 1) / 2, tail = most - head;
    return tokenizer_.decode(all.first(head), false) + "\n[... " + std::to_string(ids.size() - most) +
           " tokens left out ...]\n" + tokenizer_.decode(all.last(tail), false);
  }

  bool gives_up(Acting& one) const {
    for (std::size_t i = one.first_call; i < one.sample.calls.size(); ++i)
      one.failures_in_a_row = one.sample.calls[i].failed ? one.failures_in_a_row + 1 : 0;
    return use_.failures_to_stop > 0 && one.failures_in_a_row >= use_.failures_to_stop;
  }

  // All results of a turn are there.
  void go_on(Acting& one) {
    RolloutSample& sample = one.sample;
    if (gives_up(one)) return finish(one);
    std::vector<std::int32_t> suffix;
    try {
      suffix = use_.suffixes.suffix(one.calls, one.results, sample.ids.back());
    } catch (const base::UserError& error) {  // of what the model or a tool wrote
      one.notes.calls.push_back("the chat template could not write the results: " + error.text().found);
      return finish(one);
    }
    const std::int64_t length = std::ssize(sample.ids) + std::ssize(suffix);
    const std::int64_t prompt = std::ssize(prompts_[one.prompt].ids);
    if (length > options_.max_new_tokens || prompt + length >= positions_) return finish(one);
    sample.given.push_back({.begin = std::ssize(sample.ids), .end = length});
    sample.ids.insert(sample.ids.end(), suffix.begin(), suffix.end());
    one.said += tokenizer_.decode(suffix, false);
    for (std::size_t i = 0; i < one.calls.size(); ++i) {
      sample.messages.push_back({{"role", "tool"}, {"name", one.calls[i].name}, {"content", one.results[i]}});
    }
    if (length == options_.max_new_tokens) {
      sample.truncated = true;
      return finish(one);
    }
    rollout::RequestOptions next = options_;
    next.max_new_tokens = options_.max_new_tokens - length;
    engine_.append(one.id, {.ids = suffix, .options = std::move(next), .key = key_of(one)});
  }

  void finish(Acting& one) {
    engine_.forget(one.id);
    one.sample.text = tokenizer_.decode(one.sample.ids, true);
    on_done_(one.index, std::move(one.sample), one.notes);
  }

  const std::int64_t positions_;
  const std::vector<ActingPrompt>& prompts_;
  rollout::GenerateOptions options_;
  const text::Tokenizer& tokenizer_;
  ToolUse& use_;
  ToolJournal* const journal_;
  const OnActed& on_done_;
  rollout::Engine engine_;
  std::vector<Acting> all_;
  std::map<rollout::RequestId, Acting*> by_id_;
  std::map<std::uint64_t, Place> waiting_;  // by ticket
  std::map<std::string, Json> schemas_;     // by environment
};

}  // namespace

double generate_with_tools(const model::CausalLm& model, const std::vector<ActingPrompt>& prompts,
                           const rollout::GenerateOptions& options, const text::Tokenizer& tokenizer,
                           ToolUse& use, ToolJournal* journal, const OnActed& on_done) {
  return ToolLoop(model, prompts, options, tokenizer, use, journal, on_done).run();
}

}  // namespace hone::train
