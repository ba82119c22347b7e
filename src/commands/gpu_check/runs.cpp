// A tiny model: steps of three methods, sampling, and checkpoints that change the device.
#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

#include "commands/gpu_check/made_runs.h"
#include "commands/gpu_check/stage.h"
#include "commands/gpu_check/tiny_model.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "rollout/generate.h"
#include "train/passes/scored_pass.h"

namespace hone::commands {

namespace {

namespace fs = base::fs;
using config::Method;

// Of fp32 and bf16 runs: losses, gradient norms and weights after a few steps, as shares.
constexpr double kFp32 = 1e-3, kBf16 = 1e-1;
constexpr double kMeanGap = 0.02;  // of log-probabilities between sampler and trainer

struct MadeCase {
  std::string name;
  Method method;
  std::string rows;
  std::vector<std::string> words;
};

std::vector<MadeCase> cases() {
  const std::vector<std::string> common = {
      "--max_steps",     "3",    "--per_device_train_batch_size", "4",
      "--learning_rate", "1e-3", "--lora_target_modules",         "all-linear",
      "--save_strategy", "no"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return more;
  };
  return {
      {"sft", Method::kSft, "texts.jsonl", with({"--lora_dropout", "0"})},
      {"sft with dropout", Method::kSft, "texts.jsonl", with({"--lora_dropout", "0.1"})},
      {"sft in 4 bits", Method::kSft, "texts.jsonl", with({"--lora_dropout", "0", "--load_in_4bit", "true"})},
      {"dpo", Method::kDpo, "pairs.jsonl", with({"--lora_dropout", "0"})},
      {"grpo", Method::kGrpo, "prompts.jsonl",
       with({"--lora_dropout", "0", "--reward_funcs", "length(target=6)", "--num_generations", "4",
             "--max_completion_length", "8"})},
  };
}

fs::path made(const StageInput& input) {
  make_rows(input.scratch);
  return make_model(input.scratch / "tiny", kTinyShape);
}

MadeRun run_of(const MadeCase& one, const StageInput& input, const std::string& device, bool bf16) {
  std::string folder = one.name + (bf16 ? " bf16 " : " fp32 ") + device;
  for (char& letter : folder)
    if (letter == ' ' || letter == ':') letter = '_';
  return {.method = one.method,
          .model = made(input),
          .rows = input.scratch / one.rows,
          .output = input.scratch / "runs" / folder,
          .bf16 = bf16,
          .words = one.words,
          .device = device};
}

model::DtypePolicy dtypes_of(bool bf16) {
  return {.linear = bf16 ? at::kBFloat16 : at::kFloat, .residual = at::kFloat};
}

std::vector<rollout::Completion> sampled(const model::CausalLm& model) {
  rollout::GenerateOptions options;
  options.max_new_tokens = 32;
  options.samples = 4;
  options.seed = 3;
  options.sampler.temperature = 0.9;
  return rollout::generate(model, {{40, 41, 42, 43, 50}, {60, 61}, {70, 75, 80, 85, 90, 95, 100, 105}},
                           options);
}

// -sum of log p of a completion after its prompt, at temperature 1, by the trainer's pass.
double trainers_sum(const model::CausalLm& model, const std::vector<std::int32_t>& prompt,
                    const rollout::Completion& one) {
  data::Batch batch;
  for (const std::int32_t id : prompt) {
    batch.ids.push_back(id);
    batch.labels.push_back(data::kIgnore);
  }
  for (const std::int32_t id : one.ids) {
    batch.ids.push_back(id);
    batch.labels.push_back(id);
  }
  batch.positions.resize(batch.ids.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.segments.push_back({.begin = 0, .end = static_cast<std::int64_t>(batch.ids.size())});
  return train::score_batch(model, batch, {}).nll_sum;
}

void compare_sampling(const StageInput& input, StageLog& log, bool bf16) {
  const std::string name = bf16 ? "bf16" : "fp32";
  const auto source = model::open_weights(made(input));
  const model::CausalLm cpu(*source, dtypes_of(bf16), model::Storage::kPacked),
      there(*source, dtypes_of(bf16), model::Storage::kPacked, {}, input.device);
  log.begin(name + ": tokens of 12 completions");
  const std::vector<rollout::Completion> expected = sampled(cpu), found = sampled(there);
  std::int64_t same = 0, tokens = 0;
  double gap = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    bool so_far = true;
    for (std::size_t t = 0; t < expected[i].ids.size(); ++t) {
      so_far = so_far && t < found[i].ids.size() && found[i].ids[t] == expected[i].ids[t];
      tokens += 1;
      if (!so_far) continue;
      same += 1;
      gap = std::max(gap, std::abs(static_cast<double>(found[i].logprobs[t]) - expected[i].logprobs[t]));
    }
  }
  log.fact(name + ": tokens as on the CPU", std::to_string(same) + " of " + std::to_string(tokens));
  log.fact(name + ": largest difference of their log-probabilities", gap);
  // A draw near a border falls on the other side for a last bit: in fp32 of a few hundred draws, next to none.
  if (!bf16 && same * 100 < tokens * 90) log.fail("fewer than 90 of 100 tokens are the CPU's");
  if (gap > (bf16 ? 0.2 : 1e-3) || std::isnan(gap))
    log.fail("log-probabilities differ by " + std::to_string(gap));
}

void compare_sampler_and_trainer(const StageInput& input, StageLog& log, bool bf16) {
  const std::string name = bf16 ? "bf16" : "fp32";
  const auto source = model::open_weights(made(input));
  const model::CausalLm there(*source, dtypes_of(bf16), model::Storage::kPacked, {}, input.device);
  log.begin(name + ": log-probabilities of sampler and trainer");
  rollout::GenerateOptions options;
  options.max_new_tokens = 32;
  options.sampler.temperature = 1;
  const std::vector<std::int32_t> prompt = {40, 41, 42, 43, 50};
  double sum = 0, largest = 0;
  constexpr int kCompletions = 8;
  for (int i = 0; i < kCompletions; ++i) {
    options.seed = static_cast<std::uint64_t>(i);
    const rollout::Completion one = rollout::generate(there, {prompt}, options).front();
    const double sampler = -std::accumulate(one.logprobs.begin(), one.logprobs.end(), 0.0);
    const double mean = std::abs(sampler - trainers_sum(there, prompt, one)) /
                        std::max<double>(1, static_cast<double>(one.ids.size()));
    sum += mean;
    largest = std::max(largest, mean);
  }
  log.fact(name + ": mean gap a token", sum / kCompletions);
  log.fact(name + ": largest of a completion", largest);
  if (!(sum / kCompletions <= kMeanGap)) log.fail("a mean gap of " + std::to_string(sum / kCompletions));
}

// Nothing was computed, or nothing was saved.
bool is_zero(const RunResult& run) {
  for (const auto& [name, values] : run.weights) {
    for (const float one : values)
      if (one != 0) return false;
  }
  return true;
}

}  // namespace

void stage_methods(const StageInput& input, StageLog& log) {
  for (const MadeCase& one : cases()) {
    for (const bool bf16 : {false, true}) {
      // In bf16 another token is drawn sooner or later, and all after it are others.
      if (bf16 && config::samples(one.method)) continue;
      const std::string name = one.name + (bf16 ? ", bf16" : ", fp32");
      log.begin(name);
      const RunResult cpu = train_made(run_of(one, input, "cpu", bf16));
      const RunResult there = train_made(run_of(one, input, input.device.str(), bf16));
      double worst = 0;
      const std::string difference = first_difference(cpu, there, bf16 ? kBf16 : kFp32, worst);
      log.fact(name, worst);
      if (!difference.empty()) log.fail(difference);
    }
  }
  log.begin("grpo, bf16, on the device only");
  const RunResult alone = train_made(run_of(cases().back(), input, input.device.str(), true));
  for (const train::StepFacts& step : alone.steps)
    if (!std::isfinite(step.loss)) log.fail("a loss that is not finite");
}

void stage_sampling(const StageInput& input, StageLog& log) {
  for (const bool bf16 : {false, true}) {
    compare_sampling(input, log, bf16);
    compare_sampler_and_trainer(input, log, bf16);
  }
}

void stage_checkpoint(const StageInput& input, StageLog& log) {
  const MadeCase one = {"resumed",
                        Method::kSft,
                        "texts.jsonl",
                        {"--max_steps", "6", "--per_device_train_batch_size", "4", "--learning_rate", "1e-3",
                         "--save_steps", "3", "--lora_dropout", "0.1"}};
  const std::string device = input.device.str();
  // Three steps on the first, three more on the second; against six on the second alone.
  const auto resumed = [&](const std::string& first, const std::string& second, bool bf16) {
    MadeRun run = run_of(one, input, first, bf16);
    run.output += "_to_" + std::string(second == "cpu" ? "cpu" : "device");
    run.stop_after = 3;
    train_made(run);
    run.stop_after = 0;
    run.device = second;
    run.words.insert(run.words.end(), {"--resume_from_checkpoint", "true"});
    RunResult out = train_made(run);
    out.steps.clear();  // of the second half only
    return out;
  };
  const auto whole = [&](bool bf16) {
    RunResult out = train_made(run_of(one, input, device, bf16));
    out.steps.clear();
    return out;
  };
  for (const bool bf16 : {false, true}) {
    const std::string name = bf16 ? "bf16: " : "fp32: ";
    const RunResult uninterrupted = whole(bf16);
    if (is_zero(uninterrupted)) log.fail(name + "a run on the device leaves weights of 0");
    for (const auto& [first, second, bound] : {std::tuple(device, device, 0.0),
                                               {std::string("cpu"), device, bf16 ? kBf16 : kFp32},
                                               {device, std::string("cpu"), bf16 ? kBf16 : kFp32}}) {
      log.begin(name + first + " to " + second);
      double worst = 0;
      const std::string difference =
          first_difference(uninterrupted, resumed(first, second, bf16), bound, worst);
      log.fact(name + first + " to " + second, worst);
      if (!difference.empty()) log.fail(difference);
    }
  }
}

}  // namespace hone::commands
