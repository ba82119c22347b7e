#include "commands/serving/serve.h"

#include <ATen/Parallel.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "base/process/process_memory.h"
#include "base/strings/plural.h"
#include "base/strings/printable.h"
#include "base/version.h"
#include "commands/commands.h"
#include "commands/decoding.h"
#include "commands/hub/hub_download.h"
#include "commands/ranks/placement.h"
#include "config/commands/tool_plans.h"
#include "model/config/rotations.h"
#include "serve/openai/openai_api.h"
#include "serve/router.h"
#include "serve/served.h"
#include "serve/tinker/api.h"
#include "text/stop_strings.h"
#include "train/facts/machine.h"
#include "train/opening/open_model.h"

namespace hone::commands {

namespace {

std::atomic<int> stop_signal = 0;

void on_stop(int signal) {
  stop_signal = signal;
}

// The second signal ends the process, as by default.
void end_on_signals() {
  struct sigaction action = {};
  action.sa_handler = &on_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

// Each connection is a descriptor.
void raise_descriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void prepare(const config::ServePlan& plan) {
  raise_descriptors();
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.threads)));
}

std::string key_of(const config::ServePlan& plan) {
  if (plan.api_key_env.empty()) return "";
  const char* const value = std::getenv(plan.api_key_env.c_str());
  if (value != nullptr && *value != '\0') return value;
  throw base::UserError({.where = "option api_key_env",
                         .expected = "a variable that holds the key",
                         .found = plan.api_key_env + " is not set",
                         .fix = "export " + plan.api_key_env + "=..., or leave the option out"});
}

std::string name_of(const config::ServePlan& plan) {
  if (!plan.served_model_name.empty()) return plan.served_model_name;
  std::filesystem::path path = plan.model_name_or_path;
  if (path.filename().empty()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

void add_adapters(const config::ServePlan& plan, OpenedModel& opened, serve::Weights& weights) {
  if (!opened.adapters) return;
  opened.adapters->deactivate();
  for (const config::NamedAdapter& one : plan.adapters) {
    const auto sides = opened.adapters->sides(one.name);
    if (sides == nullptr) {
      throw base::UserError({.where = one.folder,
                             .expected = "an adapter of LoRA or DoRA on linears, with finite values",
                             .found = "one that trains embeddings, whole tensors or experts",
                             .cause = "it cannot be in one batch with others",
                             .fix = "serve it alone: hone serve MODEL --adapter_name_or_path " + one.folder});
    }
    if (weights.find(one.name))
      throw base::UserError({.where = "option adapters",
                             .expected = "names that differ from the model's",
                             .found = "'" + one.name + "' twice",
                             .fix = "name it: --adapters NAME=" + one.folder});
    weights.set({.name = one.name, .version = sides, .parent = weights.base_name()});
  }
}

// A parser of turns with calls, or why there is none.
std::optional<tools::ResponseParser> open_parser(const train::OpenedText& text, const std::string& model,
                                                 std::string& why) {
  if (text.chat_template == nullptr) {
    why = "it has no chat template";
    return {};
  }
  try {
    return tools::ResponseParser::open(text.tokenizer, *text.chat_template, model);
  } catch (const base::UserError& error) {
    why = error.text().found;
    return {};
  }
}

std::string gigabytes(std::int64_t bytes) {
  const std::int64_t tenths = (bytes + 50'000'000) / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GB";
}

void say_plan(const config::ServePlan& plan, const OpenedModel& opened, const serve::Served& served,
              const serve::Weights& weights) {
  std::string adapters;
  for (const serve::NamedWeights& one : weights.all()) {
    if (!one.parent.empty()) adapters += (adapters.empty() ? "" : ", ") + one.name;
  }
  const auto free = base::free_memory_and_limit();
  std::cerr << "model     " << base::printable(weights.base_name()) << ", "
            << gigabytes(opened.model->parameter_bytes()) << ", " << served.max_length << " positions\n";
  if (!adapters.empty())
    std::cerr << "adapters  " << base::printable(adapters) << ", " << gigabytes(opened.adapters->bytes())
              << '\n';
  std::cerr << "keys      "
            << (plan.kv_memory > 0 ? gigabytes(plan.kv_memory) : "half of what is free when requests come")
            << ", " << gigabytes(static_cast<std::int64_t>(free.bytes)) << " free now; "
            << base::counted(plan.max_batch_size, "sequence") << " together, "
            << base::counted(plan.prefill_tokens, "token") << " of prompts a step\n";
  if (served.chat_template == nullptr) std::cerr << "chat      no: the tokenizer has no chat template\n";
  if (served.chat_template != nullptr && served.parser == nullptr)
    std::cerr << "tools     no: " << base::printable(served.no_parser) << '\n';
  std::cerr << "key       "
            << (plan.api_key_env.empty() ? "none: everybody on this machine may ask"
                                         : "in " + base::printable(plan.api_key_env) + "; there is no TLS")
            << '\n';
}

// Null: the model has an adapter of its own, which a client's LoRA would replace, or there is no folder for what clients
// train.
serve::TinkerApi* add_tinker(const config::ServePlan& plan, model::CausalLm& model,
                             const serve::Served& served, serve::Compute& compute, serve::Router& router) {
  if (plan.gradient_sums == "bins" && (plan.root.empty() || !plan.adapter_name_or_path.empty())) {
    throw base::UserError(
        {.where = "--gradient_sums",
         .expected = "clients that train",
         .found = plan.root.empty() ? "an empty root" : "adapter_name_or_path",
         .cause = "the server has no Tinker API then, and so no steps whose sums have an order",
         .fix = "leave gradient_sums out, or serve the model with a root and without an adapter"});
  }
  if (plan.root.empty()) return nullptr;
  if (!plan.adapter_name_or_path.empty()) {
    std::cerr << "training  no: adapter_name_or_path gives the model an adapter of its own\n";
    return nullptr;
  }
  serve::TinkerOptions options;
  options.model_name = served.root;
  options.root = plan.root;
  options.seed = served.seed;
  const bool in_bins = plan.gradient_sums == "bins";
  if (in_bins) options.datum_room = std::make_shared<serve::DatumRoom>();
  options.stop_ids = served.stop_ids;
  options.ends_with_stop = [&tokenizer = served.tokenizer](std::span<const std::int32_t> ids,
                                                           const std::vector<std::string>& stops) {
    return text::ends_with_stop(ids, stops, tokenizer);
  };
  options.drains = [&served] { return served.drains.load(); };
  options.max_context = served.max_length;
  const std::int64_t memory = plan.adapter_memory > 0 ? plan.adapter_memory : base::free_memory() / 8;
  options.adapter_memory = memory;
  options.waiting_requests = static_cast<std::size_t>(plan.max_waiting);
  auto tinker = std::make_unique<serve::TinkerApi>(model, compute, std::move(options));
  serve::TinkerApi* const out = tinker.get();
  router.add(std::move(tinker));
  std::cerr << "versions  " << gigabytes(memory)
            << " of weights that clients sample from; more of them are in a file in "
            << base::printable(plan.root) << '\n';
  if (in_bins) std::cerr << "gradients in the bins of a run: optim_step does the passes of its step again\n";
  return out;
}

// What clients have trained and not saved. Whether nothing is lost.
bool save_updates(serve::TinkerApi& tinker) {
  const serve::Autosaved saved = tinker.autosave();
  for (const std::string& path : saved.paths)
    std::cerr << "stopping  updates that were not saved are at " << base::printable(path) << std::endl;
  for (const std::string& failure : saved.failures)
    std::cerr << "stopping  updates are lost: " << base::printable(failure) << std::endl;
  return saved.failures.empty();
}

struct Ending {
  bool all_ended = false, all_saved = true;
};

// No new work; running requests have their time, and updates are saved.
Ending let_end(const config::ServePlan& plan, serve::Served& served, serve::HttpServer& network,
               serve::TinkerApi* tinker) {
  served.drains = true;
  const serve::SchedulerFacts running = served.scheduler.facts();
  std::cerr << "stopping  " << base::counted(static_cast<std::int64_t>(running.jobs), "request")
            << " running; once more: at once" << std::endl;
  Ending out{.all_ended = network.drain(plan.drain)};
  if (tinker != nullptr) out.all_saved = save_updates(*tinker);
  if (!out.all_ended) std::cerr << "stopping  some requests did not end within " << plan.drain << " s\n";
  return out;
}

// What equal tokens for a seed depend on, beside the request.
std::string fingerprint_of(const config::ServePlan& plan) {
  return std::string("hone-") + base::kHoneVersion + "-" + base::name_of(base::instruction_level()) + "-" +
         std::to_string(plan.seed);
}

// What requests ask and hold.
serve::SchedulerOptions scheduling(const config::ServePlan& plan) {
  return {.engine = {.batch_size = plan.max_batch_size,
                     .prefill_tokens = plan.prefill_tokens,
                     .kv_memory = plan.kv_memory,
                     .drafts = plan.drafts == "auto" ? rollout::Drafts::kAuto : rollout::Drafts::kOff},
          .training_share = plan.training_share};
}

// True where the tokenizer itself puts a token before a text.
bool begins_texts(const text::Tokenizer& tokenizer) {
  return tokenizer.encode("a", true).ids.front() != tokenizer.encode("a", false).ids.front();
}

std::unique_ptr<serve::HttpServer> open_network(const config::ServePlan& plan, const serve::Router& router) {
  return std::make_unique<serve::HttpServer>(
      serve::HttpOptions{.host = plan.host, .port = static_cast<int>(plan.port), .names = plan.host_names},
      [&router](const std::shared_ptr<serve::Exchange>& exchange) { router.handle(exchange); });
}

}  // namespace

int serve_while(config::ServePlan plan, const std::function<void(const Serving&)>& meanwhile) {
  place_and_tell(plan.device, plan.notes);
  print_notes(plan.notes);
  const std::string key = key_of(plan);
  prepare(plan);
  const train::OpenedText text =
      train::open_text(open_source(plan)->tokenizer_path(), plan.chat_template_path);
  print_notes(text.tokenizer.notes());
  OpenedModel opened = open_model(plan);
  serve::Weights weights(name_of(plan));
  add_adapters(plan, opened, weights);
  rollout::GenerateOptions ends = generate_options(plan, opened.model->config(), text.tokenizer);
  if (text.chat_template) stop_at_turn_end(ends, text, opened.model->config());
  std::string no_parser;
  const auto parser = open_parser(text, plan.model_name_or_path, no_parser);

  serve::Metrics metrics;
  auto background = std::make_unique<serve::TaskThread>();
  serve::Scheduler scheduler(*opened.model, scheduling(plan));
  serve::Served served{.model = *opened.model,
                       .tokenizer = text.tokenizer,
                       .chat_template = text.chat_template.get(),
                       .parser = parser ? &*parser : nullptr,
                       .no_parser = no_parser,
                       .template_variables = template_variables(plan),
                       .stop_ids = ends.stop_ids,
                       .max_length = model::longest_generated(opened.model->config()),
                       .seed = static_cast<std::uint64_t>(plan.seed),
                       .most_waiting = plan.max_waiting,
                       .raw_logprobs = plan.logprobs_mode == "raw",
                       .started = static_cast<std::int64_t>(std::time(nullptr)),
                       .fingerprint = fingerprint_of(plan),
                       .root = weights.base_name(),
                       .weights = weights,
                       .scheduler = scheduler,
                       .background = *background,
                       .metrics = metrics};
  serve::ScheduledCompute compute(scheduler);
  serve::Router router(key);
  router.add(std::make_unique<serve::openai::OpenAiApi>(served));
  serve::TinkerApi* const tinker = add_tinker(plan, *opened.model, served, compute, router);

  std::atomic<const serve::HttpServer*> listening = nullptr;
  served.connections = [&listening] {
    const serve::HttpServer* const now = listening;
    return now == nullptr ? std::int64_t{0} : now->connections();
  };
  if (tinker != nullptr) served.kept = [tinker] { return tinker->versions(); };
  say_plan(plan, opened, served, weights);
  end_on_signals();
  auto network = open_network(plan, router);
  listening = network.get();
  std::exception_ptr failure;
  try {
    meanwhile({.url = "http://" + plan.host + ":" + std::to_string(network->port()),
               .max_length = served.max_length,
               .begins_texts = begins_texts(text.tokenizer),
               .stop_signal = stop_signal});
  } catch (...) {
    failure = std::current_exception();
  }
  const Ending ending = let_end(plan, served, *network, tinker);
  listening = nullptr;
  scheduler.stop();
  network.reset();
  background.reset();
  if (failure) std::rethrow_exception(failure);
  return ending.all_saved ? 0 : 1;
}

int serve(const std::vector<std::string>& arguments) {
  const config::ServePlan plan = with_downloads([&] { return config::parse_serve(arguments); });
  return serve_while(plan, [](const Serving& serving) {
    std::cout << "serving   " << serving.url << std::endl;
    while (serving.stop_signal == 0) poll(nullptr, 0, 100);
  });
}

}  // namespace hone::commands
