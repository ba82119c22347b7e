// hone plan: what a run would need and take on other numbers of ranks. train/facts/rank_plan.h has the model.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/strings/printable.h"
#include "commands/commands.h"
#include "commands/hub/hub_download.h"
#include "commands/own_file.h"
#include "commands/recorded/recorded_script.h"
#include "config/commands/doctor_plan.h"
#include "config/method_traits.h"
#include "config/parse.h"
#include "config/placement.h"
#include "config/write_plan.h"
#include "doctor/tools/rank_probe.h"
#include "model/config/planned_bytes.h"
#include "parallel/bins.h"
#include "report/terminal/rank_table.h"
#include "train/facts/machine.h"
#include "train/facts/rank_plan.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_run.h"

namespace hone::commands {

namespace fs = base::fs;

namespace {

constexpr double kProbeSeconds = 1.5;
constexpr std::int64_t kNoLimit = 1'000'000'000'000'000;  // of the plan for one process: it is compared later

// The run's own words, but for its folder: none is made, and what lies there is not looked at.
std::vector<std::string> words_of(const config::RanksPlan& asked) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < asked.arguments.size(); ++at) {
    const std::string& word = asked.arguments[at];
    const bool ours = word.starts_with("--output_dir") || word.starts_with("--resume_from_checkpoint");
    if (!ours) out.push_back(word);
    if (ours && word.find('=') == std::string::npos) ++at;
  }
  const fs::path nowhere = fs::temp_directory_path() / ("hone-plan-" + std::to_string(getpid()));
  for (const std::string& word : {std::string("--output_dir"), nowhere.string(),
                                  std::string("--resume_from_checkpoint"), std::string("false")})
    out.push_back(word);
  return out;
}

// Of a pass over the data, or of as many micro-batches as the largest setting looks at.
std::vector<std::int64_t> micro_batches_of(const train::OpenedRun& run, std::int64_t most_ranks) {
  constexpr std::int64_t kSteps = 64;
  const auto most = static_cast<std::size_t>(kSteps * most_ranks * run.plan.gradient_accumulation_steps);
  std::vector<std::int64_t> out;
  for (std::int64_t step = 0; step < run.method->steps_per_epoch() && out.size() < most; ++step) {
    const std::vector<std::int64_t> costs = run.method->step_costs(step);
    if (costs.empty()) break;
    out.insert(out.end(), costs.begin(), costs.end());
  }
  return out;
}

// What is not known before completions are sampled: each has max_completion_length tokens.
void add_sampling(const train::OpenedRun& run, std::int64_t most_ranks, train::RankWork& work) {
  constexpr double kDecode = 2.0 / 3;         // a sampled token, in tokens of a forward and backward
  constexpr std::int64_t kBytesOfToken = 22;  // its number, two log-probabilities, its text twice
  constexpr std::int64_t kBytesOfSample = 256;
  const config::Plan& plan = run.plan;
  const bool pairs = !config::method_traits(plan.method).groups;
  const std::int64_t group = pairs ? 2 : plan.policy.num_generations;
  const std::int64_t samples = plan.per_device_train_batch_size * (pairs ? 2 : 1);
  const std::int64_t prompt = std::get<train::PolicyStartFacts>(run.start.method).longest_prompt;
  const std::int64_t tokens =
      samples * plan.policy.max_completion_length + std::max<std::int64_t>(1, samples / group) * prompt;
  work.micro_batches.assign(static_cast<std::size_t>(most_ranks * plan.gradient_accumulation_steps), tokens);
  const std::int64_t of_step =
      std::max<std::int64_t>(1, samples * plan.gradient_accumulation_steps / plan.policy.num_iterations);
  work.sampled_tokens = kDecode * static_cast<double>(of_step * plan.policy.max_completion_length);
  work.sampled_bytes = of_step * (plan.policy.max_completion_length * kBytesOfToken + kBytesOfSample);
}

train::RankWork work_of(const train::OpenedRun& run, std::int64_t most_ranks) {
  constexpr std::int64_t kFacts = 56, kMetric = 40, kRowMetrics = 2, kOtherMetrics = 12;
  train::RankWork out;
  out.accumulation = run.plan.gradient_accumulation_steps;
  out.parameters = run.memory_inputs->adapter_parameters;
  out.tree_sums = !run.adapter->is_full();
  if (run.adapter->is_full()) {
    out.zero_stage = run.plan.zero_stage;
    out.layers = run.model->config().num_hidden_layers;
    out.outside = run.memory_inputs->outside_parameters;
  }
  out.facts_bytes = kFacts + kMetric * (run.data.examples() != nullptr ? kRowMetrics : kOtherMetrics);
  out.micro_batches = micro_batches_of(run, most_ranks);
  if (run.data.samples()) {
    add_sampling(run, most_ranks, out);
  } else if (out.micro_batches.empty()) {
    const double tokens =
        std::max(1.0, run.start.mean_length) * static_cast<double>(run.plan.per_device_train_batch_size);
    out.micro_batches.assign(static_cast<std::size_t>(most_ranks * out.accumulation),
                             static_cast<std::int64_t>(tokens));
  }
  return out;
}

// Of the last line of metrics.jsonl that has them.
double measured_step(const std::string& folder) {
  const fs::path path = fs::path(folder) / "metrics.jsonl";
  const std::string text = base::read_text(path.string());
  double seconds = 0, steps = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const base::Json line = base::parse_json(text.substr(begin, end - begin), path.string());
    begin = end + 1;
    if (!line.is_object() || !line.contains("performance")) continue;
    const base::Json& performance = line["performance"];
    if (!performance.contains("seconds") || !performance.contains("steps")) continue;
    seconds = performance["seconds"].get<double>();
    steps = performance["steps"].get<double>();
  }
  if (steps > 0 && seconds > 0) return seconds / steps;
  throw base::UserError({.where = path.string(),
                         .expected = "a line with performance: seconds and steps",
                         .found = "none",
                         .cause = "the run ended before its first log",
                         .fix = "name another run, or leave --measured out"});
}

train::RankSpeed speed_of(const config::RanksPlan& asked, train::OpenedRun& run, const train::RankWork& work,
                          std::vector<std::string>& notes) {
  train::RankSpeed out;
  out.network_latency = asked.latency * 1e-6;
  out.network_bandwidth = asked.bandwidth * 1e9 / 8;
  const doctor::LinkSpeed links = doctor::probe_links();
  out.latency = links.latency;
  out.message = links.message;
  out.bandwidth = links.bandwidth;
  doctor::probe_passes(run, kProbeSeconds, out);
  const double given = asked.measured.empty() ? asked.step_seconds : measured_step(asked.measured);
  if (given == 0) return out;
  // The step as it was; how threads share it as measured now.
  double tokens = 0;
  for (const std::int64_t one : work.micro_batches) tokens += static_cast<double>(one);
  tokens *= static_cast<double>(work.accumulation) / static_cast<double>(work.micro_batches.size());
  const double token = std::max(given - out.optimizer, given / 2) / (tokens + work.sampled_tokens);
  const double factor = token / out.token(static_cast<double>(run.memory_inputs->threads));
  out.serial *= factor;
  out.divided *= factor;
  notes.push_back("a step of one process takes " + report::seconds_text(given) + ", as " +
                  (asked.measured.empty() ? "set" : "measured in " + asked.measured));
  return out;
}

train::Choices choices_of(const train::OpenedRun& run) {
  const train::MemoryInputs& inputs = *run.memory_inputs;
  const config::Plan& plan = run.plan;
  train::Choices out{.recompute = plan.recompute};
  constexpr std::int64_t kWorthwhile = 20;  // parts of the plan: less is not worth an option
  out.full_moments = plan.optim == learn::OptimizerKind::kAdamW &&
                     inputs.optimizer_bytes.value_or(0) > run.start.memory.total / kWorthwhile;
  for (std::int64_t size = plan.per_device_train_batch_size / 2; size >= 1; size /= 2) {
    if (plan.per_device_train_batch_size % size != 0) break;
    train::LongestBatch longest = inputs.train;
    if (const train::RecordData* const examples = run.data.examples()) {
      longest = train::longest_batch(*examples, size);
    } else {
      const std::int64_t most = size * longest.segment * (run.data.samples() ? 1 : 2);
      longest.tokens = std::min(longest.tokens, most);
      longest.scored = std::min(longest.scored, most);
    }
    out.batches.emplace_back(size, longest);
  }
  const bool can = plan.use_peft && plan.quantized_base == config::QuantizedBase::kNone &&
                   inputs.quantized.empty() && plan.init_lora_weights != config::LoraInit::kPissa;
  if (can) {
    out.quantized_base =
        model::planned_bytes(run.model->config(), run.model->dtypes().linear, run.model->dtypes().residual,
                             ops::QuantScheme{.type = ops::QuantType::kNf4});
  }
  return out;
}

train::RankWork kept_batch(const train::RankWork& work, std::int64_t ranks) {
  train::RankWork out = work;
  out.accumulation = std::max<std::int64_t>(1, (work.accumulation + ranks - 1) / ranks);
  const double share = static_cast<double>(out.accumulation) / static_cast<double>(work.accumulation);
  out.sampled_tokens *= share;
  out.sampled_bytes = static_cast<std::int64_t>(share * static_cast<double>(work.sampled_bytes));
  return out;
}

report::RankPlans plans_of(const config::RanksPlan& asked, train::OpenedRun& run) {
  const std::int64_t most = asked.host_counts.back() * asked.ranks_per_host.back();
  const train::RankWork work = work_of(run, most);
  report::RankPlans out;
  out.cores = asked.cores > 0 ? asked.cores : train::threads_or_default(0);
  out.cores_here = train::threads_or_default(0);
  config::MachinePlan here = run.plan;
  here.memory_limit = 0;
  out.memory = asked.memory > 0 ? asked.memory : train::memory_limit(here).bytes;
  out.memory_is_set = asked.memory > 0;
  out.speed = speed_of(asked, run, work, out.notes);
  out.parameters = work.parameters;
  const train::Choices choices = choices_of(run);
  for (const std::int64_t hosts : asked.host_counts) {
    for (const std::int64_t per_host : asked.ranks_per_host) {
      const train::RankSetting setting{
          .hosts = hosts, .per_host = per_host, .cores = out.cores, .set_threads = run.plan.threads};
      const train::RankWork own = asked.keep_batch ? kept_batch(work, setting.ranks()) : work;
      report::RankRow& row = out.rows.emplace_back();
      row.time = train::forecast(own, setting, out.speed);
      row.accumulation = own.accumulation;
      row.micro_batches = own.accumulation * setting.ranks();
      row.idle = static_cast<std::int64_t>(own.micro_batches.size()) < row.micro_batches;
      row.memory = train::rank_memory(*run.memory_inputs, own, setting, run.plan.recompute, out.memory);
      row.recompute = train::recompute_name(row.memory.plan.recompute);
      row.bits_of_one = parallel::bits_of_one_rank(static_cast<int>(setting.ranks()));
      if (!row.memory.fits())
        row.change = train::cheapest_that_fits(*run.memory_inputs, own, setting, choices, out.memory);
    }
  }
  if (run.data.samples())
    out.notes.emplace_back(
        "assumed: every completion has max_completion_length tokens, and a sampled token costs 2/3 "
        "of a trained one; rewards take no time");
  return out;
}

// What several processes need and take is a question about the CPU. A note for `auto`, else empty.
std::string hold_on_cpu(std::string& device) {
  const char* const why = "processes add their gradients up on the CPU";
  if (config::is_gpu(device)) {
    throw base::UserError({.where = "device",
                           .expected = "device: cpu for hone plan, which counts processes",
                           .found = device,
                           .cause = why,
                           .fix = "add --device cpu; hone doctor says what a run needs on a GPU"});
  }
  const bool chooses = device == config::kAutoDevice;
  if (chooses) device = "cpu";
  return chooses ? std::string("device auto: cpu, since ") + why : "";
}

std::string heading(const config::Plan& plan, const std::string& file) {
  return "hone plan   " + file + (file.empty() ? "" : " · ") + std::string(config::method_name(plan.method)) +
         " · " + std::to_string(plan.per_device_train_batch_size) + " x " +
         std::to_string(plan.gradient_accumulation_steps) + " rows a rank and step\n";
}

}  // namespace

int plan_ranks(const std::vector<std::string>& arguments) {
  config::RanksPlan asked = config::parse_ranks_plan(arguments);
  const RecordedScript recorded(asked);
  const OwnFile own(asked);
  config::Plan plan = with_downloads([&] { return config::parse_run(asked.method, words_of(asked)); });
  plan.memory_limit = kNoLimit;
  plan.cache_tokens = false;
  const std::string note = hold_on_cpu(plan.device);
  train::RunListener silent;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, silent);
  report::RankPlans plans = plans_of(asked, *run);
  if (!note.empty()) plans.notes.push_back(note);
  if (asked.json) {
    std::cout << base::printable_json(base::dump_json(report::rank_json(plans), 2)) << '\n';
  } else {
    std::cout << base::printable(heading(run->plan, asked.shown())) << report::rank_text(plans);
  }
  return 0;
}

}  // namespace hone::commands
