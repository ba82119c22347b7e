// hone verify-served URL --adapter FOLDER: what a server makes of an adapter.
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/strings/plural.h"
#include "base/strings/printable.h"
#include "commands/commands.h"
#include "commands/decoding.h"
#include "commands/hub/hub_download.h"
#include "commands/ranks/placement.h"
#include "commands/verify/hypotheses.h"
#include "commands/verify/served_template.h"
#include "commands/verify/served_verdict.h"
#include "config/commands/verify_plan.h"
#include "data/forms/prompts.h"
#include "doctor/tools/merged_model.h"
#include "rollout/generate.h"
#include "train/facts/machine.h"

namespace hone::commands {

namespace {

using base::Json;

// All that is found.
struct Verified {
  ServedNames names;
  std::vector<adapters::KeyGroup> keys;
  std::vector<ServedScores> served;
  bool by_prompts = false;
  std::vector<Measured> measured;
  TemplateFinding rendering;
  std::string by_name;  // what the adapter's name alone is answered by, where that is something else
  ServedVerdict verdict;
};

config::DecodingPlan opening(const config::VerifyPlan& plan, const std::string& base,
                             const std::string& adapter) {
  config::DecodingPlan out;
  out.model_name_or_path = base;
  out.adapter_name_or_path = adapter;
  out.device = plan.device;
  out.precision = plan.bf16 ? config::Precision::kBFloat16 : config::Precision::kFloat32;
  return out;
}

std::vector<Json> prompts_of(const config::VerifyPlan& plan) {
  std::vector<Json> out(doctor::check_prompts().begin(), doctor::check_prompts().end());
  if (!plan.prompts.empty()) out = data::read_prompts(plan.prompts);
  out.resize(std::min(out.size(), static_cast<std::size_t>(plan.count)));
  return out;
}

// The prompts, each with what the model of the adapter says behind it: there the adapter matters most.
std::vector<AskedText> texts_to_ask(const config::VerifyPlan& plan, const model::CausalLm& model,
                                    const train::OpenedText& text) {
  std::vector<AskedText> out;
  std::vector<std::vector<std::int32_t>> ids;
  for (const Json& prompt : prompts_of(plan)) {
    const bool chat = text.chat_template != nullptr;
    ids.push_back(encode_prompt(prompt, text, chat));
    out.push_back(
        {.prompt_text = text.tokenizer.decode(ids.back(), false), .prompt = ids.back(), .more = {}});
  }
  rollout::GenerateOptions options = generate_options({}, model.config(), text.tokenizer);
  options.max_new_tokens = plan.tokens;
  options.stop_ids.clear();
  options.logprobs = false;
  const std::vector<rollout::Completion> completions = rollout::generate(model, ids, options);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].more = completions.at(i).ids;
  return out;
}

std::vector<std::vector<float>> own_of(const model::CausalLm& model,
                                       const std::vector<ServedScores>& served) {
  std::vector<std::vector<float>> out;
  for (const ServedScores& one : served) out.push_back(own_logprobs(model, one));
  return out;
}

Measured measured_of(Hypothesis hypothesis, const model::CausalLm& model,
                     const std::vector<ServedScores>& served) {
  std::vector<std::vector<float>> own = own_of(model, served);
  const double far = distance(served, own);
  return {.hypothesis = std::move(hypothesis), .distance = far, .own = std::move(own)};
}

void measure(model::CausalLm& model, const adapters::Adapter& adapter, Verified& found) {
  Hypotheses hypotheses(model, adapter);
  for (std::size_t i = 0; i < hypotheses.all().size(); ++i) {
    const Hypothesis& one = hypotheses.all()[i];
    hypotheses.put(i);
    found.measured.push_back(measured_of(one, model, found.served));
  }
}

// The base that the user suspects, alone and with the adapter where it fits.
void measure_other(const config::VerifyPlan& plan, Verified& found) {
  const auto add = [&](const std::string& adapter, const char* code, const char* words) {
    try {
      const OpenedModel other =
          open_model(opening(plan, plan.other_base, adapter), /*tells_of_embedding=*/false);
      found.measured.push_back(measured_of({.code = code,
                                            .words = words,
                                            .cause = "the server was started with " + plan.other_base,
                                            .fix = "start it with the base of the training"},
                                           *other.model, found.served));
    } catch (const base::UserError& error) {
      print_notes({"other_base: not compared: " + error.text().where + ": " + error.text().found});
    }
  };
  add("", "other_base", "the other base answers, without the adapter");
  add(plan.adapter, "other_base_adapter", "the adapter is applied to the other base");
}

constexpr double kOtherAnswers = 0.05;  // a token, of two answers of one server

// SGLang answers a name without a base before it from the base, also one of its own list.
std::string answered_by_name(const ServedModel& served, const AskedText& asked, const ServedScores& scores,
                             double limit) {
  const std::optional<ServedScores> said = served.score_by_name(asked);
  // Both are of one server, so rounding moves them little.
  if (!said || !(distance({scores}, {said->logprobs}) > std::min(limit, kOtherAnswers))) return "";
  const ServedNames& names = served.names();
  return "a request of OpenAI's form that says model '" + names.adapter +
         "' has other answers than the adapter; write '" + names.base + ":" + names.adapter +
         "', or lora_path beside it";
}

std::string line_of(const adapters::KeyGroup& group) {
  std::string out = "keys      " + std::string(adapters::fate_name(group.fate)) + " " +
                    base::counted(group.keys, "tensor") + ": " + group.what + "\n";
  if (!group.why.empty())
    out += "          " + group.why + ", such as " + base::printable(group.example) + "\n";
  if (!group.fix.empty()) out += "          do: " + group.fix + "\n";
  return out;
}

// "          base_only               1.2031  <-"
std::string line_of(const Measured& one, bool is_found) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "          %-20s %9.4f%s\n", one.hypothesis.code.c_str(),
                one.distance, is_found ? "  <-" : "");
  return text.data();
}

void print(const config::VerifyPlan& plan, const Verified& found) {
  std::cout << base::printable("served    " + plan.url + " · " +
                               std::string(adapters::server_name(found.names.server)) + " · model " +
                               found.names.adapter)
            << '\n';
  for (const adapters::KeyGroup& group : found.keys) std::cout << line_of(group);
  std::cout << "asked     " << base::counted(static_cast<std::int64_t>(found.served.size()), "text") << ", "
            << base::counted(counted_tokens(found.served), "token")
            << (found.by_prompts ? " that were sent" : " that the server generated")
            << "; mean |difference| of log-probabilities:\n";
  for (const Measured& one : found.measured)
    std::cout << line_of(one, one.hypothesis.code == found.verdict.code);
  const bool differs = found.rendering.state == TemplateFinding::State::kDiffers;
  std::cout << "template  " << (differs ? "DIFFERS: " : "") << base::printable(found.rendering.what) << '\n';
  if (!found.by_name.empty()) std::cout << "name      " << base::printable(found.by_name) << '\n';
  std::cout << "RESULT    " << (found.verdict.is_applied ? "ok    " : "FAIL  ") << found.verdict.code << ": "
            << base::printable(found.verdict.what) << '\n';
  if (!found.verdict.cause.empty())
    std::cout << "          cause: " << base::printable(found.verdict.cause) << '\n';
  if (!found.verdict.fix.empty()) std::cout << "          do: " << base::printable(found.verdict.fix) << '\n';
}

Json as_json(const config::VerifyPlan& plan, const Verified& found) {
  Json keys = Json::array(), distances = Json::object();
  for (const adapters::KeyGroup& group : found.keys)
    keys.push_back({{"fate", adapters::fate_name(group.fate)},
                    {"what", group.what},
                    {"tensors", group.keys},
                    {"why", group.why},
                    {"do", group.fix},
                    {"example", group.example}});
  for (const Measured& one : found.measured) distances[one.hypothesis.code] = one.distance;
  constexpr std::array<const char*, 3> kStates = {"equal", "differs", "not compared"};
  return {{"url", plan.url},
          {"server", adapters::server_name(found.names.server)},
          {"model", found.names.adapter},
          {"keys", std::move(keys)},
          {"texts", found.served.size()},
          {"tokens", counted_tokens(found.served)},
          {"distances", std::move(distances)},
          {"template",
           {{"state", kStates.at(static_cast<std::size_t>(found.rendering.state))},
            {"what", found.rendering.what}}},
          {"name", found.by_name},
          {"verdict",
           {{"code", found.verdict.code},
            {"what", found.verdict.what},
            {"cause", found.verdict.cause},
            {"do", found.verdict.fix}}}};
}

// Weights that are right and a template that is not make wrong answers all the same.
void count_template(Verified& found) {
  if (!found.verdict.is_applied || found.rendering.state != TemplateFinding::State::kDiffers) return;
  found.verdict = {
      .code = "wrong_template",
      .what = "the adapter is applied, and conversations are rendered in another way than in training",
      .cause = "the server takes its template from the base, or from an option of its own",
      .fix = "give the server the chat template of the adapter's folder (--chat-template, TEMPLATE)",
      .is_applied = false};
}

void require_key(const std::string& variable) {
  if (variable.empty()) return;
  const char* const key = std::getenv(variable.c_str());
  if (key != nullptr && *key != '\0') return;
  throw base::UserError({.where = "option api_key_env",
                         .expected = "a variable that holds the key",
                         .found = variable + " is not set",
                         .fix = "export " + variable + "=..., or leave the option out"});
}

Verified verify(const config::VerifyPlan& plan) {
  require_key(plan.api_key_env);
  python::HttpCalls http({.url = plan.url,
                          .key_env = plan.api_key_env,
                          .seconds = plan.timeout,
                          .python = plan.python,
                          .when_late = "give it more time with --timeout, or fewer prompts with --count"});
  const ServedModel served(http, plan.server, plan.served_model_name, plan.adapter);
  Verified found;
  found.names = served.names();
  found.by_prompts = served.scores_prompts();
  const config::DecodingPlan right = opening(plan, plan.base, plan.adapter);
  const train::OpenedText text =
      train::open_text(open_source(right)->tokenizer_path(), plan.chat_template_path);
  {
    const OpenedModel opened = open_model(right, /*tells_of_embedding=*/false);
    found.keys = adapters::keys_on_server(plan.adapter, opened.model->config(), found.names.server);
    const std::vector<AskedText> texts = texts_to_ask(plan, *opened.model, text);
    for (const AskedText& asked : texts)
      found.served.push_back(served.score(asked, plan.tokens, text.tokenizer));
    if (counted_tokens(found.served) == 0)
      http.refuse("", "log-probabilities of some tokens", "none that can be compared",
                  "ask other prompts with --prompts FILE.jsonl");
    found.by_name = answered_by_name(served, texts.front(), found.served.front(), plan.limit);
    measure(*opened.model, *opened.adapter, found);
  }
  if (!plan.other_base.empty()) measure_other(plan, found);
  found.rendering = compare_templates(served, text);
  found.verdict = verdict_of(found.served, found.measured, plan.limit);
  count_template(found);
  return found;
}

}  // namespace

int verify_served(const std::vector<std::string>& arguments) {
  config::VerifyPlan plan = with_downloads([&] { return config::parse_verify(arguments); });
  place_and_tell(plan.device, plan.notes);
  print_notes(plan.notes);
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.threads)));
  const Verified found = verify(plan);
  if (plan.json) {
    std::cout << base::dump_json(as_json(plan, found), 2) << '\n';
  } else {
    print(plan, found);
  }
  return found.verdict.is_applied ? 0 : base::kUserMistake;
}

}  // namespace hone::commands
